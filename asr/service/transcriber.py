"""What every door of the service asks for: sound in, a result out."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from asr.results import Result

Sound: TypeAlias = NDArray[np.float32] | Path
"""Mono samples (N,) at the model's rate and full scale ±1, or a file of the service's own with any kind of sound."""


class Urgency(IntEnum):
    """Who goes first; smaller is sooner."""

    LIVE = 0  # somebody has just stopped speaking, and waits
    SHORT = 1  # a whole recording no longer than one piece
    PARTIAL = 2  # a guess at what is still being said
    LONG = 3  # a piece of a long recording


class Transcriber(Protocol):
    """The pool of workers, or what stands in for it."""

    @property
    def rate(self) -> int:
        """Hz, of samples."""
        ...

    @property
    def model(self) -> str:
        """The bundle's name."""
        ...

    @property
    def language(self) -> str:
        """ISO 639-1."""
        ...

    async def transcribe(
        self,
        sound: Sound,
        *,
        phrases: str | None = None,
        threshold: float | None = None,
        boost: Mapping[str, float] | None = None,
        urgency: Urgency = Urgency.SHORT,
    ) -> Result:
        """What is said.

        phrases: the name of a stored set that it is held to. threshold: the least confidence that makes a command, in
        place of the bundle's. boost: words and phrases to expect, with weights. Cancelling it takes it from the queue.
        Raises AudioError for sound that can't be read, GuidanceError for a boost that can't be used, NotFoundError for
        unknown phrases, BusyError when too many wait, TooLargeError for sound that lasts too long, LateError.
        """
        ...
