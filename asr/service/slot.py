"""A place for a worker, that takes from the queue: what ends is replaced."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from asr.errors import CepstraError
from asr.service.errors import STOPPING, BusyError, LateError, ServiceError
from asr.service.handle import Handle, WorkerEndedError
from asr.service.work import CheckPhrases, Transcribe

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from asr.service.metrics import Metrics
    from asr.service.queue import Queue, Ticket
    from asr.service.work import Ready, Setup, Timed

TRIES = 3  # of a recording that ends its worker
SLOWEST_START = 5.0  # seconds between attempts to replace a worker

CHECK_SECONDS = 10.0  # for a phrase file: ten to the twelve sentences take two

_log = logging.getLogger("cepstra.service")


@dataclass(frozen=True)
class Shared:
    """What the places of a pool have in common."""

    queue: Queue
    metrics: Metrics
    executor: Executor
    workers: Callable[[], int]  # that are ready to decode
    task_seconds: float


class Slot:
    """One worker after the other."""

    def __init__(self, shared: Shared, setup: Setup, *, reads: bool) -> None:
        """reads: for opening recordings and checking phrases, rather than for decoding."""
        self._shared, self._setup, self.reads = shared, setup, reads
        self._handle = Handle(setup, shared.executor)
        self._loop: asyncio.Task[None] | None = None
        self._retired = False
        self.is_ready = False

    @property
    def pid(self) -> int | None:
        """Of the process that is there now."""
        return self._handle.pid

    async def start(self) -> Ready:
        """Raises CepstraError where the bundle can't be used, WorkerEndedError, TimeoutError."""
        ready = await self._handle.start()
        self.is_ready = True
        return ready

    def run(self) -> None:
        """Take what waits, from now on."""
        self._loop = asyncio.create_task(self._serve())

    async def retire(self) -> None:
        """End after the task that it is at."""
        self._retired = True
        self._shared.queue.notify()
        if self._loop is not None:
            await self._loop
        await self._handle.stop()

    async def end(self) -> None:
        """Whatever it is at."""
        self._retired = True
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
        await self._handle.stop()

    async def _serve(self) -> None:
        queue, metrics = self._shared.queue, self._shared.metrics
        while not self._retired:
            with self._handle.watched(queue.notify):
                tickets = await queue.take(
                    reads=self.reads, workers=self._shared.workers,
                    ends=lambda: self._retired or self._handle.has_ended,
                )  # fmt: skip
            if tickets:
                metrics.waiting.set(queue.waiting)
                metrics.working.inc()
                try:
                    error = await self._work(tickets)
                except Exception as fault:  # noqa: BLE001  a place that nobody serves would be the end of the service
                    _log.exception("a fault of the service's own")
                    error = fault
                finally:
                    metrics.working.dec()
                    queue.done(tickets)
                if error is None:
                    continue
                self._again(tickets, error)
                _log.warning("a worker %s", "took too long" if isinstance(error, TimeoutError) else "ended")
            elif not self._retired:
                _log.warning("a worker ended while it was at nothing")
            await self._replace()

    async def _work(self, tickets: list[Ticket]) -> Exception | None:
        """Have tickets answered, or say what became of the worker that should have."""
        stages = self._shared.metrics.stages
        now = time.monotonic()
        for ticket in tickets:
            stages.labels("wait").observe(now - ticket.since)
        task = tickets[0].task
        if isinstance(task, Transcribe):
            self._shared.metrics.batch.observe(len(tickets))
            task = replace(task, sounds=tuple(sound for ticket in tickets for sound in ticket.task.sounds))
        try:
            limit = self._shared.task_seconds
            if isinstance(task, CheckPhrases):  # recordings wait for the same worker
                limit = min(limit, CHECK_SECONDS)
            timed = await self._handle.ask(task, limit)
        except (WorkerEndedError, TimeoutError) as error:
            return error
        except asyncio.CancelledError:
            for ticket in tickets:
                ticket.fail(BusyError(STOPPING, retry_after=1))
            raise
        for stage, seconds in timed.seconds.items():
            stages.labels(stage).observe(seconds)
        for fault in timed.faults:
            _log.error("a fault in a worker", extra={"traceback": fault})
        _answer(tickets, timed)
        return None

    def _again(self, tickets: list[Ticket], error: Exception) -> None:
        """Each by itself, so that what is at fault takes nothing with it."""
        for ticket in tickets:
            ticket.tries += 1
            if len(tickets) == 1 and isinstance(error, TimeoutError):
                ticket.fail(LateError("this takes longer than the service allows; send less at once"))
            elif ticket.tries >= TRIES:
                ticket.fail(ServiceError("this recording can't be worked on: each worker that tried ended"))
            elif not ticket.future.done():  # somebody still waits
                ticket.alone = True
                self._shared.queue.put(ticket)

    async def _replace(self) -> None:
        self.is_ready = False
        pause = 0.1
        while not self._retired:
            self._handle.kill()
            self._shared.metrics.restarts.inc()
            self._handle = Handle(self._setup, self._shared.executor)
            try:
                await self.start()
            except (CepstraError, WorkerEndedError, OSError, RuntimeError) as error:  # RuntimeError: no thread is left
                _log.error("a worker can't be replaced: %s", str(error) or "it took too long")
                await asyncio.sleep(pause)
                pause = min(2 * pause, SLOWEST_START)
            else:
                return


def _answer(tickets: list[Ticket], timed: Timed) -> None:
    answers = [timed.answer] * len(tickets)
    if isinstance(tickets[0].task, Transcribe) and isinstance(timed.answer, list):
        answers = timed.answer
    for ticket, answer in zip(tickets, answers, strict=True):
        ticket.answer(answer)
