"""A long recording lies on the disk while its pieces are decoded: the same text, in the memory of a short one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from asr.pieces import WINDOW_SECONDS
from asr.recognizer import Recognizer
from tests.heard import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained

PROGRAM = """
import resource, sys
from asr.recognizer import Recognizer
recognizer = Recognizer()
peaks = []
for path in sys.argv[1:]:
    recognizer.transcribe(path)
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(*peaks)
"""


def test_a_file_is_heard_as_its_samples_are(toy: tuple[Trained, Bundle], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    loud = np.repeat(rng.random(140) < 0.6, 16000)
    assert len(loud) > WINDOW_SECONDS * 16000
    samples = (loud * rng.normal(size=len(loud)) * 0.1).astype(np.float32)
    soundfile.write(tmp_path / "long.wav", samples, 16000, subtype="FLOAT")
    recognizer = Recognizer(toy[1], speech_detection=False)
    from_file, from_memory = recognizer.transcribe(tmp_path / "long.wav"), recognizer.transcribe(samples)
    assert from_memory.words
    assert from_file.duration == from_memory.duration == 140
    assert from_file.words == from_memory.words


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in other units elsewhere")
def test_memory_does_not_grow_with_length(tmp_path: Path) -> None:
    clips = [soundfile.read(path, dtype="int16")[0] for path in sorted(SAMPLES.glob("*.wav"))]
    pause = np.zeros(16000, np.int16)
    for name, minutes in (("2.wav", 2), ("20.wav", 20)):
        with soundfile.SoundFile(tmp_path / name, "w", 16000, 1, "PCM_16") as file:
            while file.tell() < minutes * 60 * 16000:
                for clip in clips:
                    file.write(clip)
                    file.write(pause)
    paths = [tmp_path / "2.wav", tmp_path / "20.wav"]
    ran = subprocess.run([sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, check=True)
    short, long = map(float, ran.stdout.split())
    assert long - short < 18 * 60 * 16000 * 4 / 2**20 / 3  # MiB; the samples alone would be 66
