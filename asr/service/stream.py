"""A conversation: the sound of a stream in, what is said in it out, apart from any protocol."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.errors import AudioError, CepstraError
from asr.listen import Heard
from asr.service.errors import BusyError, LateError
from asr.service.transcriber import Urgency
from asr.utterances import Began, Spoken, Utterances
from audio.vad import RATE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

    from asr.inflow import Array, Inflow
    from asr.results import Result
    from asr.service.transcriber import Transcriber

log = logging.getLogger("cepstra.service")

PARTIAL_SECONDS = 0.5  # between guesses at what is being said, at least
PARTIAL_SHARE = 3.0  # and so many times what the last one took: those of a long utterance take longer
PATIENCE_SECONDS = 30.0  # for which the sound of an utterance is offered to workers that have no time
RETRY_SECONDS = 0.25
SMALL = RATE // 4  # samples, about: a millisecond of work, and a thread costs nearly as much
LARGE = RATE  # samples that a thread judges at once


@dataclass(frozen=True)
class Wishes:
    """How what is said shall be understood, as Transcriber.transcribe takes it."""

    phrases: str | None = None
    threshold: float | None = None
    boost: Mapping[str, float] | None = None

    def options(self) -> dict[str, Any]:
        """Those of Transcriber.transcribe."""
        return {"phrases": self.phrases, "threshold": self.threshold, "boost": self.boost}


@dataclass(frozen=True)
class Lost:
    """An utterance that could not be transcribed."""

    start: float  # seconds of the stream
    end: float
    error: CepstraError


@dataclass
class _Guess:
    """The work on a partial text."""

    task: asyncio.Task[None] | None = None
    due: float = 0.0  # when the next may begin, by the monotonic clock
    text: str = ""


class Conversation:
    """Takes a stream apart into utterances and has each transcribed, in order, before it takes more."""

    @classmethod
    async def begin(
        cls,
        transcriber: Transcriber,
        inflow: Inflow,
        wishes: Wishes | None = None,
        *,
        pause_seconds: float = 0.5,
        on_partial: Callable[[str], Awaitable[None]] | None = None,
    ) -> Conversation:
        """inflow: what makes samples of the bytes. on_partial: is given what is being said, every now and then.

        Raises AudioError for a pause that can't be, and what the transcriber has to say of the wishes.
        """
        wishes = Wishes() if wishes is None else wishes
        utterances = await asyncio.to_thread(lambda: Utterances(pause_seconds=pause_seconds))  # the first takes a while
        if wishes != Wishes():
            with suppress(BusyError, LateError):  # then the first utterance will tell
                await transcriber.transcribe(np.zeros(RATE // 10, np.float32), **wishes.options())
        return cls(transcriber, inflow, wishes, utterances, on_partial)

    def __init__(
        self,
        transcriber: Transcriber,
        inflow: Inflow,
        wishes: Wishes,
        utterances: Utterances,
        on_partial: Callable[[str], Awaitable[None]] | None,
    ) -> None:
        """For `begin`."""
        self._transcriber, self._inflow, self._wishes = transcriber, inflow, wishes
        self._utterances, self._on_partial = utterances, on_partial
        self._guess = _Guess()

    @property
    def held(self) -> int:
        """Samples that are in memory between messages."""
        return self._utterances.held

    @property
    def partial(self) -> str:
        """What is being said, as far as it's known."""
        return self._guess.text

    @property
    def warning(self) -> str | None:
        """What is odd about the sound, though it is taken."""
        return self._inflow.warning

    async def feed(self, data: bytes) -> AsyncGenerator[Began | Heard | Lost, None]:
        """What these bytes bring. Each utterance begins, and is then heard or lost; `text` is "" where it was noise.

        Raises AudioError where the bytes are no sound: then only `finish` makes sense, for what came before.
        """
        async for told in self._taken(self._inflow.feed(data)):
            yield told

    async def finish(self) -> AsyncGenerator[Began | Heard | Lost, None]:
        """The stream is over: what is left of it."""
        with suppress(AudioError):  # damage was said before
            async for told in self._taken(self._inflow.finish()):
                yield told
        for event in await asyncio.to_thread(lambda: list(self._utterances.finish())):
            yield await self._told(event)

    def cancel(self) -> None:
        """Nobody waits for answers any more."""
        if self._guess.task is not None:
            self._guess.task.cancel()
        self._guess = _Guess()

    async def _taken(self, blocks: Iterator[Array]) -> AsyncGenerator[Began | Heard | Lost, None]:
        await asyncio.sleep(0)  # many small messages may wait, and so do others
        events, more = self._judge(blocks, SMALL)
        while True:
            for event in events:
                yield await self._told(event)
            if isinstance(more, AudioError):
                raise more
            self._perhaps_guess()
            if not more:
                return
            events, more = await asyncio.to_thread(self._judge, blocks, LARGE)

    def _judge(self, blocks: Iterator[Array], count: int) -> tuple[list[Began | Spoken], bool | AudioError]:
        """What the next blocks bring, until they are so many samples together; and whether, or why not, more may come.

        An error is returned, since what came before it isn't to be lost.
        """
        events: list[Began | Spoken] = []
        taken = 0
        try:
            for block in blocks:
                events += self._utterances.feed(block)
                taken += len(block)
                if taken >= count:
                    return events, True
        except AudioError as error:
            return events, error
        return events, False

    async def _told(self, event: Began | Spoken) -> Began | Heard | Lost:
        self.cancel()  # the end is a better answer
        if isinstance(event, Began):
            self._guess.due = time.monotonic() + PARTIAL_SECONDS
            return event
        began = time.monotonic()
        try:
            result = await insist(
                lambda: self._transcriber.transcribe(event.samples, **self._wishes.options(), urgency=Urgency.LIVE)
            )
        except CepstraError as error:
            return Lost(event.start, event.end, error)
        return Heard.of(event, result, time.monotonic() - began)

    def _perhaps_guess(self) -> None:
        samples = self._utterances.current
        if self._on_partial is None or samples is None or time.monotonic() < self._guess.due:
            return
        if self._guess.task is None or self._guess.task.done():
            self._guess.task = asyncio.create_task(self._partial(self._guess, samples, self._on_partial))
            self._guess.task.add_done_callback(_watched)

    async def _partial(self, guess: _Guess, samples: Array, tell: Callable[[str], Awaitable[None]]) -> None:
        began = time.monotonic()
        text = ""
        with suppress(CepstraError):  # busy or late, most likely: the next may have more luck
            options = self._wishes.options()
            text = (await self._transcriber.transcribe(samples, **options, urgency=Urgency.PARTIAL)).text
        guess.due = began + max(PARTIAL_SECONDS, PARTIAL_SHARE * (time.monotonic() - began))
        if text not in ("", guess.text):
            guess.text = text
            await tell(text)


def _watched(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("no partial text: %s", type(error).__name__)  # a client that is gone, which others notice too


async def insist(ask: Callable[[], Awaitable[Result]]) -> Result:
    """The answer, though workers may have no time at first; BusyError or LateError where they don't find any."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await ask()
        except (BusyError, LateError):
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(RETRY_SECONDS)
