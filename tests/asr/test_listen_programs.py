"""Programs that are run for what is heard: what they are told, hostile words, and those that fail or hang."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from asr.commands import Meaning, SpokenCommand
from asr.errors import ConfigError
from asr.listen import Heard, Reaction, check_variables, environments
from asr.phrases import PhraseSet
from asr.phrases.phrase_set import Command
from asr.recognizer import DEFAULT_BUNDLE
from asr.results import Result
from tests.asr.listening import COMMAND, RATE, SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Samples = NDArray[np.float32]


pytestmark = pytest.mark.skipif(
    not DEFAULT_BUNDLE.exists() or not SAMPLES.exists(), reason="no model or no samples ship with this checkout"
)


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
