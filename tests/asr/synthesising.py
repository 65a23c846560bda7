"""The command that makes recordings of texts, with a program that stands in for an engine."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from asr.manifest import Utterance, read_manifest
from asr.synthesis import Made, synthesize

SCRIPT = Path(__file__).with_name("synthesis_engine.py")
TONE = f"cmd: {shlex.quote(sys.executable)} -S {shlex.quote(str(SCRIPT))} {{out}} {{text}}"
CEPSTRA = (sys.executable, "-m", "asr")
TEXTS = ("Turn on the light", "dim it to 40 %", "off")


def make(folder: Path, texts: Any = TEXTS, **options: Any) -> Made:
    return synthesize(texts, folder, **{"engines": [TONE], "workers": 1, "say": print, **options})


def rows(folder: Path, name: str = "manifest") -> list[Utterance]:
    return read_manifest(folder / f"{name}.jsonl")


def sounds(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "audio").iterdir()}


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def cepstra(*arguments: str, cwd: Path, before: str = "") -> Ran:
    command = f"{before} exec {shlex.join([*CEPSTRA, 'synthesize', *arguments])}"
    ran = subprocess.run(["bash", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in ran.stderr
    return Ran(ran.returncode, ran.stdout, ran.stderr)
