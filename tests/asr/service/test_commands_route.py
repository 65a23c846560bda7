"""POST /v1/commands: what was meant, as the recogniser itself says."""

from __future__ import annotations

import json
import re
import subprocess
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from asr.judge import Judge
from asr.recognizer import Recognizer

if TYPE_CHECKING:
    from tests.asr.service.conftest import Bare, Service

ROOT = Path(__file__).resolve().parents[3] / "data_manifests"
FILES = sorted((ROOT / "samples").glob("*.wav"))
PATH = "/v1/commands"
HOUSE = """intents:
  microwave: "[please] (turn|switch) (on:on|off:off) the microwave"
  speaker: "turn the speaker (up|down)"
  files: "[please] save the file"
"""


def ask(service: Service, file: Path, **fields: str) -> dict[str, Any]:
    answer = service.http.post(PATH, files={"file": file.read_bytes()}, data=fields)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_answers_are_the_recognisers(service: Service, tmp_path: Path) -> None:
    house = tmp_path / "house.yaml"
    house.write_text(HOUSE.replace("(on:on|off:off)", "(on|off)"), encoding="utf-8")
    assert service.http.put("/v1/phrases/house", content=house.read_bytes()).status_code in (200, 201)
    recognizer = Recognizer(phrases={"house": house, "lights": ROOT / "phrases" / "lights.yaml"})
    understood = []
    for file in FILES:
        for phrases in ("house", "lights"):
            answer = ask(service, file, phrases=phrases)
            own = recognizer.transcribe(file, phrases=phrases).to_dict()
            del own["audio_filepath"], own["segments"]
            threshold = round(Judge.of(recognizer.bundle).threshold, 3)
            assert answer == {"phrases": phrases, "threshold": threshold, **json.loads(json.dumps(own)), "warnings": []}
            if answer["command"] is not None:
                assert answer["rejected"] is None
                assert answer["text"] == answer["command"]["sentence"]
                understood.append((file.stem, answer["command"]["intent"]))
            else:
                assert answer["text"] == ""
                assert answer["rejected"] in ("no-speech", "unknown-command", "too-short")
            assert 0 <= answer["confidence"] <= 1
    assert ("please_turn_off_the_microwave", "microwave") in understood
    assert ("five_five_two_eight_five", "files") not in understood
    service.http.delete("/v1/phrases/house")


def test_a_long_recording_holds_several_commands(service: Service) -> None:
    samples, rate = soundfile.read(next(file for file in FILES if "microwave" in file.stem), dtype="int16")
    pause = np.zeros(7 * rate, "int16")
    long = BytesIO()
    soundfile.write(long, np.concatenate([samples, pause, samples, pause]), rate, format="WAV")
    assert service.http.put("/v1/phrases/kitchen", content="please turn off the microwave").status_code in (200, 201)
    answer = service.http.post(PATH, files={"file": long.getvalue()}, data={"phrases": "kitchen"}).json()
    service.http.delete("/v1/phrases/kitchen")
    one, other = answer["commands"]
    assert one["sentence"] == other["sentence"] == answer["command"]["sentence"] == "please turn off the microwave"
    assert one["confidence"] == answer["confidence"]
    assert other["start"] - one["start"] == pytest.approx(7 + len(samples) / rate, abs=0.2)


def test_the_threshold_decides(service: Service) -> None:
    file = next(file for file in FILES if "microwave" in file.stem)
    low, high = (ask(service, file, phrases="lights", threshold=value) for value in ("0", "1"))
    sure = [other["confidence"] for other in low["alternatives"]]
    assert low["confidence"] == sure[0] < 1
    assert high["confidence"] == pytest.approx(1 - sum(sure), abs=0.003)  # that none was meant; each is rounded
    assert (low["threshold"], high["threshold"]) == (0, 1)
    assert (low["rejected"], high["command"]) == (None, None)
    assert high["rejected"] == "unknown-command"
    assert low["alternatives"] == high["alternatives"]


def test_curl(service: Service) -> None:
    command = [
        "curl",
        "-sS",
        "--fail-with-body",
        f"{service.url}{PATH}",
        "-F",
        f"file=@{FILES[0]}",
        "-F",
        "phrases=drone",
    ]
    said = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
    assert json.loads(said)["phrases"] == "drone"


@pytest.mark.parametrize(
    ("fields", "status", "param", "message"),
    [
        ({"threshold": "1.1", "phrases": "lights"}, 400, "threshold", "not a number from 0 to 1"),
        ({"threshold": "nan", "phrases": "lights"}, 400, "threshold", "not a number"),
        ({"threshold": "much", "phrases": "lights"}, 400, "threshold", "'much'"),
        ({"phrases": "nothing"}, 404, "phrases", "there are drone, lights"),
        ({"phrases": "../lights"}, 404, "phrases", "no set of this name"),
        ({}, 400, "phrases", "name the set .*there are drone, lights"),
    ],
)
def test_what_does_not_fit_is_said(
    service: Service, fields: dict[str, str], status: int, param: str, message: str
) -> None:
    answer = service.http.post(PATH, files={"file": FILES[0].read_bytes()}, data=fields)
    assert answer.status_code == status
    assert answer.json()["error"]["param"] == param
    assert re.search(message, answer.json()["error"]["message"])
    assert service.left == []


def test_one_set_needs_no_name_and_none_is_said(bare: Bare) -> None:
    answer = bare.http.post(PATH, files={"file": b"x"})
    assert answer.status_code == 400
    assert "PUT /v1/phrases/NAME" in answer.json()["error"]["message"]
    bare.http.put("/v1/phrases/only", content="yes")
    assert bare.http.post(PATH, files={"file": b"x"}).json()["phrases"] == "only"
    assert bare.http.post(PATH, data={"phrases": "only"}).status_code == 400
    assert bare.pool.asked[-1]["phrases"] == "only"
    assert bare.http.delete("/v1/phrases/only").status_code == 204
    assert bare.left == []
