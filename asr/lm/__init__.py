"""Language models over a bundle's tokens: what is likely to be said next, learnt from text alone."""

from asr.lm.file import LanguageModel, Lm, read_lm, write_lm
from asr.lm.ngram import NGram
from asr.lm.skips import Skips
from asr.lm.training import train_lm

__all__ = ["LanguageModel", "Lm", "NGram", "Skips", "read_lm", "train_lm", "write_lm"]
