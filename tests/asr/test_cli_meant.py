"""What a person at a terminal is told of commands, and what a script is spared."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.cli.meant import in_words
from asr.commands import Alternative, Meaning, SpokenCommand
from asr.phrases import Command
from asr.recognizer import DEFAULT_BUNDLE
from asr.results import Result
from tests.terminal import read_all

SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
LIGHT = Command("lights_on", {"room": "kitchen", "percent": 50}, "lights on")
STOP = Command("stop", {}, "stop")
ELSE = "most likely something else was said"


def test_silence_in_free_text_is_said() -> None:
    assert list(in_words(Result("x", 1.0, "", 1.0, no_speech=True))) == ["nobody speaks"]
    assert list(in_words(Result("x", 1.0, "", 0.3))) == []


@pytest.mark.parametrize(
    ("meaning", "commands", "lines"),
    [
        (None, (), []),
        (Meaning(LIGHT, 0.934), [(LIGHT, 0.934)], ["lights_on room=kitchen, percent=50 (confidence 0.93)"]),
        (Meaning(STOP, 1.0), [(STOP, 1.0), (LIGHT, 0.5)],
         ["stop (confidence 1.00)", "lights_on room=kitchen, percent=50 (confidence 0.50)"]),
        (Meaning(None, 0.0, (), "no-speech"), (), ["no command (no-speech): nobody speaks"]),
        (Meaning(None, 0.0, (), "too-short"), (), ["no command (too-short): too short for any of the sentences"]),
        (Meaning(None, 0.12, (Alternative(STOP, 0.12), Alternative(LIGHT, 0.1)), "unknown-command"), (),
         [f"no command (unknown-command): {ELSE}; the nearest is 'stop' (confidence 0.12)"]),
    ],
)  # fmt: skip
def test_a_meaning_in_words(meaning: Meaning | None, commands: list[tuple[Command, float]], lines: list[str]) -> None:
    said = tuple(SpokenCommand(command, confidence, 0.0, 1.0) for command, confidence in commands)
    assert list(in_words(Result("x", 1.0, "", 1.0, meaning=meaning, commands=said))) == lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sound.yaml").write_text("intents: {volume: 'turn the speaker {to}'}\nlists: {to: [up, down]}")
    (tmp_path / "down.wav").write_bytes((SAMPLES / "turn_the_speaker_down.wav").read_bytes())
    (tmp_path / "other.wav").write_bytes((SAMPLES / "five_five_two_eight_five.wav").read_bytes())
    soundfile.write(tmp_path / "silence.wav", np.zeros(16000, "int16"), 16000)
    return tmp_path


def _asr(folder: Path, *arguments: str, terminal: bool) -> tuple[str, str]:
    """What is on standard output, a terminal or a pipe, and on standard error."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "asr", *arguments, "--phrases", "sound.yaml"], cwd=folder,
        stdout=theirs if terminal else subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SAMPLES.parents[1])},
    )  # fmt: skip
    os.close(theirs)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    shown = (out or b"") + read_all(ours)
    return shown.decode().replace("\r\n", "\n"), err.decode()


@pytest.mark.skipif(not DEFAULT_BUNDLE.exists(), reason="no model ships with this checkout")
def test_a_terminal_is_told_and_a_pipe_is_not(folder: Path) -> None:
    files = ("down.wav", "other.wav", "silence.wav")
    printed = "down.wav: turn the speaker down\nother.wav: \nsilence.wav: \n"
    out, err = _asr(folder, "transcribe", *files, terminal=True)
    assert out == printed
    down, other, silence = err.splitlines()
    assert down.startswith("cepstra: down.wav: volume to=down (confidence ")
    assert other.startswith("cepstra: other.wav: no command (unknown-command): most likely something else")
    assert silence == "cepstra: silence.wav: no command (no-speech): nobody speaks"
    assert _asr(folder, "transcribe", *files, terminal=False) == (printed, "")
    assert _asr(folder, "transcribe", "down.wav", "--format", "json", terminal=True)[1] == ""
    assert _asr(folder, "transcribe", "down.wav", "-o", "texts", terminal=True) == ("", "")


@pytest.mark.skipif(not DEFAULT_BUNDLE.exists(), reason="no model ships with this checkout")
def test_listen_tells_the_same(folder: Path) -> None:
    out, err = _asr(folder, "listen", "--input", "down.wav", terminal=True)
    assert out == "turn the speaker down\n"
    assert err.startswith("cepstra: volume to=down (confidence ")
    out, err = _asr(folder, "listen", "--input", "other.wav", terminal=True)
    assert out == ""
    assert err.startswith("cepstra: no command (unknown-command): ")
    assert _asr(folder, "listen", "--input", "other.wav", terminal=False) == ("", "")
