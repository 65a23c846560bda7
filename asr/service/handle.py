"""One worker as the service sees it: a process, and a thread that waits for its answers."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from asr.errors import CepstraError
from asr.service.work import Ready, Setup, Timed

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from asr.service.work import Task

START_SECONDS = 60.0
END_SECONDS = 5.0
_START = "from asr.service.worker import main; main()"


class WorkerEndedError(Exception):
    """The process is gone, or had to be ended; whatever it was at may be tried by another."""


class Handle:
    """A worker process. One task at a time."""

    def __init__(self, setup: Setup, executor: Executor) -> None:
        """executor: with a thread to spare for each worker."""
        self._setup, self._executor = setup, executor
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    async def start(self) -> Ready:
        """Raises CepstraError where its bundle can't be used, WorkerEndedError where it ends by itself."""
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        with theirs:
            # A program rather than multiprocessing's: no guard in whoever calls this, and Ctrl-C doesn't reach it
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(theirs.fileno())], env=environment, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._connection = Connection(ours.detach())
        answer = (await self._exchange(self._setup, START_SECONDS)).answer
        if isinstance(answer, CepstraError):
            raise answer
        assert isinstance(answer, Ready)  # noqa: S101  the protocol
        return answer

    async def ask(self, task: Task, seconds: float) -> Timed:
        """Its answer. Raises WorkerEndedError, TimeoutError after so many seconds; either way the process is gone."""
        return await self._exchange(task, seconds)

    async def _exchange(self, message: Task | Setup, seconds: float) -> Timed:
        assert self._connection is not None  # noqa: S101  start() comes first
        try:
            loop = asyncio.get_running_loop()
            waiting = loop.run_in_executor(self._executor, _exchange, self._connection, message, seconds)
            waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may come to nobody
            answer = await asyncio.shield(waiting)
        except (EOFError, OSError) as error:
            self.kill()
            if isinstance(error, TimeoutError):
                raise
            raise WorkerEndedError from error
        except asyncio.CancelledError:
            self.kill()
            raise
        return answer

    def kill(self) -> None:
        """At once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._close()

    async def stop(self) -> None:
        """When it is at nothing: the end of its socket ends it."""
        self._close()
        if self._process is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._process.wait, END_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()


def _exchange(connection: Connection, message: Task | Setup, seconds: float) -> Timed:
    connection.send(message)
    if not connection.poll(seconds):
        raise TimeoutError
    answer = connection.recv()
    assert isinstance(answer, Timed)  # noqa: S101  the protocol
    return answer
