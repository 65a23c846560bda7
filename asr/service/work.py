"""What goes between the service and its workers: tasks one way, answers the other. All of it can be pickled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from asr.service.transcriber import Sound


@dataclass(frozen=True)
class Setup:
    """How a worker is made."""

    bundle: Path  # a copy of the service's own: the original may change at any time
    beam: int
    threads: int
    max_seconds: float  # of a recording
    niceness: int = 0
    memory_bytes: int = 0  # more than that ends the worker rather than the machine; 0: no limit


@dataclass(frozen=True)
class Manner:
    """What a recording is held to or guided by; recordings of one manner can be decoded together."""

    phrases: str = ""  # the text of a phrase file; "": free text
    name: str = ""  # of the phrases, for messages
    threshold: float | None = None
    boost: tuple[tuple[str, float], ...] = ()
    lenient: bool = False  # leave out what of the boost can't be used


@dataclass(frozen=True)
class Transcribe:
    """Recordings no longer than a piece -> a list of Result, of Long for those that are longer, and of errors."""

    sounds: tuple[Sound, ...]
    manner: Manner


@dataclass(frozen=True)
class Open:
    """A long recording -> Opened: its samples are written to a file beside it."""

    sound: Path
    samples: Path


@dataclass(frozen=True)
class Part:
    """Pieces of an opened recording -> a list of (seconds, Piece)."""

    samples: Path
    pieces: tuple[tuple[int, int], ...]  # first sample and end of each
    manner: Manner


@dataclass(frozen=True)
class CheckPhrases:
    """The text of a phrase file -> Checked."""

    name: str
    text: str


@dataclass(frozen=True)
class Long:
    """A recording of more than one piece, that has to be opened first."""


@dataclass(frozen=True)
class Opened:
    """A recording whose samples were written down, float32 at the model's rate."""

    duration: float  # seconds
    pieces: tuple[tuple[int, int], ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checked:
    """What a phrase file holds."""

    sentences: int
    intents: tuple[str, ...]
    words: int
    samples: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ready:
    """A worker's first words."""

    model: str
    language: str
    rate: int
    digest: str = ""  # of the bundle's file: the beginning of its SHA-256
    threshold: float = 0.0  # the least confidence of a command


Task: TypeAlias = Transcribe | Open | Part | CheckPhrases


@dataclass(frozen=True)
class Timed:
    """An answer, the seconds that its stages took, and tracebacks of what nobody thought of, for the log."""

    answer: Any
    seconds: dict[str, float] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
