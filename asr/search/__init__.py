"""Decoding: from encoder memory to text. Written once, in numpy, for the torch model and the exported graphs alike."""

from asr.search.backend import Backend, Cache, Memory
from asr.search.beam import beam
from asr.search.greedy import greedy
from asr.search.hypothesis import Hypothesis, SearchOptions

__all__ = ["Backend", "Cache", "Hypothesis", "Memory", "SearchOptions", "beam", "decode", "greedy"]


def decode(backend: Backend, memory: Memory, seconds: list[float], options: SearchOptions) -> list[Hypothesis]:
    """The best hypothesis of each utterance in memory, by the search that the options name.

    seconds: (B,) how long each utterance is; bounds how many tokens it may have.
    """
    if options.beam == 1 and not options.ctc_weight:
        return greedy(backend, memory, seconds, options)
    return [hypotheses[0] for hypotheses in beam(backend, memory, seconds, options)]
