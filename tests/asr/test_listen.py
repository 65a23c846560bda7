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

from asr.commands import Meaning, SpokenCommand
from asr.errors import AudioError, ConfigError
from asr.listen import Heard, Listener, Reaction, blocks_of, blocks_of_file, check_variables, environments
from asr.phrases import PhraseSet
from asr.phrases.phrase_set import Command
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.results import Result
from audio.errors import AudioWarning
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


def say(text: str, *commands: Command) -> Heard:
    said = tuple(SpokenCommand(each, 0.9 - i / 10, float(i), i + 0.5) for i, each in enumerate(commands))
    meaning = Meaning(said[0].command, said[0].confidence) if said else None
    return Heard(Result(None, 1.0, text, 0.9, meaning=meaning, commands=said), 1.0, 2.0, 0.1, 0.6)


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
    (told,) = environments(say("lamp on", Command("light", {"room name": "kitchen", "percent": 40}, "lamp on")))
    assert json.loads(told.pop("CEPSTRA_JSON"))["text"] == "lamp on"
    assert told == {
        "CEPSTRA_TEXT": "lamp on", "CEPSTRA_CONFIDENCE": "0.900", "CEPSTRA_INTENT": "light",
        "CEPSTRA_SLOT_ROOM_NAME": "kitchen", "CEPSTRA_SLOT_PERCENT": "40",
    }  # fmt: skip
    (told,) = environments(say("lamp on"))
    assert json.loads(told.pop("CEPSTRA_JSON"))["text"] == "lamp on"
    assert told == {"CEPSTRA_TEXT": "lamp on", "CEPSTRA_CONFIDENCE": "0.900"}


def test_a_program_runs_once_for_each_command_of_an_utterance(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, str]] = []

    class Ended:
        returncode = 0

        def poll(self) -> int:
            return 0

    def start(_words: list[str], *, env: dict[str, str], **_named: object) -> Ended:
        started.append({name: value for name, value in env.items() if name.startswith("CEPSTRA_")})
        return Ended()

    monkeypatch.setattr("asr.listen.subprocess.Popen", start)
    utterance = say(
        "lamp on stop lamp off", Command("light", {"state": "on"}, "lamp on"), Command("stop", {}, "stop"),
        Command("light", {"state": "off"}, "lamp off"),
    )  # fmt: skip
    Reaction("true", pytest.fail)(utterance)
    lines = [json.loads(told.pop("CEPSTRA_JSON")) for told in started]
    assert [[each["sentence"] for each in line["commands"]] for line in lines] == [["lamp on", "stop", "lamp off"]] * 3
    light = {"CEPSTRA_INTENT": "light", "CEPSTRA_TEXT": "lamp on", "CEPSTRA_SLOT_STATE": "on"}
    assert started == [
        light | {"CEPSTRA_CONFIDENCE": "0.900"},
        {"CEPSTRA_INTENT": "stop", "CEPSTRA_TEXT": "stop", "CEPSTRA_CONFIDENCE": "0.800"},
        light | {"CEPSTRA_TEXT": "lamp off", "CEPSTRA_SLOT_STATE": "off", "CEPSTRA_CONFIDENCE": "0.700"},
    ]


def test_no_program_runs_where_no_command_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asr.listen.subprocess.Popen", pytest.fail)
    nothing = Result(None, 1.0, "", 0.9, meaning=Meaning(None, 0.1, (), "unknown-command"))
    Reaction("true", pytest.fail)(Heard(nothing, 1.0, 2.0, 0.1, 0.6))


def test_several_commands_in_one_breath_each_run_the_program(tmp_path: Path, stream: Samples) -> None:
    soundfile.write(tmp_path / "a.wav", np.tile(stream, 2), RATE)  # 17 s: one utterance, of several pieces
    (tmp_path / "said.txt").write_text("please save the file\nturn the speaker down\n")
    ran = subprocess.run(
        [*COMMAND, tmp_path / "a.wav", "--pause", "5000", "--phrases", tmp_path / "said.txt", "--on-command",
         f"sh -c 'printf \"%s\\n\" \"$CEPSTRA_TEXT\" >> {tmp_path}/told'"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    said = ["please save the file", "turn the speaker down"]
    assert ran.stdout == " ".join(2 * said) + "\n"
    assert sorted((tmp_path / "told").read_text().splitlines()) == sorted(2 * said)  # none waits for the one before


def test_slots_of_one_variable_are_refused() -> None:
    for template, clashes in (
        ("{list:a-b} and {list:a_b}", True),
        ("{list:room} and {list:Room}", True),
        ("{list:a-b} and {list:a_c}", False),
    ):
        phrases = PhraseSet.parse(f"intents: {{go: ['{template}']}}\nlists: {{list: [one, two]}}")
        if clashes:
            with pytest.raises(ConfigError, match=r"'go'.*CEPSTRA_SLOT_\w+.*rename"):
                check_variables(phrases)
        else:
            check_variables(phrases)


def test_a_program_that_fails_or_is_slow_stops_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    gone = Reaction(str(program), said.append)
    program.unlink()
    gone(say("go"))
    failing = Reaction(f'"{sys.executable}" -c "raise SystemExit(3)"', said.append)
    failing(say("go"))
    failing.finish()
    assert said[0] == f"--on-command: {program}: No such file or directory"
    assert said[1].endswith("ended with exit code 3")
    slow = Reaction("sleep 2", said.append)
    began = time.monotonic()
    for _ in range(9):
        slow(say("go"))
    assert time.monotonic() - began < 2
    assert "still running" in said[2]
    slow.finish()
    assert len(said) == 3
    for command in ("", " ", "'", "''", "a\\", "/no/such/program", str(tmp_path)):
        with pytest.raises(ConfigError, match=";"):
            Reaction(command, said.append)


def test_programs_that_hang_share_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Hanging:
        returncode = None

        def wait(self, timeout: float) -> None:
            waits.append(timeout)
            now[0] += timeout
            raise subprocess.TimeoutExpired("program", timeout)

        def poll(self) -> None: ...

    now = [0.0]
    said: list[str] = []
    monkeypatch.setattr("asr.listen.time.monotonic", lambda: now[0])
    monkeypatch.setattr("asr.listen.subprocess.Popen", lambda *_args, **_named: Hanging())
    react = Reaction("true", said.append)
    for _ in range(3):
        react(say("go"))
    react.finish()
    assert waits == [5, 0, 0]
    assert said == ["--on-command: true: 3 still running at the end"]


def test_a_second_signal_ends_the_wait_for_programs(stream: Samples) -> None:
    with subprocess.Popen(
        [*COMMAND, "-", "--raw", "PCM_16:16000:1", "--on-command", "sh -c 'echo up; exec sleep 4'"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write((stream * 32767).astype("<i2").tobytes())
        process.stdin.flush()
        assert process.stderr.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)  # two at once would be one
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert b"still running at the end\n" in process.stderr.read()  # which ends with the programs
        process.stdin.close()


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


def test_a_file_and_faults_on_the_command_line(tmp_path: Path, stream: Samples) -> None:
    soundfile.write(tmp_path / "a.flac", stream, RATE)
    ran = subprocess.run(
        [*COMMAND, tmp_path / "a.flac", "--on-command", "false"], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0
    assert len(ran.stdout.splitlines()) == 3
    assert ran.stderr.splitlines() == ["cepstra: --on-command: false: ended with exit code 1"] * 3
    ran = subprocess.run([*COMMAND, tmp_path / "none.wav"], check=False, capture_output=True, text=True)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert "none.wav" in ran.stderr


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
