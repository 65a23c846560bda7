"""What a new process takes: the whole command from a cold start, and what of it is loading. Not for Windows."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asr.errors import CepstraError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# Between us and what is measured stands a small process: the peak of a child counts what its parent held when it was
# started, and ours holds a model
_WATCH = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
ended = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
seconds = time.perf_counter() - start
unit = 1 if sys.platform == "darwin" else 1024
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
print(json.dumps([seconds, peak, ended.stdout.decode(errors="replace")]))
sys.exit(ended.returncode)
"""
_LOAD = """
import json, sys, time
start = time.perf_counter()
from asr.recognizer import Recognizer
imported = time.perf_counter()
recognizer = Recognizer(sys.argv[1], threads=int(sys.argv[2]))
loaded = time.perf_counter()
recognizer.transcribe(sys.argv[3])
print(json.dumps([imported - start, loaded - imported, time.perf_counter() - loaded]))
"""


@dataclass(frozen=True)
class Cold:
    """Cold starts with one clip; medians in seconds."""

    seconds: float  # of the clip
    threads: int
    runs: int
    command: float  # cepstra transcribe FILE, from the start of the process to its end
    python: float  # of an interpreter that does nothing
    imports: float  # import asr.recognizer
    load: float  # Recognizer(bundle)
    first: float  # its first transcription

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        times = ("command", "python", "imports", "load", "first")
        return {
            "seconds": self.seconds,
            "threads": self.threads,
            "runs": self.runs,
            **{f"{name}_s": round(getattr(self, name), 4) for name in times},
        }


def cold_start(
    model: Path, clip: Path, *, seconds: float, threads: int, runs: int, done: Callable[[int], None] = lambda _: None
) -> Cold:
    """Start new processes, the kinds in turn. What the disk holds is in the system's cache after the first of them.

    seconds: of the clip. done: called with 1 after each round. Raises CepstraError where one fails.
    """
    commands: list[float] = []
    bare: list[float] = []
    loads: list[list[float]] = []
    for _ in range(runs):
        bare.append(_watched([sys.executable, "-c", ""])[0])
        commands.append(_watched(_transcribe(model, clip, threads))[0])
        _, _, output = _watched([sys.executable, "-c", _LOAD, str(model), str(threads), str(clip)])
        loads.append(json.loads(output))
        done(1)
    imports, load, first = (statistics.median(each) for each in zip(*loads, strict=True))
    return Cold(
        seconds, threads, runs, statistics.median(commands), statistics.median(bare), imports, load, first
    )  # fmt: skip


def peak_memory(model: Path, clip: Path, threads: int) -> int:
    """Bytes resident at most in a new process of `cepstra transcribe`. Raises CepstraError where it fails."""
    return _watched(_transcribe(model, clip, threads))[1]


def _transcribe(model: Path, clip: Path, threads: int) -> list[str]:
    return [
        sys.executable, "-m", "asr", "transcribe", str(clip), "--model", str(model), "--threads", str(threads)
    ]  # fmt: skip


def _watched(command: Sequence[str]) -> tuple[float, int, str]:
    """Seconds, bytes resident at most, and what it printed."""
    ended = subprocess.run([sys.executable, "-c", _WATCH, *command], capture_output=True, text=True, check=False)
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        raise CepstraError(f"a new process failed ({lines[-1] if lines else ended.returncode}); see that it runs alone")
    seconds, peak, output = json.loads(ended.stdout)
    return float(seconds), int(peak), str(output)
