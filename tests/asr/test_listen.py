"""Listening to a stream: what it says, when, and what becomes of hostile words, noise and signals."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from asr.commands import Meaning
from asr.errors import AudioError, ConfigError
from asr.listen import Heard, Listener, Reaction, blocks_of, environment
from asr.phrases import PhraseSet
from asr.phrases.phrase_set import Command
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.results import Result
from audio.pcm import RawFormat
from audio.reading import read_audio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Samples = NDArray[np.float32]

RATE = 16000
SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
COMMAND = [sys.executable, "-c", "from asr.cli import main; main()", "listen", "--input"]
pytestmark = pytest.mark.skipif(
    not DEFAULT_BUNDLE.exists() or not SAMPLES.exists(), reason="no model or no samples ship with this checkout"
)


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer()


@pytest.fixture(scope="module")
def stream() -> Samples:
    """Three commands with pauses between them, exact as 16-bit samples."""
    parts = [np.zeros(RATE, np.float32)]
    for name in ("please_save_the_file", "five_five_two_eight_five", "turn_the_speaker_down"):
        parts += [read_audio(SAMPLES / f"{name}.wav"), np.zeros(RATE, np.float32)]
    return np.concatenate(parts)


def heard_in(recognizer: Recognizer, samples: Samples, size: int) -> list[Heard]:
    listener = Listener(recognizer)
    found = [heard for at in range(0, len(samples), size) for heard in listener.feed(samples[at : at + size])]
    return found + list(listener.finish())


def test_each_command_is_heard_as_transcribing_it_says(recognizer: Recognizer, stream: Samples) -> None:
    whole = heard_in(recognizer, stream, len(stream))
    assert len(whole) == 3
    for heard in whole:
        part = stream[round(heard.start * RATE) : round(heard.end * RATE)]
        assert recognizer.transcribe(part).text == heard.result.text
        assert heard.latency >= 0.5 + heard.decoding
        assert heard.to_dict()["words"][0]["start"] >= heard.start
    assert all(a.end <= b.start for a, b in pairwise(whole))
    for size in (160, 997, 32000):
        again = heard_in(recognizer, stream, size)
        assert [(h.result.text, h.start, h.end) for h in again] == [(h.result.text, h.start, h.end) for h in whole]


def test_held_to_phrases(stream: Samples) -> None:
    phrases = PhraseSet.parse("intents: {digits: ['five five two eight five']}")
    found = heard_in(Recognizer(phrases=phrases), stream, 1600)
    assert [heard.result.text for heard in found if heard.result.text] == ["five five two eight five"]
    assert all(heard.result.meaning is not None for heard in found)


def test_endless_noise_says_nothing_and_fills_nothing(recognizer: Recognizer) -> None:
    listener = Listener(recognizer)
    rng = np.random.default_rng(0)
    for _ in range(60):
        assert not list(listener.feed(rng.normal(0, 0.03, RATE).astype(np.float32)))
        assert len(listener._kept) <= 31 * RATE
    assert not list(listener.finish())


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "FLOAT", "ULAW"])
def test_a_wav_stream_is_read_as_the_file_is(rate: int, subtype: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.random.default_rng(0).normal(0, 0.1, (4321, 2)), rate, subtype, format="WAV")
    expected = read_audio(file.getvalue())
    found = np.concatenate(list(blocks_of(io.BytesIO(file.getvalue()), None, "pipe")))
    assert len(found) == pytest.approx(len(expected), abs=2)
    count = min(len(found), len(expected))
    assert np.abs(found[:count] - expected[:count]).max() < 1e-4


def test_raw_samples_and_what_is_no_sound() -> None:
    values = np.arange(-500, 500, dtype="<i2")
    raw = list(blocks_of(io.BytesIO(values.tobytes() + b"x"), RawFormat("PCM_16", RATE), "pipe"))
    assert np.array_equal(np.concatenate(raw), (values / 32768).astype(np.float32))
    for data in (b"", b"RIFF", b"<html></html>", b"RIFF0000WAVE" + b"data" * 9, b"RIFF0000WAVEfmt \xff\xff\xff\xff"):
        with pytest.raises(AudioError, match="pipe"):
            list(blocks_of(io.BytesIO(data), None, "pipe"))


def say(text: str, slots: dict[str, str | int | float | bool] | None = None) -> Heard:
    command = None if slots is None else Command("light", slots, text)
    meaning = None if slots is None else Meaning(command, 0.9)
    return Heard(Result(None, 1.0, text, 0.9, meaning=meaning), 1.0, 2.0, 0.1, 0.6)


def test_a_program_is_told_and_words_are_never_code(tmp_path: Path) -> None:
    said: list[str] = []
    script = f"import os; open({str(tmp_path / 'told')!r}, 'a').write(os.environ['CEPSTRA_TEXT'] + chr(10))"
    react = Reaction(f'"{sys.executable}" -c "{script}" $CEPSTRA_TEXT', said.append)
    hostile = [f"$(touch {tmp_path}/a)", f"; touch {tmp_path}/b", f"`touch {tmp_path}/c`", "lamp\0on", "--help"]
    for text in hostile:
        react(say(text))
        react.finish()
    assert (tmp_path / "told").read_text().splitlines() == [text.replace("\0", " ") for text in hostile]
    assert [path.name for path in tmp_path.iterdir()] == ["told"]
    assert said == []


def test_what_a_program_is_told() -> None:
    told = environment(say("lamp on", {"room name": "kitchen", "percent": 40}))
    assert json.loads(told.pop("CEPSTRA_JSON"))["text"] == "lamp on"
    assert told == {
        "CEPSTRA_TEXT": "lamp on", "CEPSTRA_CONFIDENCE": "0.900", "CEPSTRA_INTENT": "light",
        "CEPSTRA_SLOT_ROOM_NAME": "kitchen", "CEPSTRA_SLOT_PERCENT": "40",
    }  # fmt: skip


def test_a_program_that_fails_or_is_slow_stops_nothing() -> None:
    said: list[str] = []
    Reaction("/no/such/program", said.append)(say("go"))
    failing = Reaction(f'"{sys.executable}" -c "raise SystemExit(3)"', said.append)
    failing(say("go"))
    failing.finish()
    assert said[0] == "--on-command: /no/such/program: No such file or directory"
    assert said[1].endswith("ended with exit code 3")
    slow = Reaction("sleep 2", said.append)
    began = time.monotonic()
    for _ in range(9):
        slow(say("go"))
    assert time.monotonic() - began < 2
    assert "still running" in said[2]
    slow.finish()
    for command in ("", "'"):
        with pytest.raises(ConfigError, match="--on-command"):
            Reaction(command, said.append)


def test_the_command_answers_a_live_pipe_and_ends_by_signals(stream: Samples) -> None:
    data = (stream * 32767).astype("<i2").tobytes()
    for number, code in ((signal.SIGINT, 0), (signal.SIGTERM, 0)):
        with subprocess.Popen(
            [*COMMAND, "-", "--raw", "PCM_16:16000:1", "--json"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write(data)
            process.stdin.flush()
            first = json.loads(process.stdout.readline())  # though the pipe stays open
            assert first["text"]
            assert 0 < first["start"] < first["end"] < 5
            process.send_signal(number)
            assert process.wait(20) == code
            assert b"Traceback" not in process.stderr.read()
            process.stdin.close()


def test_a_file_and_faults_on_the_command_line(tmp_path: Path, stream: Samples) -> None:
    soundfile.write(tmp_path / "a.flac", stream, RATE)
    ran = subprocess.run(
        [*COMMAND, tmp_path / "a.flac", "--on-command", "/no/such"], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0
    assert len(ran.stdout.splitlines()) == 3
    assert ran.stderr.splitlines() == ["cepstra: --on-command: /no/such: No such file or directory"] * 3
    ran = subprocess.run([*COMMAND, tmp_path / "none.wav"], check=False, capture_output=True, text=True)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert "none.wav" in ran.stderr
