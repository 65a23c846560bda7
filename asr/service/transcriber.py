"""What every door of the service asks for: sound in, a result out."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asr.errors import CepstraError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from asr.results import Result

Sound: TypeAlias = NDArray[np.float32] | Path
"""Mono samples (N,) at the model's rate and full scale ±1, or a file of the service's own that holds any kind of sound."""


class Urgency(IntEnum):
    """Who goes first; smaller is sooner."""

    LIVE = 0  # somebody has just stopped speaking, and waits
    SHORT = 1  # a whole recording no longer than one piece
    LONG = 2  # a piece of a long recording
    PARTIAL = 3  # a guess at what is still being said


class ServiceError(CepstraError):
    """A request that isn't answered as asked, with the status that HTTP has for it."""

    status = 500
    code = "server_error"

    def __init__(self, message: str, *, param: str | None = None, retry_after: int | None = None) -> None:
        """param: the field at fault. retry_after: seconds after which it may work."""
        super().__init__(message)
        self.param, self.retry_after = param, retry_after


class BadRequest(ServiceError):
    """What was asked can't be done."""

    status = 400
    code = "invalid_request"


class NotFound(ServiceError):
    """There is no such thing."""

    status = 404
    code = "not_found"


class TooLarge(ServiceError):
    """More than the service takes."""

    status = 413
    code = "too_large"


class Busy(ServiceError):
    """As many wait as may."""

    status = 503
    code = "busy"


class TookTooLong(ServiceError):
    """No answer within the time that the settings allow."""

    status = 504
    code = "timeout"


class Transcriber(Protocol):
    """The pool of workers, or what stands in for it."""

    rate: int  # Hz, of samples
    model: str  # the bundle's name
    language: str  # ISO 639-1

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
        Raises AudioError for sound that can't be read, GuidanceError for a boost that can't be used, NotFound for
        unknown phrases, Busy when too many wait, TooLarge for sound that lasts too long, TookTooLong.
        """
        ...
