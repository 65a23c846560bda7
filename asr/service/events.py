"""A text as it is found: OpenAI's server-sent events."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from fastapi.responses import StreamingResponse

from asr.service import answers
from asr.service.refusals import described

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from asr.results import Result


class Events(StreamingResponse):
    """A delta for each part of a long recording as it is done, then the whole.

    It begins with the first of them, so that what fails before is answered with the status that it should have. It owns
    the file that is transcribed, and removes it at the end, also where the client is gone by then.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(self._lines(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._file = file
        self._events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._first: dict[str, Any] | None = None
        self._said = False
        self._work: asyncio.Future[Result] | None = None

    def heard(self, text: str) -> None:
        """What is said next."""
        if text:
            self._events.put_nowait({"type": "transcript.text.delta", "delta": f" {text}" if self._said else text})
            self._said = True

    async def begin(self, work: Coroutine[Any, Any, Result]) -> None:
        """Let the work begin, which calls `heard`, and wait for the first text. Raises what it raises before."""
        self._work = asyncio.ensure_future(work)
        self._work.add_done_callback(self._done)
        try:
            self._first = await self._events.get()
            if self._first is None:
                self._work.result()
        except BaseException:
            self._end()
            raise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As any response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()

    def _done(self, work: asyncio.Future[Result]) -> None:
        if not work.cancelled():
            work.exception()  # it may come to nobody
        self._events.put_nowait(None)

    def _end(self) -> None:
        if self._work is not None:
            self._work.cancel()
        self._file.unlink(missing_ok=True)

    async def _lines(self) -> AsyncIterator[str]:
        assert self._work is not None  # noqa: S101  it has begun
        try:
            event = self._first
            while event is not None:
                yield _line(event)
                event = await self._events.get()
            result = self._work.result()
            usage = answers.plain(result)["usage"]
            yield _line({"type": "transcript.text.done", "text": result.text, "usage": usage})
        except Exception as error:  # noqa: BLE001  the status has been sent: all that is left is to say it
            yield _line({"type": "error", **described(error)[1]})


def _line(fields: dict[str, Any]) -> str:
    return f"event: {fields['type']}\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n"
