"""The message that begins a stream: how its sound is coded, and how it shall be answered."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from asr.inflow import Inflow, OpusInflow, PcmInflow
from asr.service.errors import RequestError
from asr.service.stream import Wishes
from audio.pcm import HIGHEST_RATE, LOWEST_RATE, Encoding, RawFormat

NAME: Final = "the stream"  # in messages
PCM: Final[dict[str, Encoding]] = {"pcm_s16le": "PCM_16", "pcm_f32le": "FLOAT"}
OPUS: Final = "ogg_opus"
MOST_CHANNELS: Final = 8
SHORTEST_PAUSE, LONGEST_PAUSE = 100, 5000  # ms


@dataclass(frozen=True)
class Start:
    """What a client says of its stream, all of it optional."""

    encoding: str = "pcm_s16le"
    sample_rate: int = 16000
    channels: int = 1
    partial: bool = True
    pause_ms: float = 500
    wishes: Wishes = field(default_factory=Wishes)

    @classmethod
    def of(cls, message: dict[str, Any]) -> Start:
        """Raises RequestError for a field that isn't known, or doesn't fit."""
        known = ("type", "encoding", "sample_rate", "channels", "partial", "pause_ms", "phrases", "threshold", "boost")
        for name in message:
            if name not in known:
                raise RequestError(f"{name!r}: not a field of start; it has {', '.join(known)}", param=str(name))
        encoding = message.get("encoding", cls.encoding)
        if not isinstance(encoding, str) or encoding not in (*PCM, OPUS):
            raise RequestError(f"encoding: use one of {', '.join((*PCM, OPUS))}", param="encoding")
        partial = message.get("partial", cls.partial)
        if not isinstance(partial, bool):
            raise RequestError("partial: give true or false", param="partial")
        return cls(
            encoding=encoding,
            sample_rate=int(number(message, "sample_rate", cls.sample_rate, LOWEST_RATE, HIGHEST_RATE, whole=True)),
            channels=int(number(message, "channels", cls.channels, 1, MOST_CHANNELS, whole=True)),
            partial=partial,
            pause_ms=number(message, "pause_ms", cls.pause_ms, SHORTEST_PAUSE, LONGEST_PAUSE),
            wishes=Wishes(
                phrases=_phrases(message),
                threshold=None if message.get("threshold") is None else number(message, "threshold", 0, 0, 1),
                boost=_boost(message),
            ),
        )

    def inflow(self) -> Inflow:
        """What makes samples of its bytes."""
        if self.encoding == OPUS:
            return OpusInflow(NAME)
        return PcmInflow(RawFormat(PCM[self.encoding], self.sample_rate, self.channels), NAME)

    def to_dict(self) -> dict[str, Any]:
        """What holds, as the answer tells it; the rate and the channels of Opus are its own."""
        sound = {} if self.encoding == OPUS else {"sample_rate": self.sample_rate, "channels": self.channels}
        return {
            "encoding": self.encoding,
            **sound,
            "phrases": self.wishes.phrases,
            "partial": self.partial,
            "pause_ms": self.pause_ms,
        }


def parse(text: str) -> dict[str, Any]:
    """The object that a text message holds; RequestError where it holds something else."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError("a text message that isn't JSON; send sound as binary messages") from None
    if not isinstance(message, dict):
        raise RequestError('a text message that is no object; send {"type": "start"} or {"type": "stop"}')
    return message


def number(
    message: dict[str, Any], name: str, default: float, least: float, most: float, *, whole: bool = False
) -> float:
    """A field that holds a number; RequestError where it doesn't."""
    value = message.get(name, default)
    if not _is_number(value) or not least <= value <= most or (whole and value != int(value)):
        kind = "a whole number" if whole else "a number"
        raise RequestError(f"{name}: give {kind} from {least:g} to {most:g}", param=name)
    return float(value)


def _is_number(value: object) -> TypeGuard[float]:
    """Whether it is finite as a float too, which not every whole number that JSON can hold is."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _phrases(message: dict[str, Any]) -> str | None:
    name = message.get("phrases")
    if name is not None and (not isinstance(name, str) or not name):
        raise RequestError("phrases: give the name of a phrase set, or null", param="phrases")
    return name


def _boost(message: dict[str, Any]) -> dict[str, float] | None:
    boost = message.get("boost")
    if boost is None:
        return None
    if not isinstance(boost, dict):
        raise RequestError("boost: give an object of words and phrases with their weights", param="boost")
    for weight in boost.values():
        if not _is_number(weight):
            raise RequestError("boost: every weight is a number", param="boost")
    return {phrase: float(weight) for phrase, weight in boost.items()} or None
