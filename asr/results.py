"""What a recogniser answers: the text of one recording, with times and confidences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asr.commands import Meaning, SpokenCommand


@dataclass(frozen=True)
class Word:
    """One word as heard."""

    word: str
    start: float  # seconds from the beginning of the recording
    end: float  # seconds; start <= end
    confidence: float  # 0 … 1

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: times and confidence with three decimals."""
        return {"word": self.word, "start": _r(self.start), "end": _r(self.end), "confidence": _r(self.confidence)}


@dataclass(frozen=True)
class Segment:
    """A stretch of speech between two pauses, as a subtitle would show it."""

    start: float  # seconds from the beginning of the recording
    end: float  # seconds; start <= end
    text: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: times with three decimals."""
        return {"start": _r(self.start), "end": _r(self.end), "text": self.text}


@dataclass(frozen=True)
class Result:
    """The transcript of one recording; text is "" (with no words and no segments) where nobody speaks."""

    audio_filepath: str | None  # as the caller named it; None for samples in memory
    duration: float  # seconds of sound
    text: str
    confidence: float  # 0 … 1, how sure the answer is: the text, that nobody speaks, the command, or that there is none
    words: tuple[Word, ...] = ()
    segments: tuple[Segment, ...] = ()
    meaning: Meaning | None = None  # where phrases were given to compare with; its command is the first of commands
    commands: tuple[SpokenCommand, ...] = ()  # in order: a long recording, of several pieces, may hold several
    no_speech: bool = False  # whether nobody speaks in it
    seconds_cut: float = 0.0  # of the duration, that were not listened to, since nobody speaks there
    warnings: tuple[str, ...] = ()  # on the recording, where the service answers; elsewhere they are AudioWarnings

    def to_dict(self) -> dict[str, Any]:
        """The fields of `cepstra transcribe --format json`, in its order; times and confidences with three decimals."""
        meaning: dict[str, Any] = {}
        if self.meaning is not None:
            meaning = self.meaning.to_dict() | {"commands": [each.to_dict() for each in self.commands]}
        return {
            "audio_filepath": self.audio_filepath,
            "duration": _r(self.duration),
            "text": self.text,
            "confidence": _r(self.confidence),
            "words": [word.to_dict() for word in self.words],
            "segments": [segment.to_dict() for segment in self.segments],
            "no_speech": self.no_speech,
            "seconds_cut": _r(self.seconds_cut),
            **meaning,
        }


def _r(value: float) -> float:
    """Three decimals: a millisecond, a tenth of what a frame can tell. Numpy scalars become plain floats."""
    return round(float(value), 3)
