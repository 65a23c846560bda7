"""A stand-in for a worker, that starts at once: `python -c START DESCRIPTOR`.

A short recording is a tuple that says what becomes of it. A file is taken for a long recording, each byte of it for a
piece, and its last byte for how it is to open.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from asr.errors import AudioError, BundleError
from asr.results import Result, Word
from asr.service.work import Checked, CheckPhrases, Long, Open, Opened, Part, Ready, Setup, Timed, Transcribe

START = "from tests.asr.service.standin import main; main()"
GOOD, ENDS, HANGS, SLOW, UNREADABLE, NO_PICKLE = 0.0, 0.5, 0.25, 0.125, 0.0625, 0.03125
SLOW_SECONDS = 0.3
PIECE = 160_000  # samples, which is as much as is decoded at a time


class Unpicklable:
    """It can be sent, and not be received."""

    def __reduce__(self) -> Any:
        return (int, ("nonsense",))


def main() -> None:
    with Connection(int(sys.argv[1])) as connection:
        setup: Setup = connection.recv()
        name = setup.bundle.read_text()
        if name.startswith("damaged"):
            connection.send(Timed(BundleError(f"{setup.bundle}: damaged")))
            return
        if name.startswith("ends"):
            return
        connection.send(Timed(Ready(name, "en", 16000)))
        while True:
            try:
                task = connection.recv()
            except EOFError:
                return
            connection.send(Timed(_answer(task, name)))


def _answer(task: Any, name: str) -> Any:
    if isinstance(task, Transcribe):
        return [_result(sound, name) for sound in task.sounds]
    if isinstance(task, Open):
        data = task.sound.read_bytes()
        with task.samples.open("r+b") as file:
            file.write(data)
        _behave(data[-1] / 256)
        return Opened(10.0 * len(data), tuple((i * PIECE, (i + 1) * PIECE) for i in range(len(data))))
    if isinstance(task, Part):
        from asr.timing import Piece  # noqa: PLC0415  takes a while to load

        found = []
        for start, _ in task.pieces:
            number = start // PIECE
            _behave(task.samples.read_bytes()[number] / 256)
            found.append((10.0 * number, Piece((Word(f"w{number}", 0.0, 0.5, 1.0),), 1.0, seconds=1.0)))
        return found
    assert isinstance(task, CheckPhrases)
    return Checked(1, (), 1, ())


def _result(sound: Any, name: str) -> Any:
    if isinstance(sound, Path):
        return Long()
    _behave(float(sound[0]))
    if sound[0] == UNREADABLE:
        return AudioError("is no sound")
    if sound[0] == NO_PICKLE:
        return Unpicklable()
    return Result(None, 1.0, f"{name} {sound[1]}", 1.0)


def _behave(kind: float) -> None:
    if kind == ENDS:
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == HANGS:
        time.sleep(3600)
    if kind == SLOW:
        time.sleep(SLOW_SECONDS)
