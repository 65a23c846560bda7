"""One worker as the service sees it: a process, and a thread that waits for its answers."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from asr.errors import CepstraError
from asr.service.work import Ready, Setup, Timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
        self._waiting: asyncio.Future[Timed] | None = None  # for an answer
        self.has_ended = False  # while it was watched

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    async def start(self) -> Ready:
        """Raises CepstraError where its bundle can't be used, WorkerEndedError where it ends by itself."""
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours.detach())
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        with theirs, self._closed_if_unstarted():
            # A program rather than multiprocessing's: no guard in whoever calls this, and Ctrl-C doesn't reach it
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(theirs.fileno())], env=environment, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        answer = (await self._exchange(self._setup, START_SECONDS)).answer
        if isinstance(answer, CepstraError):
            raise answer
        assert isinstance(answer, Ready)  # noqa: S101  the protocol
        return answer

    @contextmanager
    def _closed_if_unstarted(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # no more processes, no memory
            self._close()
            raise WorkerEndedError(str(error)) from error

    async def ask(self, task: Task, seconds: float) -> Timed:
        """Its answer. Raises WorkerEndedError, TimeoutError after so many seconds; either way the process is gone."""
        return await self._exchange(task, seconds)

    @contextmanager
    def watched(self, ended: Callable[[], None]) -> Iterator[None]:
        """While it is at nothing: have its end noticed, rather than when there is work for it."""
        assert self._connection is not None  # noqa: S101  start() comes first
        loop, descriptor = asyncio.get_running_loop(), self._connection.fileno()

        def on_end() -> None:  # it says nothing unless asked
            self.has_ended = True
            loop.remove_reader(descriptor)
            ended()

        loop.add_reader(descriptor, on_end)
        try:
            yield
        finally:
            loop.remove_reader(descriptor)

    async def _exchange(self, message: Task | Setup, seconds: float) -> Timed:
        assert self._connection is not None  # noqa: S101  start() comes first
        self._waiting = waiting = asyncio.get_running_loop().run_in_executor(
            self._executor, _exchange, self._connection, message
        )
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(waiting)
        except BaseException as error:
            self.kill()
            if isinstance(error, Exception) and not isinstance(error, TimeoutError):  # also what can't be unpickled
                raise WorkerEndedError(repr(error)) from error
            raise

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
                await asyncio.to_thread(self._process.wait, END_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def _close(self, waited: asyncio.Future[Timed] | None = None) -> None:
        """After the thread has seen the end of the socket: closed before that, the descriptor could be another's."""
        if waited is not None and not waited.cancelled():
            waited.exception()  # it was told, or comes to nobody
        if self._waiting is not None and not self._waiting.done():
            self._waiting.add_done_callback(self._close)
        elif self._connection is not None:
            with suppress(OSError):
                self._connection.close()


def _exchange(connection: Connection, message: Task | Setup) -> Timed:
    connection.send(message)
    answer = connection.recv()
    assert isinstance(answer, Timed)  # noqa: S101  the protocol
    return answer
