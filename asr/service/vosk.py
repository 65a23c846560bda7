"""`WS /vosk`: the messages of vosk-server, so that its clients need no change.

A client sends {"config": …} if it likes, then 16-bit samples. Each message of them is answered by one: what was said in
an utterance that has ended with it, or what is being said. {"eof": 1} is answered by what is left, and ends it.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, WebSocket

from asr.boost import WEIGHT
from asr.errors import CepstraError
from asr.inflow import PcmInflow
from asr.listen import Heard
from asr.service.errors import RequestError
from asr.service.notes import Notes
from asr.service.sockets import FAILED, REFUSED, Closing, attend, fault
from asr.service.start import NAME, number, parse
from asr.service.stream import Conversation, Lost, Wishes
from audio.pcm import HIGHEST_RATE, LOWEST_RATE, RawFormat

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from asr.service.transcriber import Transcriber
    from asr.utterances import Began

UNKNOWN = "[unk]"  # stands in a list of phrases for whatever else may be said


@dataclass
class _Config:
    """What a client wishes, with vosk-server's defaults."""

    sample_rate: int = 8000
    words: bool = True
    max_alternatives: int = 0
    phrases: str | None = None  # a phrase set of this service
    phrase_list: tuple[str, ...] = ()

    def update(self, config: object) -> None:
        """Raises RequestError for a value that doesn't fit; what isn't known is left aside, as vosk-server does."""
        if not isinstance(config, dict):
            raise RequestError("config: give an object", param="config")
        self.sample_rate = int(number(config, "sample_rate", self.sample_rate, LOWEST_RATE, HIGHEST_RATE, whole=True))
        self.words = bool(config.get("words", self.words))
        self.max_alternatives = int(number(config, "max_alternatives", self.max_alternatives, 0, 100, whole=True))
        phrases = config.get("phrases", self.phrases)
        if phrases is not None and not isinstance(phrases, str):
            raise RequestError("phrases: give the name of a phrase set", param="phrases")
        self.phrases = phrases
        for name in ("phrase_list", "grammar"):
            if name in config:
                self.phrase_list = _phrase_list(config[name], name)

    def wishes(self) -> Wishes:
        """Phrases of a list are expected, rather than all that may be said."""
        expected = {} if self.phrases is not None else dict.fromkeys(self.phrase_list, WEIGHT)
        return Wishes(phrases=self.phrases, boost=expected or None)


def router() -> APIRouter:
    """The route; the transcriber is the app's `state.transcriber`."""
    routes = APIRouter()

    @routes.websocket("/vosk")
    async def vosk(websocket: WebSocket) -> None:
        transcriber: Transcriber = websocket.app.state.transcriber
        notes = Notes.of(websocket.app, "vosk")
        await attend(websocket, lambda messages, send: _Vosk(transcriber, send, notes).answer(messages), notes)

    return routes


class _Vosk:
    """One connection."""

    def __init__(
        self, transcriber: Transcriber, send: Callable[[dict[str, Any]], Awaitable[None]], notes: Notes
    ) -> None:
        self._transcriber, self._send, self._notes = transcriber, send, notes
        self._config = _Config()
        self._conversation: Conversation | None = None

    async def answer(self, messages: AsyncIterator[str | bytes]) -> None:
        """Until eof; Closing where the protocol has no words for what is wrong."""
        try:
            async for message in messages:
                if isinstance(message, bytes):
                    await self._sound(message)
                elif await self._word(parse(message)):
                    return
        except CepstraError as error:
            raise _closing(REFUSED, error) from None
        finally:
            if self._conversation is not None:
                self._conversation.cancel()

    async def _word(self, message: dict[str, Any]) -> bool:
        """Whether it was the last."""
        if "config" in message:
            self._config.update(message["config"])
            return False
        if not message.get("eof"):
            raise RequestError('send {"config": …}, {"eof": 1}, or sound as binary messages')
        heard = [] if self._conversation is None else await self._heard(self._conversation.finish())
        await self._send(self._result(heard))
        return True

    async def _sound(self, data: bytes) -> None:
        if self._conversation is None:
            form = RawFormat("PCM_16", self._config.sample_rate)
            self._conversation = await Conversation.begin(
                self._transcriber, PcmInflow(form, NAME), self._config.wishes(), on_partial=_nobody
            )
        heard = await self._heard(self._conversation.feed(data))
        await self._send(self._result(heard) if heard else {"partial": self._conversation.partial})

    async def _heard(self, events: AsyncGenerator[Began | Heard | Lost, None]) -> list[Heard]:
        heard: list[Heard] = []
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Lost):
                    raise _closing(FAILED, event.error)
                if isinstance(event, Heard):
                    self._notes.transcribed(event.result)
                    heard.append(event)
        return heard

    def _result(self, heard: list[Heard]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        words = [word for each in heard for word in each.to_dict()["words"]]
        if self._config.words and words:
            result["result"] = [
                {"conf": word["confidence"], "end": word["end"], "start": word["start"], "word": word["word"]}
                for word in words
            ]
        result["text"] = " ".join(each.result.text for each in heard if each.result.text)
        if self._config.max_alternatives:
            confidence = min((each.result.confidence for each in heard), default=1.0)
            return {"alternatives": [{"confidence": round(confidence, 3), **result}]}
        return result


def _closing(code: int, error: CepstraError) -> Closing:
    told = fault(error)
    return Closing(code, told["message"], told["code"])


async def _nobody(_: str) -> None:
    """What is being said is asked for, not sent."""


def _phrase_list(value: object, name: str) -> tuple[str, ...]:
    if isinstance(value, str):  # as the library's own constructor takes it
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise RequestError(f"{name}: give a list of words and phrases", param=name)
    return tuple(each for each in value if each != UNKNOWN and each.strip())
