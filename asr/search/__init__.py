"""Decoding: from encoder memory to text. Written once, in numpy, for the torch model and the exported graphs alike."""

from typing import Any

from asr.search.backend import Backend, Cache, Memory
from asr.search.beam import beam
from asr.search.greedy import greedy
from asr.search.guide import Blend, Guide
from asr.search.hypothesis import CTC_WEIGHT, Hypothesis, SearchOptions

__all__ = [
    "CTC_WEIGHT",
    "Backend",
    "Blend",
    "Cache",
    "Guide",
    "Hypothesis",
    "Memory",
    "SearchOptions",
    "beam",
    "decode",
    "greedy",
]


def decode(
    backend: Backend, memory: Memory, seconds: list[float], options: SearchOptions, guide: Guide[Any] | None = None
) -> list[Hypothesis]:
    """The best hypothesis of each utterance in memory, by the search that the options name.

    seconds: (B,) how long each utterance is; bounds how many tokens it may have. guide: what is added in the ranking
    at every step; log-probabilities in the answer stay the model's.
    """
    if options.beam == 1 and len(seconds) == 1:  # several share their steps, which saves more than drafts do
        return greedy(backend, memory, seconds, options, guide)
    return [hypotheses[0] for hypotheses in beam(backend, memory, seconds, options, guide=guide)]
