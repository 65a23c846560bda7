"""A fault of a file is said in the same words, whether the service or the command line is asked."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

if TYPE_CHECKING:
    from tests.asr.service.conftest import Service


def wave(seconds: float, container: str = "WAV", subtype: str = "PCM_16", value: float = 0.0) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.full(round(seconds * 8000), value), 8000, format=container, subtype=subtype)
    return file.getvalue()


FAULTS = {
    "empty": b"",
    "text": b"this is no sound\n",
    "zeros": bytes(100),
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(50),
    "m4a": b"\0\0\0\x20ftypM4A " + bytes(50),
    "header": wave(0.1)[:44],
    "cut": wave(0.1)[:20],
    "flac": wave(0.1, "FLAC")[:30],
    "infinite": wave(0.5, "WAV", "FLOAT", np.inf),
}
RAW = "samples without a header need their format stated"  # which the command line has an option for


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the command line says of each."""
    folder = tmp_path_factory.mktemp("faults")
    for name, data in FAULTS.items():
        (folder / name).write_bytes(data)
    command = [sys.executable, "-m", "asr", "transcribe", *(str(folder / name) for name in FAULTS)]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines()
    assert all(line.startswith(f"cepstra: {folder / name}: ") for name, line in zip(FAULTS, lines, strict=True))
    short = [line.removeprefix("cepstra: ").replace("samples without a header need --raw", RAW) for line in lines]
    return {name: line.replace(str(folder / name), "file") for name, line in zip(FAULTS, short, strict=True)}


@pytest.mark.parametrize("path", ["/v1/commands", "/v1/audio/transcriptions"])
@pytest.mark.parametrize("name", FAULTS)
def test_the_service_says_what_transcribe_says(service: Service, said: dict[str, str], name: str, path: str) -> None:
    answer = service.http.post(path, files={"file": FAULTS[name]}, data={"phrases": "lights", "model": "cepstra"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == said[name]
