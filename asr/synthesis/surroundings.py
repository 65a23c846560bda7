"""Rooms and noise around synthetic speech: recordings of them, decoded once for all processes, or generated ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from asr.errors import AudioError, SynthesisError
from asr.manifest import read_manifest
from asr.manifest.parallel import parallel
from audio.augmentation import AugmentationConfig, Augmenter
from audio.reading import read_audio
from audio.synthesis import SAMPLE_RATE

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_SOUNDS: Final = {".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64", ".sph"}

# Speed and level are the voice's own, and varied already
VARIED: Final = AugmentationConfig(
    speed_probability=0,
    crop_probability=0,
    padding_probability=0.5,
    room_probability=0.5,
    noise_probability=0.7,
    noise_snr_db=(5.0, 30.0),
    gain_probability=0,
    narrow_band_probability=0,
)


@dataclass(frozen=True)
class Sounds:
    """Recordings in one flat file of float32 samples at 16 kHz."""

    path: str
    spans: tuple[tuple[int, int], ...]  # (first sample, number of samples)

    def arrays(self) -> list[NDArray[np.float32]]:
        """Each (N,), mapped into memory."""
        return [np.memmap(self.path, np.float32, "r", offset=4 * start, shape=(count,)) for start, count in self.spans]


@dataclass(frozen=True)
class Surroundings:
    """None: generated."""

    noises: Sounds | None = None
    rooms: Sounds | None = None


def augmenter(surroundings: Surroundings) -> Augmenter:
    """What lays them over an utterance."""
    noises, rooms = (sounds.arrays() if sounds else [] for sounds in (surroundings.noises, surroundings.rooms))
    return Augmenter(VARIED, noises, rooms, sample_rate=SAMPLE_RATE)


def gather(source: Path, into: Path, what: str) -> Sounds:
    """Decode the recordings of a folder or a manifest into a flat file.

    what: the option, for errors. Raises SynthesisError where there is none, AudioError where one can't be read.
    """
    stretches: list[tuple[Path, float, float | None]]
    if not source.exists():
        raise SynthesisError(f"{what} {source}: there is no such folder or manifest; check the path")
    if source.is_dir():
        found = sorted(path for path in source.rglob("*") if path.suffix.lower() in _SOUNDS)
        stretches = [(path, 0.0, None) for path in found]
    else:
        stretches = [(row.audio_filepath, row.offset, row.duration or None) for row in read_manifest(source)]
    if not stretches:
        raise SynthesisError(f"{what} {source}: holds no recordings; give a folder of sound files, or a manifest")
    spans: list[tuple[int, int]] = []
    start = 0
    try:
        with into.open("wb") as file:
            for samples in parallel(_decoded, stretches, workers=None, progress=None):
                if len(samples):
                    file.write(samples.tobytes())
                    spans.append((start, len(samples)))
                    start += len(samples)
    except AudioError as error:
        raise SynthesisError(f"{what} {error}") from None
    except OSError as error:
        raise SynthesisError(f"{into}: can't be written ({error.strerror}); check permissions and space") from None
    return Sounds(str(into), tuple(spans))


def _decoded(stretch: tuple[Path, float, float | None]) -> NDArray[np.float32]:
    path, offset, duration = stretch
    return read_audio(path, sample_rate=SAMPLE_RATE, offset=offset, duration=duration)
