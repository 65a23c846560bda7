"""What README and the caller's pages say to type is typed, in a folder with files of the names that they use."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from asr.manifest import read_manifest, write_manifest
from asr.recognizer import DEFAULT_BUNDLE

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "data_manifests" / "samples"
PAGES = ("README.md", "docs/transcribe.md", "docs/evaluation.md", "docs/features.md")
# Recording from a microphone and training for hours are not for a test; tests/test_end_to_end.py trains
LEFT_OUT = ("arecord", "cepstra train", "cepstra export")


def _lines() -> list[tuple[str, str]]:
    """Page and command of every indented line that begins with cepstra, or pipes into it."""
    pattern = re.compile(r"^    (?:cepstra (?!=)|.*\| cepstra ).*$", re.MULTILINE)
    found = [
        (page, line.strip()) for page in PAGES for line in pattern.findall((ROOT / page).read_text(encoding="utf-8"))
    ]
    return [(page, line) for page, line in found if not any(word in line for word in LEFT_OUT)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings, manifests and a bundle of the names that the pages use."""
    path = tmp_path_factory.mktemp("docs")
    sample = SAMPLES / "computer_speed_up.wav"
    for name in ("lights.wav", "talk.mp3", "clip.wav", "recordings/one.wav", "recordings/two.wav"):
        (path / name).parent.mkdir(exist_ok=True)
        shutil.copy(sample, path / name)  # what a file holds counts, not what it is called
    rows = read_manifest(SAMPLES / "samples.jsonl")[:3]
    for name in ("my.test.jsonl", "commands.jsonl"):
        write_manifest(path / name, rows)
    for name in ("my.cepstra", "model.cepstra"):
        shutil.copy(DEFAULT_BUNDLE, path / name)
    return path


def test_the_pages_hold_commands() -> None:
    assert {page for page, _ in _lines()} == set(PAGES)


def _run(*command: str, folder: Path) -> str:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize(("page", "line"), _lines(), ids=lambda value: value if value.endswith(".md") else None)
def test_commands_run(folder: Path, page: str, line: str) -> None:
    del page  # names the test
    command = line.replace("cepstra ", f"{sys.executable} -c 'from asr.cli import main; main()' ", 1)
    _run("bash", "-c", command, folder=folder)


def test_the_readmes_python_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    assert all(_run(sys.executable, "-c", block, folder=ROOT).strip() for block in blocks)


# After what the page says: a model that is learnt and exported in seconds
SHORT = (
    "steps=2 validate_every=2 devices=1 accelerator=cpu data.workers=0 average=1 model.d_model=32 model.heads=2 "
    "model.encoder_layers=1 model.encoder_ff=32 model.decoder_layers=1 model.decoder_ff=32 --restart"
)


def test_what_the_training_page_says_runs_from_recordings_to_model(tmp_path: Path) -> None:
    """One after the other, with the settings that stand there, in a folder with my.jsonl alone."""
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (settings,) = re.findall(r"^```yaml\n# my\.yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "my.yaml").write_text(settings, encoding="utf-8")
    write_manifest(tmp_path / "my.jsonl", read_manifest(ROOT / "data_manifests" / "example" / "commands.jsonl"))
    commands = re.findall(r"^    (cepstra (?!=).*)$", text, re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["manifest", "manifest", "train", "export", "train"]
    for command in commands:
        if command.endswith(']"'):  # the line that names other manifests
            for name in ("a.jsonl", "b.jsonl"):
                shutil.copy(tmp_path / "my.train.jsonl", tmp_path / name)
        line = command.replace("cepstra", f"{sys.executable} -c 'from asr.cli import main; main()'", 1)
        _run("bash", "-c", f"{line} {SHORT}" if command.startswith("cepstra train") else line, folder=tmp_path)
    assert (tmp_path / "runs" / "my" / "best.ckpt").is_file()
    assert (tmp_path / "my.cepstra").stat().st_size > 10000
