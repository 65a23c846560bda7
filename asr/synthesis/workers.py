"""Processes that make utterances side by side.

They are programs of their own rather than multiprocessing's: a script that calls this needs no `if __name__ ...`,
an engine that crashes costs one utterance and not the run, and Ctrl-C reaches this process alone.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from asr.errors import SynthesisError
from asr.synthesis.making import Job, Outcome, Setup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_START = "from asr.synthesis.worker import main; main()"
_ENDING_SECONDS = 3.0


class Workers:
    """A block with processes in it: `with Workers(setup, 4) as workers: for outcome in workers.make(jobs)`."""

    def __init__(self, setup: Setup, count: int) -> None:
        self._setup = json.dumps(asdict(setup))
        self._count = count
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End them, whatever they are about."""
        with self._lock:
            self._stopped = True
            processes = list(self._processes)
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(_ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for thread in self._threads:
            thread.join()

    def make(self, jobs: Iterable[tuple[Job, Path]]) -> Iterator[Outcome]:
        """What becomes of each job, as it comes. Raises SynthesisError for what ends the whole run."""
        remaining = iter(jobs)
        outcomes: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        for _ in range(self._count):
            thread = threading.Thread(target=self._serve, args=(remaining, outcomes), daemon=True)
            self._threads.append(thread)
            thread.start()
        running = self._count
        while running:
            outcome = outcomes.get()
            if outcome is None:
                running -= 1
            elif outcome.fatal:
                raise SynthesisError(outcome.fatal)
            else:
                yield outcome

    def _serve(self, jobs: Iterator[tuple[Job, Path]], outcomes: queue.SimpleQueue[Outcome | None]) -> None:
        """Keep one process busy; runs in a thread, which waits for it."""
        process: subprocess.Popen[str] | None = None
        try:
            while (given := self._next(jobs)) is not None:
                if process is None and (process := self._start()) is None:
                    return
                outcome = _ask(process, *given)
                if outcome is None and not self._stopped:
                    outcome, process = _crash(given[0], process), None
                if outcome is not None:
                    outcomes.put(outcome)
        finally:
            if process is not None:
                with suppress(OSError):
                    process.communicate()  # the end of its input ends it
            outcomes.put(None)

    def _next(self, jobs: Iterator[tuple[Job, Path]]) -> tuple[Job, Path] | None:
        with self._lock:
            return None if self._stopped else next(jobs, None)

    def _start(self) -> subprocess.Popen[str] | None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with self._lock:
            if self._stopped:
                return None
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, encoding="utf-8", start_new_session=True,
            )  # fmt: skip
            self._processes.append(process)
        with suppress(OSError):  # it has ended at once: that shows when it is asked
            _send(process, self._setup)
        return process


def _send(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None  # noqa: S101  a pipe, as asked for
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _ask(process: subprocess.Popen[str], job: Job, path: Path) -> Outcome | None:
    """What it answers; None where it has ended."""
    assert process.stdout is not None  # noqa: S101  a pipe, as asked for
    with suppress(OSError):  # what it had to say may still be read
        _send(process, json.dumps({"job": asdict(job), "path": str(path)}))
    line = process.stdout.readline()
    if not line.endswith("\n"):
        return None
    values: dict[str, Any] = json.loads(line)
    return Outcome(**values)


def _crash(job: Job, process: subprocess.Popen[str]) -> Outcome:
    with suppress(OSError):
        process.communicate()
    code = process.returncode
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return Outcome(job.index, failure=f"the process that made it ended with {how}", engine="process")
