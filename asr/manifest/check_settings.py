"""What `cepstra manifest check` counts as a fault."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from asr.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Sequence

# every code that a fault may have
CODES = (
    "not-json", "not-utf8", "missing-key", "misnamed-key", "bad-value", "missing-text-file", "no-rows",
    "missing-audio", "unreadable-audio", "damaged-audio", "wrong-duration", "past-end", "silence", "near-silence",
    "clipping", "empty-text", "unspeakable-text", "unspeakable-characters", "text-too-long", "text-too-fast",
    "same-audio", "same-speaker", "conflicting-text", "duplicate-row",
)  # fmt: skip


@dataclass(frozen=True)
class SoundLimits:
    """From where on sound counts as faulty."""

    duration_tolerance: float = 0.1  # seconds between what the manifest says and what the file holds
    clipped_share: float = 0.005  # of the samples
    silence_dbfs: float = -55.0  # RMS of the loudest 50 ms against full scale


@dataclass(frozen=True)
class CheckSettings:
    """What counts as a fault."""

    language: str = "en"
    audio: bool = True  # open the sounds; without it only rows and texts are looked at
    max_characters_per_second: float = 28.0  # of normalised text without spaces; single words cut tightly reach 27
    sound: SoundLimits = field(default_factory=SoundLimits)
    ignore: Sequence[str] = ()  # codes of faults that are all right

    def __post_init__(self) -> None:
        """Raises ManifestError where `ignore` holds an unknown code."""
        if unknown := set(self.ignore) - set(CODES):
            raise ManifestError(f"{min(unknown)}: no known fault: the known ones are {', '.join(CODES)}")
