"""Where the time of one transcription goes, seen from the back end: who calls it when."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.search.backend import Backend, Cache, Floats, Ints, Memory


@dataclass(frozen=True)
class Call:
    """One call of the back end, on the clock of time.perf_counter."""

    kind: Literal["encode", "step"]
    start: float  # s
    end: float
    lengths: Any  # encode: samples of each clip; step: positions of each row's memory
    tokens: int = 0  # step: that each row reads
    past: int = 0  # step: tokens before them

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start

    @property
    def sizes(self) -> list[int]:
        """`lengths` as plain numbers."""
        return [int(length) for length in np.asarray(self.lengths)]


@dataclass
class TimedBackend:
    """Another back end, with notes of every call; they add a microsecond to each, outside of what is timed."""

    backend: Backend
    calls: list[Call] = field(default_factory=list)

    @property
    def at_once(self) -> int:
        """As the other has it."""
        return self.backend.at_once

    @at_once.setter
    def at_once(self, tokens: int) -> None:
        self.backend.at_once = tokens

    def encode(self, samples: Sequence[Floats]) -> Memory:
        """As the other does."""
        start = time.perf_counter()
        memory = self.backend.encode(samples)
        self.calls.append(Call("encode", start, time.perf_counter(), [len(clip) for clip in samples]))
        return memory

    def step(self, tokens: Ints, cache: Cache) -> tuple[Floats, Cache]:
        """As the other does."""
        start = time.perf_counter()
        answer = self.backend.step(tokens, cache)
        end = time.perf_counter()
        self.calls.append(Call("step", start, end, cache.lengths, tokens.shape[1], cache.past_k.shape[3]))
        return answer


@dataclass(frozen=True)
class Spans:
    """Seconds of a transcription by who had them; together they are all of it."""

    before: float  # until the encoder starts: reading, and where somebody speaks
    encoder: float
    decoder: float
    search: float  # between the encoder and the decoder's steps
    words: float  # after the last step: when each word was said, how surely, and the answer


def spans(calls: Sequence[Call], start: float, end: float) -> Spans:
    """What lay in and between the calls of a transcription from `start` to `end`, in seconds of the same clock."""
    if not calls:
        return Spans(end - start, 0.0, 0.0, 0.0, 0.0)
    search = words = 0.0
    for before, call in pairwise(calls):
        gap = call.start - before.end
        if call.kind == "step":
            search += gap
        else:  # the words of one batch, before the next is encoded
            words += gap
    return Spans(
        before=calls[0].start - start,
        encoder=sum(call.seconds for call in calls if call.kind == "encode"),
        decoder=sum(call.seconds for call in calls if call.kind == "step"),
        search=search,
        words=words + end - calls[-1].end,
    )
