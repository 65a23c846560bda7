"""Phrase files: the sentences that a machine understands, and their graph for a search."""

from asr.phrases.merging import merged
from asr.phrases.phrase_set import Command, PhraseSet
from asr.phrases.token_graph import TokenGraph

__all__ = ["Command", "PhraseSet", "TokenGraph", "merged"]
