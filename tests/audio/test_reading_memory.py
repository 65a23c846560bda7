"""Reading long sound takes little more memory than the sound itself, or none where it may lie on the disk."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from audio.reading import read_audio, read_sound
from audio.speech import phrases
from audio.stored import StoredSamples

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 900
PROGRAM = """
import math, resource, sys
from audio.reading import read_sound
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
samples = read_sound(sys.argv[1], held_seconds=float(sys.argv[2]))
print(len(samples), 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in other units elsewhere")
@pytest.mark.parametrize("rate", [16000, 22050])
@pytest.mark.parametrize("held", ["inf", "60"])
def test_long_sound_is_in_memory_once_or_not_at_all(tmp_path: Path, rate: int, held: str) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, np.tile(np.arange(-500, 500, dtype=np.int16), SECONDS * rate // 1000), rate)
    # A program of its own: what pytest has had in memory would hide it
    answer = subprocess.run([sys.executable, "-c", PROGRAM, path, held], capture_output=True, text=True, check=True)
    count, peak = map(int, answer.stdout.split())
    assert count == pytest.approx(SECONDS * 16000, abs=1000)
    assert peak < (1.3 * 4 * count if held == "inf" else 1.3 * 4 * 60 * 16000) + 8e6


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """A minute of bursts of noise, with pauses."""
    rng, seconds = np.random.default_rng(0), 60
    bursts = np.repeat(rng.random(seconds) < 0.7, 22050) * rng.normal(size=seconds * 22050) * 0.1
    path = tmp_path / "speech.flac"
    soundfile.write(path, bursts, 22050)
    return path


def test_what_lies_on_the_disk_is_the_same_sound(speech: Path) -> None:
    whole, stored = read_audio(speech), read_sound(speech, held_seconds=7)
    assert isinstance(stored, StoredSamples)
    assert isinstance(read_sound(speech, held_seconds=61), np.ndarray)
    assert len(stored) == len(whole)
    for part in (slice(None), slice(5), slice(16000, 50001), slice(-100, None), slice(9, 9), slice(9, 3)):
        np.testing.assert_array_equal(stored[part], whole[part])
    assert phrases(stored, 16000) == phrases(whole, 16000)
    with pytest.raises(ValueError, match="neighbouring"):
        stored[::2]


@pytest.mark.parametrize("after", [0, 1, 3])  # writes that still find room
def test_without_room_on_the_disk_sound_stays_in_memory(
    speech: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    append, written = StoredSamples.append, []

    def full(self: StoredSamples, part: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
        written.append(len(part))
        if len(written) > after:
            raise OSError(28, "No space left on device")
        append(self, part)

    monkeypatch.setattr(StoredSamples, "append", full)
    samples = read_sound(speech, held_seconds=7)
    assert isinstance(samples, np.ndarray)
    np.testing.assert_array_equal(samples, read_audio(speech))


def test_without_a_place_for_files_sound_stays_in_memory(speech: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(**_options: object) -> None:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr("audio.stored.tempfile.TemporaryFile", nowhere)
    np.testing.assert_array_equal(read_sound(speech, held_seconds=7)[:], read_audio(speech))


FULL = """
import resource, sys
import numpy as np
from audio.reading import read_audio, read_sound

whole = read_audio(sys.argv[1])
for limit in range(len(whole) * 4 - 20000, len(whole) * 4 + 1, 1777):  # bytes that a file may have
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    sound = read_sound(sys.argv[1], held_seconds=7)
    assert np.array_equal(sound[:], whole), limit
    del sound
print("the same")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of the size of files")
def test_a_disk_that_is_full_at_any_byte_costs_nothing(speech: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL, speech], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("the same\n", "")
