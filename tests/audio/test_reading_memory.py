"""Reading long sound takes little more memory than the sound itself."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 900
PROGRAM = """
import resource, sys
from audio.reading import read_audio
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
samples = read_audio(sys.argv[1])
print(len(samples), samples.nbytes, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in other units elsewhere")
@pytest.mark.parametrize("rate", [16000, 22050])
def test_long_sound_is_in_memory_once(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, np.tile(np.arange(-500, 500, dtype=np.int16), SECONDS * rate // 1000), rate)
    # A program of its own: what pytest has had in memory would hide it
    answer = subprocess.run([sys.executable, "-c", PROGRAM, path], capture_output=True, text=True, check=True)
    count, size, peak = map(int, answer.stdout.split())
    assert count == pytest.approx(SECONDS * 16000, abs=1000)
    assert peak < 1.3 * size + 8e6
