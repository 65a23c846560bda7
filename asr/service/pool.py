"""The workers, and who gets one next: short recordings before pieces of long ones."""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.errors import CepstraError
from asr.service.errors import BusyError, LateError, ServiceError
from asr.service.handle import Handle, WorkerEndedError
from asr.service.queue import Queue, Ticket
from asr.service.transcriber import Urgency
from asr.service.work import Checked, CheckPhrases, Long, Manner, Open, Opened, Part, Ready, Setup, Transcribe
from asr.timing import assemble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from asr.results import Result
    from asr.service.metrics import Metrics
    from asr.service.settings import Settings
    from asr.service.store import PhraseStore
    from asr.service.transcriber import Sound
    from asr.timing import Piece

QUICK_BYTES = 1 << 21  # a larger file is opened by the reader, beside those that decode
PART_SECONDS = 10.0  # of a long recording, that a worker decodes before it looks who is waiting
TRIES = 3  # of a recording that ends its worker
SLOWEST_START = 5.0  # seconds between attempts to replace a worker
READER_NICENESS = 5

_log = logging.getLogger("cepstra.service")


class Pool:
    """W processes that decode and one that opens long recordings and checks phrases; a `Transcriber`."""

    def __init__(self, settings: Settings, phrases: PhraseStore, metrics: Metrics, spool: Path) -> None:
        """spool: a folder for what is received, and for copies of the bundle."""
        self._settings, self._phrases, self._metrics, self._spool = settings, phrases, metrics, spool
        self._queue = Queue(settings.batch)
        self._executor = ThreadPoolExecutor(2 * (settings.processes + 2), "worker")
        self._slots: list[_Slot] = []
        self._bundles = 0
        self._requests = 0
        self._idle = asyncio.Event()
        self._stopping = False
        self._reloading = asyncio.Lock()
        self.ready: Ready = Ready("", "en", 16000)

    @property
    def rate(self) -> int:
        """Hz, of samples."""
        return self.ready.rate

    @property
    def model(self) -> str:
        """The bundle's name."""
        return self.ready.model

    @property
    def language(self) -> str:
        """ISO 639-1."""
        return self.ready.language

    @property
    def workers(self) -> int:
        """That are ready to decode."""
        return sum(slot.is_ready and not slot.reads for slot in self._slots)

    @property
    def waiting(self) -> int:
        """Tasks that no worker has taken."""
        return self._queue.waiting

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more is taken."""
        return self._stopping

    async def start(self) -> None:
        """Raises CepstraError where the bundle can't be used."""
        self._slots, self.ready = await self._new_slots()

    async def reload(self) -> None:
        """The bundle's file has changed: new workers take over, the old ones finish what they are at.

        Raises CepstraError where it can't be used; then everything stays as it was.
        """
        async with self._reloading:
            slots, ready = await self._new_slots()
            before, self._slots, self.ready = self._slots, slots, ready
            self._queue.notify()
            await asyncio.gather(*(slot.retire() for slot in before))
        _log.info("the bundle was read again", extra={"model": ready.model})

    async def stop(self, seconds: float) -> None:
        """Take no more, finish what was taken within so many seconds, and end the workers."""
        self._stopping = True
        if self._requests:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)
        for ticket in self._queue.clear():
            ticket.fail(BusyError("the service is stopping"))
        await asyncio.gather(*(slot.end() for slot in self._slots))
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def transcribe(
        self,
        sound: Sound,
        *,
        phrases: str | None = None,
        threshold: float | None = None,
        boost: Mapping[str, float] | None = None,
        urgency: Urgency = Urgency.SHORT,
        lenient: bool = False,
        heard: Callable[[str], None] | None = None,
    ) -> Result:
        """As `Transcriber` says.

        lenient: leave out what of the boost can't be used. heard: is told the text of each part of a long recording
        as soon as that and all before it are decoded; of a short one, the text.
        """
        manner = Manner(boost=tuple((boost or {}).items()), lenient=lenient)
        if phrases is not None:
            manner = Manner(self._phrases.text(phrases), phrases, threshold)
        seconds = self._settings.answer_seconds
        with self._admitted(urgency):
            try:
                async with asyncio.timeout(seconds):
                    result = await self._transcribe(sound, manner, urgency, heard or (lambda _: None))
            except TimeoutError:
                raise LateError(f"no answer within {seconds:g} s; send a shorter recording, or try later") from None
        self._metrics.audio.inc(result.duration)
        return result

    async def check_phrases(self, name: str, text: str) -> Checked:
        """Whether the text of a phrase file can be used. Raises PhrasesError, LateError."""
        answer = await self._ask(CheckPhrases(name, text), Urgency.SHORT)
        assert isinstance(answer, Checked)  # noqa: S101  the protocol
        return answer

    @property
    def retry_after(self) -> int:
        """Seconds after which there may be room."""
        return max(1, min(60, math.ceil(self._queue.waiting * self._queue.pace / max(1, self.workers))))

    @property
    def is_full(self) -> bool:
        """Whether another request would be refused."""
        return self._stopping or self._requests >= self._settings.processes + self._settings.max_waiting

    def refuse_if_full(self) -> None:
        """Raises BusyError."""
        if self.is_full:
            self._metrics.refused.labels("stopping" if self._stopping else "busy").inc()
            raise BusyError(
                "the service is stopping; try again" if self._stopping else "too many requests wait; try again later",
                retry_after=self.retry_after,
            )

    @contextmanager
    def _admitted(self, urgency: Urgency) -> Iterator[None]:
        if urgency is Urgency.PARTIAL and self._queue.waiting >= max(1, self.workers):
            raise BusyError("too much waits for a guess", retry_after=self.retry_after)
        if urgency is not Urgency.LIVE:  # what was said to a stream that was taken isn't lost
            self.refuse_if_full()
        self._requests += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._idle.set()

    async def _transcribe(self, sound: Sound, manner: Manner, urgency: Urgency, heard: Callable[[str], None]) -> Result:
        answer: Result | Long = Long()
        if not isinstance(sound, Path) or sound.stat().st_size <= QUICK_BYTES:
            answer = await self._ask(Transcribe((sound,), manner), urgency)
        if not isinstance(answer, Long):
            heard(answer.text)
            return answer
        assert isinstance(sound, Path)  # noqa: S101  samples in memory are never too long
        samples = sound.with_name(sound.name + ".samples")
        try:
            opened = await self._ask(Open(sound, samples), Urgency.LONG)
            pieces = await self._parts(samples, opened, manner, heard)
        finally:
            samples.unlink(missing_ok=True)
        return assemble(None, opened.duration, pieces)

    async def _parts(
        self, samples: Path, opened: Opened, manner: Manner, heard: Callable[[str], None]
    ) -> list[tuple[float, Piece]]:
        """Pieces in order; as many parts under way as there are workers."""
        found: list[tuple[float, Piece]] = []
        under_way: list[asyncio.Task[Any]] = []
        parts = _parts(opened.pieces, round(PART_SECONDS * self.rate))
        try:
            while parts or under_way:
                while parts and len(under_way) < max(1, self._settings.processes):
                    under_way.append(
                        asyncio.ensure_future(self._ask(Part(samples, parts.pop(0), manner), Urgency.LONG))
                    )
                pieces: list[tuple[float, Piece]] = await under_way.pop(0)
                found += pieces
                heard(" ".join(word.word for _, piece in pieces for word in piece.words))
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        return found

    async def _ask(self, task: Any, urgency: Urgency) -> Any:  # noqa: ANN401  each task has an answer of its own
        """A task's answer. Raises what it answers with, if that is an error."""
        ticket = Ticket(task, urgency)
        self._queue.put(ticket)
        self._metrics.waiting.set(self._queue.waiting)
        try:
            answer = await ticket.future
        finally:
            self._queue.drop(ticket)
        if isinstance(answer, CepstraError):
            raise answer
        return answer

    async def _new_slots(self) -> tuple[list[_Slot], Ready]:
        """Workers for the bundle as it is now."""
        settings = self._settings
        self._bundles += 1
        copy = self._spool / f"bundle-{self._bundles}.cepstra"
        try:
            await asyncio.to_thread(shutil.copyfile, settings.model_path, copy)
        except OSError as error:
            raise CepstraError(f"{settings.model_path}: can't be read ({error.strerror}); check the name") from None
        setup = Setup(copy, settings.beam, settings.threads, settings.max_seconds, 0, settings.worker_memory_mb << 20)
        reader = replace(setup, threads=1, niceness=READER_NICENESS)
        slots = [_Slot(self, each, reads=each is reader) for each in [setup] * settings.processes + [reader]]
        started = await asyncio.gather(*(slot.start() for slot in slots), return_exceptions=True)
        failed = next((each for each in started if isinstance(each, BaseException)), None)
        if failed is not None:
            await asyncio.gather(*(slot.end() for slot in slots))
            if isinstance(failed, CepstraError):
                raise CepstraError(str(failed).replace(str(copy), str(settings.model_path)))
            raise CepstraError(f"{settings.model_path}: workers can't be started ({failed!r}); check memory and limits")
        for slot in slots:
            slot.run()
        ready = started[0]
        assert isinstance(ready, Ready)  # noqa: S101  the others were raised
        return slots, ready


class _Slot:
    """A place for a worker: what ends is replaced."""

    def __init__(self, pool: Pool, setup: Setup, *, reads: bool) -> None:
        self._pool, self._setup, self.reads = pool, setup, reads
        self._handle = self._new()
        self._loop: asyncio.Task[None] | None = None
        self._retired = False
        self.is_ready = False

    def _new(self) -> Handle:
        return Handle(self._setup, self._pool._executor)  # noqa: SLF001  the two are one

    async def start(self) -> Ready:
        ready = await self._handle.start()
        self.is_ready = True
        return ready

    def run(self) -> None:
        self._loop = asyncio.create_task(self._serve())

    async def retire(self) -> None:
        """End after the task that it is at."""
        self._retired = True
        self._pool._queue.notify()  # noqa: SLF001
        if self._loop is not None:
            await self._loop
        await self._handle.stop()

    async def end(self) -> None:
        self._retired = True
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
        await self._handle.stop()

    async def _serve(self) -> None:
        queue, metrics = self._pool._queue, self._pool._metrics  # noqa: SLF001
        while not self._retired:
            tickets = await queue.take(reads=self.reads, workers=self._pool.workers, ends=lambda: self._retired)
            if not tickets:
                continue
            metrics.waiting.set(queue.waiting)
            metrics.working.inc()
            try:
                await self._work(tickets)
            finally:
                metrics.working.dec()
                queue.done(tickets)

    async def _work(self, tickets: list[Ticket]) -> None:
        metrics = self._pool._metrics  # noqa: SLF001
        now = time.monotonic()
        for ticket in tickets:
            metrics.stages.labels("wait").observe(now - ticket.since)
        task = tickets[0].task
        if isinstance(task, Transcribe):
            metrics.batch.observe(len(tickets))
            task = replace(task, sounds=tuple(sound for ticket in tickets for sound in ticket.task.sounds))
        try:
            timed = await self._handle.ask(task, self._pool._settings.task_seconds)  # noqa: SLF001
        except (WorkerEndedError, TimeoutError) as error:
            _log.warning("a worker %s", "took too long" if isinstance(error, TimeoutError) else "ended")
            self._again(tickets, error)
            await self._replace()
            return
        for stage, seconds in timed.seconds.items():
            metrics.stages.labels(stage).observe(seconds)
        if isinstance(task, Transcribe) and isinstance(timed.answer, list):
            for ticket, answer in zip(tickets, timed.answer, strict=True):
                ticket.answer(answer)
        else:
            for ticket in tickets:
                ticket.answer(timed.answer)

    def _again(self, tickets: list[Ticket], error: Exception) -> None:
        """Each by itself, so that what is at fault takes nothing with it."""
        for ticket in tickets:
            ticket.tries += 1
            if len(tickets) == 1 and isinstance(error, TimeoutError):
                ticket.fail(LateError("this takes longer than the service allows; send less at once"))
            elif ticket.tries >= TRIES:
                ticket.fail(ServiceError("this recording can't be worked on: each worker that tried ended"))
            else:
                ticket.alone = True
                self._pool._queue.put(ticket)  # noqa: SLF001

    async def _replace(self) -> None:
        metrics = self._pool._metrics  # noqa: SLF001
        self.is_ready = False
        pause = 0.1
        while not self._retired:
            metrics.restarts.inc()
            self._handle = self._new()
            try:
                await self.start()
            except (CepstraError, WorkerEndedError, OSError) as error:
                self._handle.kill()
                _log.error("a worker can't be replaced: %s", error or "it ended at once")
                await asyncio.sleep(pause)
                pause = min(2 * pause, SLOWEST_START)
            else:
                return


def _parts(pieces: tuple[tuple[int, int], ...], most: int) -> list[tuple[tuple[int, int], ...]]:
    """Consecutive pieces, of so many samples together, or one."""
    parts: list[list[tuple[int, int]]] = []
    room = 0
    for start, end in pieces:
        if not parts or end - start > room:
            parts.append([])
            room = most
        parts[-1].append((start, end))
        room -= end - start
    return [tuple(part) for part in parts]
