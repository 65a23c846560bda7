"""A stream of sound taken apart into utterances, as somebody speaks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asr.source import LOUD
from audio.vad import RATE, Endpointer, Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Array = NDArray[np.float32]

MAX_SECONDS = 30.0  # of an utterance: longer talk is answered in parts
BLOCK_SECONDS = 0.1  # of sound that are judged at a time


@dataclass(frozen=True)
class Began:
    """Somebody has begun to speak."""

    start: float  # seconds of the stream


@dataclass(frozen=True)
class Spoken:
    """The sound of one utterance, which has ended."""

    samples: Array  # (N,) at 16 kHz, with up to half a second of quiet on either side
    start: float  # seconds of the stream
    end: float
    waited: float  # seconds of the stream that have come since speech ended


class Utterances:
    """Takes a stream at 16 kHz apart into utterances; holds no more than one, and half a second before it."""

    def __init__(self, *, pause_seconds: float = 0.5) -> None:
        """pause_seconds: of silence that end an utterance. Raises AudioError for a pause that can't be."""
        self._endpointer = Endpointer(pause_seconds=pause_seconds, max_seconds=MAX_SECONDS)
        self._kept = np.zeros(0, np.float32)
        self._first = 0  # of what is kept, in samples of the stream
        self._fed = 0
        self._start: int | None = None

    @property
    def level(self) -> float:
        """Mean power about which the stream is at present."""
        return self._endpointer.level

    @property
    def held(self) -> int:
        """Samples that are in memory."""
        return len(self._kept)

    @property
    def current(self) -> Array | None:
        """What there is of the utterance that is being spoken, (N,) at 16 kHz; None while nobody speaks."""
        return None if self._start is None else self._kept[self._start - self._first :]

    def feed(self, samples: Array) -> Iterator[Began | Spoken]:
        """What the stream comes to with these samples, (N,) of full scale ±1; what lies far beyond that is clipped."""
        step = round(BLOCK_SECONDS * RATE)  # a large block would be kept whole, and be answered late
        for at in range(0, len(samples), step):
            block = np.clip(samples[at : at + step], -LOUD, LOUD)
            self._kept = np.concatenate([self._kept, block])
            self._fed += len(block)
            yield from self._told(self._endpointer.feed(block))
            forget = min(self._endpointer.needed, self._fed) - self._first
            if forget > 0:
                self._kept, self._first = self._kept[forget:].copy(), self._first + forget

    def finish(self) -> Iterator[Began | Spoken]:
        """The stream is over."""
        yield from self._told(self._endpointer.finish())

    def _told(self, events: Iterable[Event]) -> Iterator[Began | Spoken]:
        for event in events:
            if event.kind == "started":
                self._start = event.position
                yield Began(event.position / RATE)
            elif self._start is not None:
                start, self._start = self._start, None
                samples = self._kept[start - self._first : event.position - self._first]
                waited = max(0, self._fed - event.speech) / RATE
                yield Spoken(samples, start / RATE, event.position / RATE, waited)
