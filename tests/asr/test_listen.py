"""Listening to a stream: what it says, when, and what becomes of noise, damage and signals."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from asr.commands import Meaning, SpokenCommand
from asr.errors import AudioError
from asr.listen import Heard, Listener, blocks_of, blocks_of_file
from asr.phrases import PhraseSet
from asr.phrases.phrase_set import Command
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.results import Result
from audio.errors import AudioWarning
from audio.pcm import RawFormat
from audio.reading import read_audio
from tests.asr.listening import COMMAND, RATE, SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Samples = NDArray[np.float32]


pytestmark = pytest.mark.skipif(
    not DEFAULT_BUNDLE.exists() or not SAMPLES.exists(), reason="no model or no samples ship with this checkout"
)


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer()


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
        assert listener.held <= 31 * RATE
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
    with pytest.raises(AudioError, match=r"pipe: empty \(0 bytes\)"):
        list(blocks_of(io.BytesIO(b""), None, "pipe"))


def wave(samples: Samples, subtype: str = "FLOAT", rate: int = RATE) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, subtype, format="WAV")
    return file.getvalue()


@pytest.mark.parametrize("value", [17.0, -1e30, 3.4e38])
def test_samples_on_no_scale_are_clipped_and_said_once(value: float) -> None:
    samples = np.full((8000, 2), 0.5, np.float32)
    samples[[100, 4000]] = value
    with pytest.warns(AudioWarning, match="pipe: samples reach") as said:
        found = np.concatenate(list(blocks_of(io.BytesIO(wave(samples)), None, "pipe")))
    assert len(said) == 1
    assert found[100] == np.sign(value)
    assert np.all(np.delete(found, [100, 4000]) == 0.5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_samples_that_are_not_finite_name_raw_only_where_it_was_given(value: float, kind: str) -> None:
    samples = np.zeros((400, 2), kind)
    samples[30, 0] = value
    encoding = {"f4": "FLOAT", "f8": "DOUBLE"}[kind]
    with pytest.raises(AudioError, match="not finite; check the format that --raw states"):
        list(blocks_of(io.BytesIO(samples.tobytes()), RawFormat(encoding, RATE, 2), "pipe"))  # type: ignore[arg-type]
    with pytest.raises(AudioError, match="not finite; give 16-bit PCM"):
        list(blocks_of(io.BytesIO(wave(samples, encoding)), None, "pipe"))


@pytest.mark.filterwarnings("error")
def test_an_absurd_sample_deafens_no_listener(recognizer: Recognizer, stream: Samples) -> None:
    expected = [heard.result.text for heard in heard_in(recognizer, stream, 1600)]
    struck = stream.copy()
    struck[50] = 1e30
    assert [heard.result.text for heard in heard_in(recognizer, struck, 1600)] == expected


class Endless(io.RawIOBase):
    """Zeros; remembers how many bytes were asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def read(self, size: int = -1, /) -> bytes:
        self.largest = max(self.largest, size)
        return bytes(size)


@pytest.mark.parametrize(("channels", "rate"), [(65535, 384000), (65535, 4000), (1, 384000), (64, 48000)])
def test_no_header_makes_a_read_large(channels: int, rate: int) -> None:
    stream = Endless()
    blocks = blocks_of(stream, RawFormat("DOUBLE", rate, channels), "pipe")  # type: ignore[arg-type]
    for _ in range(3):
        next(blocks)
    assert 0 < stream.largest <= 1 << 20
    header = b"RIFF\xff\xff\xff\xffWAVEfmt " + (16).to_bytes(4, "little")
    for number, size in ((1, 2), (channels, 2), (rate, 4), (0, 4), (0, 2), (8, 2)):
        header += number.to_bytes(size, "little")
    data = header + b"data\xff\xff\xff\xff" + b"\x80" * (3 * channels)
    assert len(np.concatenate(list(blocks_of(io.BytesIO(data), None, "pipe")))) == round(3 * RATE / rate)


def test_a_file_is_read_as_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, np.zeros(10), RATE, "PCM_16")
    header = path.read_bytes()[:40]
    samples = 2 * 3600 * RATE  # two hours, none of which is on the disk
    with path.open("wb") as file:
        file.write(header + (2 * samples).to_bytes(4, "little"))
        file.truncate(44 + 2 * samples)
    with path.open("rb") as file:
        blocks = blocks_of_file(file, "long.wav")
        first = [len(next(blocks)) for _ in range(3)]
        assert file.tell() < 1 << 20
        rest = [len(block) for block in blocks]
    assert max(first + rest) <= 1600
    assert sum(first + rest) == samples


@pytest.mark.parametrize(
    ("format_", "subtype"), [("WAV", "PCM_24"), ("WAV", "IMA_ADPCM"), ("FLAC", None), ("OGG", None)]
)
def test_a_file_of_any_kind_is_read_as_transcribing_does(tmp_path: Path, format_: str, subtype: str | None) -> None:
    path = tmp_path / "sound"
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 20000), RATE, subtype, format=format_)
    with path.open("rb") as file:
        found = np.concatenate(list(blocks_of_file(file, "sound")))
    assert np.array_equal(found, read_audio(path))


def test_a_compressed_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "long.flac"
    with soundfile.SoundFile(path, "w", 4000, 1, "PCM_16", format="FLAC") as file:
        for _ in range(61):
            file.write(np.zeros(60 * 4000))
    with path.open("rb") as opened, pytest.raises(AudioError, match=r"3,600 s; cut it, or convert it to WAV"):
        list(blocks_of_file(opened, "long.flac"))


def test_signals_end_it_while_the_model_loads() -> None:
    script = (
        "import os, signal, asr.recognizer, asr.cli\n"
        "def load(*_, **__): os.kill(os.getpid(), signal.{})\n"
        "asr.recognizer.Recognizer = load\n"
        "asr.cli.main()"
    )
    for name in ("SIGINT", "SIGTERM"):
        ran = subprocess.run(
            [sys.executable, "-c", script.format(name), "listen", "--input", "-"],
            check=False, capture_output=True, input=b"",
        )  # fmt: skip
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


@pytest.mark.parametrize(("closed", "said"), [(">&-", "standard output: closed"), ("<&-", "standard input: closed")])
def test_closed_streams_are_said(closed: str, said: str) -> None:
    shell = ["sh", "-c", f'"$@" {closed}', "sh", *COMMAND, "-"]
    ran = subprocess.run(shell, check=False, capture_output=True, text=True, input="")
    assert ran.returncode == 1
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--on-command", "'"],
        ["--on-command", ""],
        ["--on-command", "''"],
        ["--on-command", "/no/such"],
        ["--phrases", "a.yaml", "--boost", "b.txt"],
        ["--phrases", "a.yaml", "--lm", "b.lm"],
        ["--lm-weight", "0.5"],
    ],
)
def test_a_wrong_command_line(options: list[str]) -> None:
    ran = subprocess.run([*COMMAND, "-", *options], check=False, capture_output=True, text=True, input="")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert options[0] in ran.stderr


def test_words_to_expect_guide_what_is_heard(tmp_path: Path, stream: Samples) -> None:
    (tmp_path / "boost.txt").write_text("please save the file\n")
    data = (stream * 32767).astype("<i2").tobytes()
    command = [*COMMAND, "-", "--raw", "PCM_16:16000:1", "--beam", "4"]
    ran = subprocess.run([*command, "--boost", tmp_path / "boost.txt"], check=False, capture_output=True, input=data)
    assert ran.returncode == 0
    assert b"please save the file" in ran.stdout
    ran = subprocess.run([*command, "--boost", tmp_path / "none"], check=False, capture_output=True, input=data)
    assert ran.returncode == 1
    assert b"--boost" in ran.stderr


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


def test_times_of_commands_count_from_the_start_of_the_stream() -> None:
    command = Command("stop", {}, "stop")
    result = Result(
        None, 12.0, "stop", 0.9, meaning=Meaning(command, 0.9), commands=(SpokenCommand(command, 0.9, 1.25, 2.0),)
    )
    row = Heard(result, start=100.5, end=112.5, decoding=0.1, latency=0.6).to_dict()
    assert [(each["start"], each["end"]) for each in row["commands"]] == [(101.75, 102.5)]


def test_a_long_recording_holds_its_commands_in_order(stream: Samples) -> None:
    said = ["please save the file", "turn the speaker down"]
    held = Recognizer(phrases=said)
    result = held.transcribe(np.concatenate([stream, np.zeros(6 * RATE, np.float32)]))
    assert [each.command.sentence for each in result.commands] == said
    assert result.meaning is not None
    assert result.meaning.command == result.commands[0].command
    assert result.confidence == result.commands[0].confidence
    for each in result.commands:
        words = [word for word in result.words if each.start <= word.start < each.end]
        assert " ".join(word.word for word in words) == each.command.sentence


def test_silence_is_as_sure_with_phrases_as_without(recognizer: Recognizer) -> None:
    held = recognizer.sharing(phrases=["turn the speaker down"])
    for seconds in (0.0, 1.0, 25.0):
        silence = np.zeros(round(seconds * RATE), np.float32)
        answers = [each.transcribe(silence) for each in (recognizer, held)]
        assert [(answer.text, answer.no_speech, answer.confidence) for answer in answers] == [("", True, 1.0)] * 2
