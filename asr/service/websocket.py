"""`WS /v1/stream`: sound in, JSON out, while somebody speaks."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, WebSocket

from asr.errors import AudioError, CepstraError
from asr.listen import Heard
from asr.service.errors import RequestError
from asr.service.notes import Notes
from asr.service.sockets import attend, fault
from asr.service.start import Start, parse
from asr.service.stream import Conversation
from asr.utterances import Began

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from asr.service.stream import Lost
    from asr.service.transcriber import Transcriber


def router() -> APIRouter:
    """The route; the transcriber is the app's `state.transcriber`."""
    routes = APIRouter()

    @routes.websocket("/v1/stream")
    async def stream(websocket: WebSocket) -> None:
        transcriber: Transcriber = websocket.app.state.transcriber
        notes = Notes.of(websocket.app, "stream")
        await attend(websocket, lambda messages, send: _Stream(transcriber, send, notes).answer(messages), notes)

    return routes


class _Stream:
    """One connection: a stream, or several one after the other."""

    def __init__(
        self, transcriber: Transcriber, send: Callable[[dict[str, Any]], Awaitable[None]], notes: Notes
    ) -> None:
        self._transcriber, self._send, self._notes = transcriber, send, notes
        self._conversation: Conversation | None = None
        self._deaf = False  # whether sound is left aside, since its beginning was at fault
        self._warned = False

    async def answer(self, messages: AsyncIterator[str | bytes]) -> None:
        try:
            async for message in messages:
                if isinstance(message, bytes):
                    await self._sound(message)
                else:
                    await self._word(message)
        finally:
            if self._conversation is not None:
                self._conversation.cancel()

    async def _word(self, text: str) -> None:
        try:
            message = parse(text)
            kind = message.get("type")
            if kind == "start":
                await self._start(Start.of(message))
            elif kind == "stop":
                await self._stop()
            else:
                raise RequestError('type: send "start" or "stop"', param="type")
        except CepstraError as error:
            # A stream that doesn't begin as wanted must not be taken for one without a beginning
            self._deaf = self._deaf or self._conversation is None
            await self._complain(error)

    async def _start(self, start: Start) -> None:
        if self._conversation is not None:
            raise RequestError("a stream is open; stop it first", param="type")
        self._deaf = True
        self._conversation = await Conversation.begin(
            self._transcriber,
            start.inflow(),
            start.wishes,
            pause_seconds=start.pause_ms / 1000,
            on_partial=self._guess if start.partial else None,
        )
        self._deaf = self._warned = False
        model, language = self._transcriber.model, self._transcriber.language
        await self._send({"type": "ready", "model": model, "language": language, **start.to_dict()})

    async def _sound(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._conversation is None:
            await self._start(Start())
        conversation = self._conversation
        if conversation is None:
            return
        try:
            await self._tell(conversation.feed(data))
        except AudioError as error:
            await self._tell(conversation.finish())
            self._conversation, self._deaf = None, True
            await self._complain(error)
            return
        if conversation.warning is not None and not self._warned:
            self._warned = True
            await self._send({"type": "warning", "message": conversation.warning})

    async def _stop(self) -> None:
        if self._conversation is not None:
            await self._tell(self._conversation.finish())
        self._conversation, self._deaf = None, False
        await self._send({"type": "done"})

    async def _tell(self, events: AsyncGenerator[Began | Heard | Lost, None]) -> None:
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Began):
                    await self._send({"type": "speech_started", "start": round(event.start, 3)})
                elif isinstance(event, Heard):
                    self._notes.transcribed(event.result)
                    await self._send({"type": "final", **event.to_dict()})
                else:
                    await self._complain(event.error, start=round(event.start, 3), end=round(event.end, 3))

    async def _guess(self, text: str) -> None:
        await self._send({"type": "partial", "text": text})

    async def _complain(self, error: CepstraError, **times: float) -> None:
        told = fault(error)
        self._notes.refused(told["code"])
        await self._send({"type": "error", "error": told, **times})
