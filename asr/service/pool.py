"""The workers, and who gets one next: short recordings before pieces of long ones."""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.bundle import MAX_BYTES
from asr.errors import BundleError, CepstraError
from asr.service.errors import NO_ROOM, STOPPING, BusyError, LateError
from asr.service.handle import WorkerEndedError
from asr.service.queue import Queue, Ticket
from asr.service.slot import Shared, Slot
from asr.service.transcriber import Urgency
from asr.service.work import Checked, CheckPhrases, Long, Manner, Open, Opened, Part, Ready, Setup, Transcribe
from asr.timing import assemble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from asr.results import Result
    from asr.service.metrics import Metrics
    from asr.service.settings import Settings
    from asr.service.store import PhraseStore
    from asr.service.transcriber import Sound
    from asr.timing import Piece

QUICK_BYTES = 1 << 21  # a larger file is opened by the reader, beside those that decode
PART_SECONDS = 10.0  # of a long recording, that a worker decodes before it looks who is waiting
READER_NICENESS = 5

_log = logging.getLogger("cepstra.service")


class Pool:
    """W processes that decode and one that opens long recordings and checks phrases; a `Transcriber`."""

    def __init__(self, settings: Settings, phrases: PhraseStore, metrics: Metrics, spool: Path) -> None:
        """spool: a folder for what is received, and for copies of the bundle."""
        self._settings, self._phrases, self._metrics, self._spool = settings, phrases, metrics, spool
        self._queue = Queue(settings.batch)
        self._executor = ThreadPoolExecutor(2 * (settings.processes + 2), "worker")
        self._shared = Shared(self._queue, metrics, self._executor, lambda: self.workers, settings.task_seconds)
        self._slots: list[Slot] = []
        self._retiring: list[Slot] = []
        self._bundles = 0
        self._requests = 0
        self._idle = asyncio.Event()
        self._stopping = self._stopped = False
        self._stop: asyncio.Future[None] | None = None
        self._reloader: asyncio.Task[None] | None = None
        self._reloading = asyncio.Lock()
        self._copy = spool  # of the bundle
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
    def digest(self) -> str:
        """Tells bundles of one name apart."""
        return self.ready.digest

    @property
    def threshold(self) -> float:
        """The least confidence of a command."""
        return self.ready.threshold

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
    def requests(self) -> int:
        """That are being answered."""
        return self._requests

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
            if self._stopping:
                return
            self._reloader = asyncio.current_task()
            try:
                await self._renew()
            except CepstraError:
                self._metrics.reloads.labels("refused").inc()
                raise
            finally:
                self._reloader = None
        self._metrics.reloads.labels("taken").inc()
        _log.info("the bundle was read again", extra={"model": self.ready.model, "bundle": self.ready.digest})

    async def _renew(self) -> None:
        slots, ready = await self._new_slots()
        self._retiring, self._slots, self.ready = self._slots, slots, ready
        await asyncio.gather(*(slot.retire() for slot in self._retiring))
        self._retiring = []
        for copy in self._spool.glob("bundle-*.cepstra"):
            if copy != self._copy:
                copy.unlink(missing_ok=True)

    async def stop(self, seconds: float) -> None:
        """Take no more, finish what was taken within so many seconds, and end the workers; once is enough."""
        self._stopping = True
        if self._stop is None:
            self._stop = asyncio.ensure_future(self._end(seconds))
        await asyncio.shield(self._stop)

    def hurry(self) -> None:
        """Stop without waiting for what was taken: it is answered that the service stops."""
        self._idle.set()

    async def _end(self, seconds: float) -> None:
        if self._requests:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)
        self._stopped = True
        if self._reloader is not None:
            self._reloader.cancel()
        for ticket in self._queue.clear():
            ticket.fail(BusyError(STOPPING, retry_after=1))
        await asyncio.gather(*(slot.end() for slot in [*self._slots, *self._retiring]))
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
        async with self._admitted(urgency):
            result = await self._transcribe(sound, manner, urgency, heard or (lambda _: None))
        self._metrics.audio.inc(result.duration)
        return result

    async def check_phrases(self, name: str, text: str) -> Checked:
        """Whether the text of a phrase file can be used. Raises PhrasesError, BusyError, LateError."""
        async with self._admitted(Urgency.SHORT):
            answer = await self._ask(CheckPhrases(name, text), Urgency.LONG)  # behind recordings
        assert isinstance(answer, Checked)  # noqa: S101  the protocol
        return answer

    @property
    def retry_after(self) -> int:
        """Seconds after which there may be room."""
        return max(1, min(60, math.ceil(self._queue.waiting * self._queue.pace / max(1, self.workers))))

    def refuse_if_full(self) -> None:
        """Before anything of a request is received. Raises BusyError."""
        if self._stopping or self._is_full:
            self._refuse()

    @property
    def _is_full(self) -> bool:
        return self._requests >= self._settings.processes + self._settings.max_waiting

    def _refuse(self) -> None:
        self._metrics.refused.labels("stopping" if self._stopping else "busy").inc()
        raise BusyError(
            STOPPING if self._stopping else "too many requests wait; try again later", retry_after=self.retry_after
        )

    @asynccontextmanager
    async def _admitted(self, urgency: Urgency) -> AsyncIterator[None]:
        """What is received by then is answered, also by a service that is stopping."""
        if urgency is Urgency.PARTIAL and self._queue.waiting >= max(1, self.workers):
            raise BusyError("too much waits for a guess", retry_after=self.retry_after)
        may_wait = urgency is Urgency.LIVE  # what was said to a stream isn't lost
        if self._stopped or (self._is_full and not may_wait):
            self._refuse()
        seconds = self._settings.answer_seconds
        self._requests += 1
        self._idle.clear()
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise LateError(f"no answer within {seconds:g} s; send less at once, or try later") from None
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
            samples.touch()  # a worker writes into it, but makes none: it would stay where nobody waits any more
            opened = await self._ask(Open(sound, samples), Urgency.SHORT)
            pieces = await self._parts(samples, opened, manner, heard)
        finally:
            samples.unlink(missing_ok=True)
        return replace(assemble(None, opened.duration, pieces), warnings=opened.warnings)

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
        if self._stopped:
            raise BusyError(STOPPING, retry_after=1)
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

    async def _new_slots(self) -> tuple[list[Slot], Ready]:
        """Workers for the bundle as it is now."""
        settings = self._settings
        self._bundles += 1
        copy = self._spool / f"bundle-{self._bundles}.cepstra"
        slots: list[Slot] = []
        try:
            await asyncio.to_thread(_copy, settings.model_path, copy)
            memory = settings.worker_memory_mb << 20
            setup = Setup(copy, settings.beam, settings.threads, settings.max_seconds, 0, memory)
            reader = replace(setup, threads=1, niceness=READER_NICENESS)
            slots = [Slot(self._shared, setup, reads=False) for _ in range(settings.processes)]
            slots.append(Slot(self._shared, reader, reads=True))
            started = await asyncio.gather(*(slot.start() for slot in slots), return_exceptions=True)
            ready = _all_ready(started)
        except BaseException as error:
            await asyncio.gather(*(slot.end() for slot in slots))
            copy.unlink(missing_ok=True)
            if isinstance(error, CepstraError):
                raise CepstraError(str(error).replace(str(copy), str(settings.model_path))) from None
            if isinstance(error, WorkerEndedError | OSError):
                reason = str(error) or "they took too long"
                raise CepstraError(
                    f"{settings.model_path}: workers can't be started ({reason}); check memory and limits"
                ) from None
            raise
        for slot in slots:
            slot.run()
        self._copy = copy
        return slots, ready


def _all_ready(started: list[Ready | BaseException]) -> Ready:
    """Raises what went wrong first."""
    for each in started:
        if isinstance(each, BaseException):
            raise each
    ready = started[0]
    assert isinstance(ready, Ready)  # noqa: S101  the others were raised
    return ready


def _copy(bundle: Path, copy: Path) -> None:
    """Raises CepstraError; what can be no bundle is refused before it is copied, since it may have no end."""
    try:
        status = bundle.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise BundleError(f"{bundle}: not a file, or larger than a bundle may be; name a bundle (.cepstra)")
        shutil.copyfile(bundle, copy)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise CepstraError(f"{copy.parent}: no room for a copy of the bundle; free some, or set TMPDIR") from None
        reason = error.strerror or "not a file"
        raise CepstraError(f"{bundle}: can't be read ({reason}); check the name") from None


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
