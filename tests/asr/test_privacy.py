"""Nothing is told to anybody, and nothing is left in the home folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "data_manifests" / "samples" / "computer_speed_up.wav"
PROGRAMS = {
    "command line": "import sys, asr.cli; sys.argv = ['cepstra', 'transcribe', PATH]; asr.cli.main()",
    "Python": "from asr.recognizer import Recognizer; Recognizer().transcribe(PATH)",
    "speech detection": "from audio import reading, vad; vad.probabilities(reading.read_audio(PATH))",
    "export": "import export.convert, onnxruntime",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_onnx_runtime_is_asked_to_tell_nothing(program: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "MPLCONFIGDIR": str(tmp_path)}
    text = PROGRAMS[program].replace("PATH", repr(str(SAMPLE)))
    subprocess.run([sys.executable, "-c", text], env=environment, check=True, capture_output=True)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and "onnxruntime" in str(path).lower()]
    assert not kept


def test_whoever_wants_it_told_may_say_so(tmp_path: Path) -> None:
    environment = os.environ | {"HOME": str(tmp_path), "ORT_DISABLE_TELEMETRY": "0"}
    program = "import os, audio; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    told = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert told.stdout == "0\n"
