"""What the pages say to type is typed, one command after the other; their options exist, and their Python runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
import typer

from asr.cli.commands import app
from asr.manifest import read_manifest, write_manifest
from asr.recognizer import DEFAULT_BUNDLE, DEFAULT_WEIGHTS

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "data_manifests" / "samples"
PAGES = (
    "docs/transcribe.md",
    "docs/batch.md",
    "docs/listen.md",
    "docs/manifests.md",
    "docs/evaluation.md",
    "docs/benchmark.md",
    "docs/features.md",
    "docs/phrases.md",
    "docs/guidance.md",
    "docs/commands.md",
    "docs/synthesis.md",
    "data_manifests/README.md",
)
VOICES = """Pty Language Age/Gender VoiceName File
 2 en-us --/M English_(America) gmw/en-US
 5 variant --/M male1 !v/m1
 5 variant --/F female1 !v/f1
"""
PROGRAMS = ("cepstra", "ffmpeg", "arecord")


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def _commands(page: str) -> list[str]:
    """Every line of a ```sh block, and every indented line that begins with a program's name."""
    blocks = re.findall(r"^```sh\n(.*?)^```", _text(page), re.MULTILINE | re.DOTALL)
    indented = re.findall(rf"^    ((?:{'|'.join(PROGRAMS)}) (?!=).*)$", _text(page), re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line] + indented


def _python(page: str) -> list[str]:
    """Blocks of Python: those that say so, and indented ones that import something."""
    text = _text(page)
    indented = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL) + [
        re.sub("^    ", "", block, flags=re.MULTILINE)
        for block in indented
        if re.search(r"^    (from|import) ", block, re.MULTILINE)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the pages name, and a microphone that plays a sample."""
    sample = SAMPLES / "computer_speed_up.wav"
    for name in ("lights.wav", "talk.mp3", "talk.m4a", "clip.wav", "recordings/one.wav", "recordings/two.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(sample, tmp_path / name)  # what a file holds counts, not what it is called
    for name in ("my.test.jsonl", "commands.jsonl"):
        write_manifest(tmp_path / name, read_manifest(SAMPLES / "samples.jsonl")[:2])
    # Recordings enough to calibrate with
    write_manifest(tmp_path / "my.dev.jsonl", read_manifest(SAMPLES / "samples.jsonl") * 8)
    (tmp_path / "answers.txt").write_text("yes\nno\n")
    (lights, *_) = re.findall(r"^```yaml\n(.*?)^```", _text("docs/phrases.md"), re.MULTILINE | re.DOTALL)
    (tmp_path / "lights.yaml").write_text(lights)
    (boost,) = re.findall(r"^```text\n(.*?)^```", _text("docs/guidance.md"), re.MULTILINE | re.DOTALL)
    (tmp_path / "boost.txt").write_text(boost)
    for name in ("my.cepstra", "model.cepstra"):
        shutil.copy(DEFAULT_BUNDLE, tmp_path / name)
    shutil.copy(DEFAULT_WEIGHTS, tmp_path / "my.safetensors")
    shutil.copytree(ROOT / "data_manifests" / "example", tmp_path / "data_manifests" / "example")
    tone = f'exec "{sys.executable}" -S "{ROOT / "tests" / "asr" / "synthesis_engine.py"}"'
    programs = {
        "cepstra": f'exec "{sys.executable}" -m asr "$@"',
        "arecord": f'exec cat "{sample}"',
        "mytts": f'{tone} "$2" "$1"',
        "espeak-ng": f'case $1 in --v*) echo "$VOICES";; *) for out; do :; done; {tone} "$out" "$(cat)";; esac',
    }
    for name, script in programs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nVOICES='{VOICES}'\n{script}\n")
        path.chmod(0o755)
    return tmp_path


def _run(*command: str, folder: Path) -> str:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, f"{command[-1]}: {ended.stderr}"
    return ended.stdout


def _short(command: str) -> str:
    """The same, but for what would take minutes."""
    if not command.startswith("cepstra benchmark"):
        return command
    less = re.sub(r"--runs \d+", "--runs 2", re.sub(r"--memory \d+", "--memory 20", command))
    return f"{less} --cold-runs 1 --seconds 0.5" + " --runs 1" * ("--runs" not in less)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs_after_those_before_it(folder: Path, page: str) -> None:
    commands = _commands(page)
    assert commands
    for command in commands:
        if " HOST:" in command:  # another machine
            continue
        if not command.startswith("ffmpeg") or shutil.which("ffmpeg"):
            _run("bash", "-c", f"set -o pipefail; {_short(command)}", folder=folder)


@pytest.mark.parametrize("page", [page for page in PAGES if _python(page)])
def test_the_python_of_a_page_runs(folder: Path, page: str) -> None:
    setup = "from pathlib import Path; paths = sorted(Path('recordings').iterdir())\n"
    _run(sys.executable, "-c", setup + "\n".join(_python(page)), folder=folder)


def test_most_pages_have_python() -> None:
    assert sum(bool(_python(page)) for page in PAGES) >= 4


def _options(command: object) -> set[str]:
    found = {
        name for parameter in getattr(command, "params", []) for name in (*parameter.opts, *parameter.secondary_opts)
    }
    return found.union(*(_options(other) for other in getattr(command, "commands", {}).values()))


def test_options_on_the_pages_exist() -> None:
    known = _options(typer.main.get_command(app)) | {"--cov", "--head"}  # the last is Ray's
    assert {"--beam", "--speaker-pattern", "--no-audio"} <= known
    for page in PAGES:
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", _text(page))) <= known


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs ffmpeg")
@pytest.mark.parametrize("name", ["a.m4a", "a.aac", "a.wma", "a.webm", "a.mkv", "a.mp4", "a.wv"])
def test_what_is_said_not_to_be_read_is_refused_with_ffmpegs_line(folder: Path, name: str) -> None:
    made = subprocess.run(
        ["ffmpeg", "-loglevel", "error", "-i", "clip.wav", "-strict", "-2", name],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("this ffmpeg doesn't write it")
    ended = subprocess.run(
        [sys.executable, "-m", "asr", "transcribe", name], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    (line,) = re.findall(r"convert it: (ffmpeg .*)", ended.stderr)
    (shown,) = [command for command in _commands("docs/transcribe.md") if command.startswith("ffmpeg")]
    assert line.replace("FILE", "talk.m4a").replace("out.wav", "talk.wav") == shown
    _run("bash", "-c", shown.replace("talk.m4a", name).replace("talk.wav", "out.wav"), folder=folder)
    assert soundfile.info(folder / "out.wav").duration == pytest.approx(
        soundfile.info(folder / "clip.wav").duration, abs=0.2
    )
