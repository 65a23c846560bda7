"""What isn't quite as it should be about a recording or a phrase set is answered, in the command line's words."""

from __future__ import annotations

import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from audio.reading import read_audio

if TYPE_CHECKING:
    from tests.asr.service.conftest import Service

ROOT = Path(__file__).resolve().parents[3]
SPEED_UP = ROOT / "data_manifests" / "samples" / "computer_speed_up.wav"
OPENAI = "/v1/audio/transcriptions"


def cut_short(kind: str, repeats: int) -> bytes:
    """So many times the same words, of which the last ones are missing."""
    file = BytesIO()
    soundfile.write(file, np.tile(read_audio(SPEED_UP), repeats), 16000, format=kind)
    return file.getvalue()[: -len(file.getvalue()) // (4 * repeats)]


def said_by_the_command_line(sound: bytes, folder: Path) -> list[str]:
    (folder / "file").write_bytes(sound)
    ran = subprocess.run(
        [sys.executable, "-m", "asr", "transcribe", "file"],
        cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return re.findall(r"^cepstra: warning: (.*)$", ran.stderr, re.MULTILINE)


@pytest.mark.parametrize("repeats", [1, 12])  # of a second; 12 are a long recording, which takes another way
@pytest.mark.parametrize("kind", ["WAV", "OGG", "FLAC"])
def test_a_recording_that_is_cut_short_is_told_as_on_the_command_line(
    service: Service, tmp_path: Path, kind: str, repeats: int
) -> None:
    sound = cut_short(kind, repeats)
    (expected,) = said_by_the_command_line(sound, tmp_path)
    assert expected.startswith("file: ")
    command = service.http.post("/v1/commands", files={"file": sound}, data={"phrases": "lights"})
    assert command.json()["warnings"] == [expected]
    verbose = service.http.post(OPENAI, files={"file": sound}, data={"response_format": "verbose_json"})
    assert verbose.json()["warnings"] == [expected]
    assert set(service.http.post(OPENAI, files={"file": sound}).json()) == {"text", "usage"}


def test_a_whole_recording_has_no_warnings(service: Service) -> None:
    sound = SPEED_UP.read_bytes()
    assert service.http.post("/v1/commands", files={"file": sound}, data={"phrases": "lights"}).json()["warnings"] == []
    verbose = service.http.post(OPENAI, files={"file": sound}, data={"response_format": "verbose_json"})
    assert verbose.json()["warnings"] == []


def test_a_phrase_set_is_told_what_check_finds(service: Service) -> None:
    text = "intents:\n  a: go now\n  b: 'go [right] now'\n  d: write\n  e: right\n  f: xylophone\n  g: stop\n"
    stored = service.http.put("/v1/phrases/odd", content=text).json()
    assert [line.partition(";")[0] for line in stored["warnings"]] == [
        "means two things (the first counts): 'go now': a or b",
        "sound alike (sounds that differ, per cent): 'right' and 'write' (0)",
        "spelt with many single letters: the model may hardly know them: xylophone (▁ x y l o p h on e)",
    ]
    assert [line.partition("; ")[2].partition(" ")[0] for line in stored["warnings"]] == ["", "give", "choose"]
    assert service.http.get("/v1/phrases/odd").json() == stored
    assert service.http.delete("/v1/phrases/odd").status_code == 204
    plain = service.http.put("/v1/phrases/plain", content="turn left\nstop\n").json()
    assert plain["warnings"] == []
    assert service.http.delete("/v1/phrases/plain").status_code == 204


def test_a_large_phrase_set_is_taken_unexamined(service: Service) -> None:
    words = [a + b + c for a in "bdfgklmnpr" for b in "aeiou" for c in "bdfgklmnprst"]  # 600
    text = "\n".join(words)
    small = service.http.put("/v1/phrases/x", content=text).json()
    assert len(small["warnings"]) == 11  # ten of a kind, and how many more
    assert re.search(r": … and [0-9]+ more;", small["warnings"][-1])
    large = service.http.put("/v1/phrases/x", content=text + "\n" + "\n".join(f"{word}ing" for word in words)).json()
    (line,) = large["warnings"]
    assert line.startswith("too large to be examined here; `cepstra phrases check`")
    assert service.http.delete("/v1/phrases/x").status_code == 204
