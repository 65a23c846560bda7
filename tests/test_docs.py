"""What README, training and export pages say to type is typed, in a folder with files of the names that they use."""

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Recordings, a manifest and a bundle of the names that README uses."""
    shutil.copy(SAMPLES / "computer_speed_up.wav", tmp_path / "lights.wav")
    write_manifest(tmp_path / "my.test.jsonl", read_manifest(SAMPLES / "samples.jsonl")[:3])
    shutil.copy(DEFAULT_BUNDLE, tmp_path / "my.cepstra")
    return tmp_path


def _run(*command: str, folder: Path) -> str:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_readmes_commands_run(folder: Path) -> None:
    """One after the other, but for hours of training and a service without end, which the tests of their pages show."""
    lines = re.findall(r"^    (cepstra (?!=).*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    commands = [line for line in lines if line.split()[1] not in {"train", "export", "serve"}]
    assert len(commands) >= 3
    for command in commands:
        line = command.replace("cepstra ", f"{sys.executable} -c 'from asr.cli import main; main()' ", 1)
        _run("bash", "-c", line, folder=folder)


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


def test_what_the_training_and_export_pages_say_runs_from_recordings_to_model(tmp_path: Path) -> None:
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
    exports = re.findall(r"^    (cepstra .*)$", (ROOT / "docs" / "export.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(exports) == 2
    for command in exports:  # after two steps an error rate is anything
        line = command.replace("cepstra", f"{sys.executable} -c 'from asr.cli import main; main()'", 1)
        _run("bash", "-c", line + " --max-wer-loss 100000" * ("--manifest" in line), folder=tmp_path)
    assert (tmp_path / "my.cepstra").stat().st_size > 10000
