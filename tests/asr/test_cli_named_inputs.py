"""What is wrong is said with the option, the file and the line that it came by."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.recognizer import DEFAULT_BUNDLE

SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
CLIP = SAMPLES / "five_five_two_eight_five.wav"


def cepstra(*arguments: str | Path, piped: bytes | None = None, most: int | None = None) -> tuple[int, str]:
    """Exit code and standard error. most: bytes that any file may have, as on a disk that is full."""
    limit = "" if most is None else f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most})); "
    command = [sys.executable, "-c", f"{limit}from asr.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, input=piped, capture_output=True, timeout=300, check=False)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("model", [[], ["--model", DEFAULT_BUNDLE]], ids=["shipped", "stated"])
@pytest.mark.parametrize(
    "command",
    [("transcribe", CLIP), ("listen", "--input", CLIP), ("evaluate", SAMPLES / "samples.jsonl")],
    ids=lambda command: command[0],
)
def test_phrases_that_a_model_cannot_write_are_those_of_the_option(
    tmp_path: Path, command: tuple[str | Path, ...], model: list[str | Path]
) -> None:
    phrases = tmp_path / "lights.yaml"
    phrases.write_text("intents:\n  lights: свет lights\n")
    code, err = cepstra(*command, "--phrases", phrases, *model)
    assert code == 1
    assert err == f"cepstra: --phrases {phrases}:2:11: the model has no letters for 'свет'; write it as it is said\n"


def test_a_model_that_is_none_is_that_of_its_option(tmp_path: Path) -> None:
    (tmp_path / "model.cepstra").write_bytes(b"none")
    code, err = cepstra("transcribe", CLIP, "--model", tmp_path / "model.cepstra")
    assert code == 1
    assert err.startswith(f"cepstra: --model {tmp_path / 'model.cepstra'}: ")


def test_a_row_that_cannot_be_heard_is_told_with_its_line(tmp_path: Path) -> None:
    manifest = tmp_path / "rows.jsonl"
    row = {"audio_filepath": str(CLIP), "duration": 1.0, "text": "five"}
    rows = [row, {**row, "offset": 50.0}, {**row, "offset": 99.0}]
    manifest.write_text("\n\n".join(json.dumps(each) for each in rows))
    code, err = cepstra("evaluate", manifest)
    assert code == 1
    past, beyond = err.splitlines()
    assert past.startswith(f"{manifest}:3: {CLIP}: offset 50.00 s lies past the end")
    assert beyond.startswith(f"{manifest}:5: {CLIP}: ")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that nobody can write into")
def test_a_work_folder_that_cannot_be_made_names_its_option(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "lights.txt").write_text("lights on\n")
    code, err = cepstra("make", tmp_path / "lights.txt", "-o", tmp_path / "m.cepstra", "--work", "/proc/nowhere")
    assert code == 1
    assert err.splitlines()[-1].startswith("cepstra: /proc/nowhere: can't be written (")
    assert err.splitlines()[-1].endswith("name another folder with --work")


@pytest.mark.skipif(os.name != "posix", reason="no limit on files")
@pytest.mark.parametrize("command", [("transcribe", "-"), ("features", "-", "-o", "{folder}/out.npy")])
def test_a_full_disk_is_told_of_what_is_piped(tmp_path: Path, command: tuple[str, ...]) -> None:
    sound = io.BytesIO()
    soundfile.write(sound, np.zeros(40 * 60 * 16000, np.int16), 16000, format="WAV")
    arguments = [part.format(folder=tmp_path) for part in command]
    code, err = cepstra(*arguments, piped=sound.getvalue(), most=1 << 20)
    assert code == 1
    (line,) = err.splitlines()
    assert line.startswith("cepstra: standard input: no room for a copy of it in ")
    assert line.endswith("make room there, or set TMPDIR to another folder")
    assert not (tmp_path / "out.npy").exists()
