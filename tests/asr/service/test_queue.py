"""Who gets a worker next: order, company, cancellation; nothing is lost, and nothing waits for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.service.queue import PATIENCE, Queue, Ticket
from asr.service.transcriber import Urgency
from asr.service.work import CheckPhrases, Manner, Open, Part, Transcribe

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import pytest

SOUND = np.zeros(1, np.float32)
FREE = Manner()
HELD = Manner(phrases="turn on the lights", name="home")


def _run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(test())


def _short(manner: Manner = FREE, urgency: Urgency = Urgency.SHORT) -> Ticket:
    return Ticket(Transcribe((SOUND,), manner), urgency)


def _long() -> Ticket:
    return Ticket(Part(Path("samples"), ((0, 1),), FREE), Urgency.LONG)


async def _take(queue: Queue, *, reads: bool = False, workers: int = 1) -> list[Ticket]:
    """What is there to be taken; none where a taker would wait."""
    async with asyncio.timeout(10):
        tries = 0

        def ends() -> bool:
            nonlocal tries
            tries += 1
            return tries > 1

        taking = asyncio.ensure_future(queue.take(reads=reads, workers=lambda: workers, ends=ends))
        await asyncio.sleep(0)
        queue.notify()
        return await taking


def test_the_more_urgent_goes_first_and_the_older_of_two_alike() -> None:
    async def test() -> None:
        queue = Queue(1)
        tickets = [_long(), _short(), _short(), _short(urgency=Urgency.PARTIAL), _short(urgency=Urgency.LIVE)]
        for ticket in tickets:
            queue.put(ticket)
        taken = [(await _take(queue, workers=9))[0] for _ in tickets]
        assert taken == [tickets[i] for i in (4, 1, 2, 3, 0)]
        assert queue.waiting == 0

    _run(test)


def test_recordings_of_one_manner_are_decoded_together_and_shared_out_over_the_workers() -> None:
    async def test() -> None:
        queue = Queue(4)
        tickets = [_short(HELD if i in (1, 4) else FREE) for i in range(8)]
        free, held = [tickets[i] for i in (0, 2, 3, 5, 6, 7)], [tickets[i] for i in (1, 4)]
        for ticket in tickets:
            queue.put(ticket)
        assert await _take(queue, workers=2) == free[:3]  # the other worker gets as many
        assert await _take(queue, workers=1) == held
        assert await _take(queue, workers=1) == free[3:]

        for ticket in (more := [_short() for _ in range(9)]):
            queue.put(ticket)
        assert await _take(queue, workers=1) == more[:4]  # no more than a batch

    _run(test)


def test_what_may_have_ended_a_worker_is_decoded_alone() -> None:
    async def test() -> None:
        queue = Queue(8)
        tickets = [_short() for _ in range(4)]
        tickets[0].alone = tickets[2].alone = True
        for ticket in tickets:
            queue.put(ticket)
        assert await _take(queue) == [tickets[0]]
        assert await _take(queue) == [tickets[1], tickets[3]]
        assert await _take(queue) == [tickets[2]]

    _run(test)


def test_long_recordings_leave_one_worker_free_for_short_ones() -> None:
    async def test() -> None:
        queue = Queue(8)
        for ticket in (longs := [_long() for _ in range(4)]):
            queue.put(ticket)
        assert await _take(queue, workers=3) == [longs[0]]
        assert await _take(queue, workers=3) == [longs[1]]
        assert await _take(queue, workers=3) == []
        queue.put(short := _short())
        assert await _take(queue, workers=3) == [short]
        queue.done([longs[0]])
        assert await _take(queue, workers=3) == [longs[2]]
        assert await _take(queue, workers=1) == []  # two are at long ones already
        queue.done([longs[1]])
        queue.done([longs[2]])
        assert await _take(queue, workers=1) == [longs[3]]  # where there is but one worker, it does everything

    _run(test)


def test_opening_and_checking_are_for_the_reader_alone() -> None:
    async def test() -> None:
        queue = Queue(8)
        opening = Ticket(Open(Path("a"), Path("b")), Urgency.LONG)
        checking = Ticket(CheckPhrases("home", "turn on"), Urgency.SHORT)
        queue.put(opening)
        queue.put(checking)
        queue.put(short := _short())
        assert await _take(queue) == [short]
        assert await _take(queue) == []
        assert await _take(queue, reads=True) == [checking]
        assert await _take(queue, reads=True) == [opening]
        assert await _take(queue, reads=True) == []

    _run(test)


def test_what_nobody_waits_for_any_more_is_not_taken() -> None:
    async def test() -> None:
        queue = Queue(8)
        queue.put(gone := _short())
        queue.put(here := _short())
        queue.drop(gone)
        queue.drop(gone)  # once more changes nothing
        assert await _take(queue) == [here]
        queue.drop(here)  # nor does it for what was taken
        assert queue.waiting == 0

    _run(test)


def test_a_taker_that_is_cancelled_takes_nothing_with_it() -> None:
    async def test() -> None:
        queue = Queue(8)
        first, second = (
            asyncio.ensure_future(queue.take(reads=False, workers=lambda: 2, ends=lambda: False)) for _ in range(2)
        )
        await asyncio.sleep(0)
        first.cancel()
        queue.put(ticket := _short())
        assert await asyncio.wait_for(second, 10) == [ticket]

    _run(test)


def test_a_long_recording_is_not_kept_waiting_by_short_ones_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        now = 100.0
        monkeypatch.setattr("asr.service.queue.time.monotonic", lambda: now)
        queue = Queue(1)
        long = _long()
        long.since = now
        queue.put(long)
        before = 0
        while True:  # a short one each second, and one worker that needs a second for each
            short = _short()
            short.since = now
            queue.put(short)
            (taken,) = await _take(queue)
            queue.done([taken])
            if taken is long:
                break
            before += 1
            now += 1
            assert before < 60
        assert before >= 2 * PATIENCE - 1  # though all of them go first for a while

    _run(test)


def test_a_long_one_that_has_waited_for_long_does_not_block_short_ones_where_it_may_not_go() -> None:
    async def test() -> None:
        queue = Queue(8)
        queue.put(first := _long())
        assert await _take(queue, workers=2) == [first]
        second = _long()
        second.since -= 1000
        queue.put(second)
        queue.put(short := _short())
        assert await _take(queue, workers=2) == [short]
        assert await _take(queue, workers=2) == []

    _run(test)


_KINDS = st.sampled_from(["live", "short", "held", "alone", "partial", "long", "open", "check"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _KINDS),
        st.tuples(st.just("take"), st.booleans()),
        st.tuples(st.just("done"), st.integers(0, 5)),
        st.tuples(st.just("again"), st.integers(0, 5)),
        st.tuples(st.just("drop"), st.integers(0, 20)),
    ),
    max_size=60,
)


def _ticket(kind: str) -> Ticket:
    if kind == "long":
        return _long()
    if kind == "open":
        return Ticket(Open(Path("a"), Path("b")), Urgency.LONG)
    if kind == "check":
        return Ticket(CheckPhrases("home", "turn on"), Urgency.SHORT)
    urgency = {"live": Urgency.LIVE, "partial": Urgency.PARTIAL}.get(kind, Urgency.SHORT)
    ticket = _short(HELD if kind == "held" else FREE, urgency)
    ticket.alone = kind == "alone"
    return ticket


class _Model:
    """What should be in a queue, beside one."""

    def __init__(self, workers: int, batch: int) -> None:
        self.queue, self._workers, self._batch = Queue(batch), workers, batch
        self.waiting: list[Ticket] = []
        self.working: list[list[Ticket]] = []

    def put(self, ticket: Ticket) -> None:
        self.waiting.append(ticket)
        self.queue.put(ticket)

    async def take(self, *, reads: bool) -> bool:
        if len(self.working) > self._workers:  # they and the reader are all at something
            return False
        taken = await _take(self.queue, reads=reads, workers=self._workers)
        for ticket in taken:
            self.waiting.remove(ticket)  # ValueError where it had been taken, or was never put
            assert ticket.reads == reads
        assert len(taken) <= self._batch
        if len(taken) > 1:
            assert len({ticket.task.manner for ticket in taken}) == 1
            assert not any(ticket.alone or ticket.urgency >= Urgency.PARTIAL for ticket in taken)
        if taken:
            self.working.append(taken)
        behind = [other for tickets in self.working for other in tickets if not other.reads]
        assert sum(other.urgency >= Urgency.PARTIAL for other in behind) <= max(1, self._workers - 1)
        return bool(taken)

    def done(self, number: int, *, again: bool = False) -> None:
        if self.working:
            tickets = self.working.pop(number % len(self.working))
            self.queue.done(tickets)
            for ticket in tickets if again else ():
                ticket.alone = True
                self.put(ticket)

    def drop(self, number: int) -> None:
        if self.waiting:
            self.queue.drop(self.waiting.pop(number % len(self.waiting)))

    async def step(self, step: str, argument: str | int) -> None:
        if isinstance(argument, str):
            self.put(_ticket(argument))
        elif step == "take":
            await self.take(reads=bool(argument))
        elif step == "drop":
            self.drop(argument)
        else:
            self.done(argument, again=step == "again")
        assert self.queue.waiting == len(self.waiting)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(_STEPS, st.integers(1, 4), st.integers(1, 4))
def test_each_task_is_taken_once_or_dropped_whatever_happens(
    steps: list[tuple[str, str | int]], workers: int, batch: int
) -> None:
    async def test() -> None:
        model = _Model(workers, batch)
        for step, argument in steps:
            await model.step(step, argument)
        while model.working:
            model.done(0)
        while await model.take(reads=False) or await model.take(reads=True):  # whatever was left, in the end
            model.done(0)
        assert not model.waiting
        assert model.queue.waiting == 0

    _run(test)
