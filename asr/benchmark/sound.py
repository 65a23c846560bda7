"""The sound that is timed: real speech of any length, the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from audio.errors import AudioError
from audio.reading import audio_info, read_audio

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The recordings of data_manifests/samples one after the other, as Ogg Opus: an installed Cepstra has no data_manifests
SPEECH = Path(__file__).parent / "speech.ogg"


@dataclass(frozen=True)
class Sound:
    """Speech that clips are cut from."""

    samples: NDArray[np.float32]  # (N,) mono
    rate: int  # Hz
    name: str  # for people

    def clip(self, seconds: float) -> NDArray[np.float32]:
        """Its beginning, (N,); where it is shorter, it comes again."""
        return np.resize(self.samples, max(1, round(seconds * self.rate)))

    def write(self, path: Path, seconds: float) -> None:
        """The clip as a 16-bit WAV file."""
        soundfile.write(path, self.clip(seconds), self.rate, subtype="PCM_16")


def shipped_sound() -> Sound:
    """The sample commands that ship, joined: 16 kHz, no pauses but the speaker's own."""
    return Sound(read_audio(SPEECH, sample_rate=16000), 16000, "the sample commands that ship with Cepstra, joined")


def sound_of(path: Path) -> Sound:
    """A recording of the user's, at its own rate, so that resampling it is timed. Raises AudioError."""
    if str(path) == "-" or path.is_fifo():
        raise AudioError(f"{path}: a pipe, which can be read only once; give a sound file")
    rate = audio_info(path).sample_rate
    return Sound(read_audio(path, sample_rate=rate), rate, str(path))
