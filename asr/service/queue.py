"""What waits for a worker, and in which order it gets one."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from asr.service.transcriber import Urgency
from asr.service.work import CheckPhrases, Open, Transcribe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PATIENCE = 5.0  # seconds of waiting after which a task counts as one degree more urgent: nothing waits for ever

_numbers = itertools.count()


@dataclass(eq=False)
class Ticket:
    """A task that somebody waits for."""

    task: Any
    urgency: Urgency
    future: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    tries: int = 0
    alone: bool = False  # not together with others: it may have ended a worker
    number: int = field(default_factory=lambda: next(_numbers))
    since: float = field(default_factory=time.monotonic)
    taken: float = 0.0

    @property
    def reads(self) -> bool:
        """Whether it is for the worker that opens recordings and checks phrases."""
        return isinstance(self.task, Open | CheckPhrases)

    @property
    def yields(self) -> bool:
        """Whether it may not take the last worker that is free."""
        return self.urgency >= Urgency.PARTIAL

    def rank(self, now: float) -> int:
        """Its urgency, and how long it has waited."""
        return max(Urgency.LIVE, self.urgency - int((now - self.since) / PATIENCE))

    def answer(self, answer: Any) -> None:  # noqa: ANN401  each task has an answer of its own
        """To whoever waits, if anybody still does."""
        if not self.future.done():
            self.future.set_result(answer)

    def fail(self, error: Exception) -> None:
        """As `answer`."""
        if not self.future.done():
            self.future.set_exception(error)


class Queue:
    """By urgency, then by age. Pieces of long recordings leave one worker free, where there are several.

    Long recordings wait for all short ones, but not for ever: with every PATIENCE seconds a task becomes more urgent.
    """

    def __init__(self, batch: int) -> None:
        """batch: recordings that are decoded together at most."""
        self._batch = batch
        self._waiting: list[Ticket] = []
        self._working: set[Ticket] = set()
        self._takers: list[asyncio.Future[None]] = []
        self.pace = 0.1  # seconds that a task takes, lately

    @property
    def waiting(self) -> int:
        """Tasks that nobody has taken."""
        return len(self._waiting)

    def put(self, ticket: Ticket) -> None:
        """In its place."""
        self._waiting.append(ticket)
        self.notify()

    def drop(self, ticket: Ticket) -> None:
        """Nobody waits for it any more."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)

    def clear(self) -> list[Ticket]:
        """Take all of them out."""
        dropped, self._waiting = self._waiting, []
        return dropped

    def notify(self) -> None:
        """Something has changed."""
        takers, self._takers = self._takers, []
        for taker in takers:
            if not taker.done():
                taker.set_result(None)

    async def take(self, *, reads: bool, workers: Callable[[], int], ends: Callable[[], bool]) -> list[Ticket]:
        """The next task, or several recordings to decode together; none when `ends` says so.

        reads: for the worker that opens recordings. workers: how many decode, whenever it is asked.
        """
        while not ends():
            tickets = self._next(max(1, workers()), reads=reads)
            if tickets:
                now = time.monotonic()
                for ticket in tickets:
                    self._waiting.remove(ticket)
                    self._working.add(ticket)
                    ticket.taken = now
                return tickets
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            await taker
        return []

    def done(self, tickets: Sequence[Ticket]) -> None:
        """Taken ones are answered, or were put back."""
        self._working.difference_update(tickets)
        for ticket in tickets:
            self.pace += 0.1 * (time.monotonic() - ticket.taken - self.pace)
        self.notify()

    def _next(self, workers: int, *, reads: bool) -> list[Ticket]:
        now = time.monotonic()
        waiting = sorted(
            (ticket for ticket in self._waiting if ticket.reads == reads and (reads or self._may(ticket, workers))),
            key=lambda ticket: (ticket.rank(now), ticket.number),
        )
        if not waiting:
            return []
        first = waiting[0]
        if first.alone or first.yields or not isinstance(first.task, Transcribe):
            return [first]
        alike = [
            ticket
            for ticket in waiting
            if not ticket.yields and not ticket.alone and _manner(ticket) == first.task.manner
        ]
        return alike[: max(1, min(self._batch, -(-len(alike) // workers)))]

    def _may(self, ticket: Ticket, workers: int) -> bool:
        """Whether it may have a worker: one is left for what is short."""
        if not ticket.yields:
            return True
        return sum(other.yields and not other.reads for other in self._working) < max(1, workers - 1)


def _manner(ticket: Ticket) -> object:
    return ticket.task.manner if isinstance(ticket.task, Transcribe) else None
