"""What `--help` shows: whole lines, one set of names for values, and the same under every name of the program."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from asr.cli.commands import app

MANIFEST = ("check", "import", "split", "stats")
COMMANDS = [
    ("transcribe",),
    ("evaluate",),
    ("features",),
    ("lm", "train"),
    ("synthesize",),
    *(("manifest", name) for name in MANIFEST),
]
VALUES = {
    "FILE", "FOLDER", "MANIFEST", "CORPUS", "N", "SECONDS", "CODE", "NAME", "COLUMN", "REGEX", "SHARE", "DBFS", "SPEC",
    "NAME=SHARE,...", "TEXT", "PHRASES", "ENCODING:RATE:CHANNELS", "HOST:PORT",
}  # fmt: skip


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], prog_name="cepstra", env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("group", [(), ("manifest",), ("bundle",), ("lm",)])
def test_summaries_are_whole(group: tuple[str, ...]) -> None:
    _, commands = shown(*group, "--help").split("\nCommands:\n")
    lines = commands.splitlines()
    assert lines
    assert all(line.endswith(".") and not line.endswith("...") and len(line) <= 80 for line in lines)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_values_have_names_of_one_set(command: tuple[str, ...]) -> None:
    text = shown(*command, "--help")
    assert max(map(len, text.splitlines())) <= 80
    options = text.split("\nOptions:\n")[1]
    heads = re.findall(r"^  (?:-\w, )?(--[\w-]+(?: / --[\w-]+)?)(?: (\S+))?(?:  |$)", options, re.MULTILINE)
    assert len(heads) == len(re.findall(r"^  -", options, re.MULTILINE))
    values = {value for _, value in heads if value and not re.fullmatch(r"[<\[][a-z|-]+\|[a-z|-]+[>\]]", value)}
    assert values <= VALUES
    usage = re.findall(r"[A-Z]{4,}", text.splitlines()[0].partition("[OPTIONS]")[2])
    assert usage
    assert set(usage) <= VALUES


@pytest.mark.parametrize(
    "command", [(), ("manifest",), ("bundle", "show"), ("train",), ("export",), ("benchmark",), *COMMANDS], ids=" ".join
)
def test_h_is_help(command: tuple[str, ...]) -> None:
    assert shown(*command, "-h") == shown(*command, "--help")


def test_the_module_is_the_command() -> None:
    ran = [
        subprocess.run(
            [*program, "manifest", "-h"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COLUMNS": "80"},
        )
        for program in (
            [sys.executable, "-m", "asr"],
            [sys.executable, "-c", "from asr.cli import main; main()"],
        )
    ]
    assert ran[0].stdout == ran[1].stdout
    assert ran[0].stdout.startswith("Usage: cepstra manifest ")
    wrong = subprocess.run([sys.executable, "-m", "asr", "frobnicate"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("Usage: cepstra ")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("transcribe", "[FILE]..."),
        ("evaluate", "{MANIFEST}..."),
        ("features", "{FILE}"),
        ("lm train", "{TEXT}..."),
        ("bundle calibrate", "{FILE} {MANIFEST}..."),
        ("export", "[CHECKPOINT]"),
        ("listen", ""),
    ],
)
def test_usage_shows_what_may_be_several(command: str, arguments: str) -> None:
    line = shown(*command.split(), "--help").splitlines()[0]
    assert line == f"Usage: cepstra {command} [OPTIONS] {arguments}".rstrip()
