"""What the routes share: a form's description, and waiting for an answer as long as somebody wants it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect

from asr.service.notes import note

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from fastapi import Request

    from asr.results import Result
    from asr.service.state import State

T = TypeVar("T")


def form_body(fields: dict[str, Any]) -> dict[str, Any]:
    """The description, for OpenAPI, of a form with a recording and these fields."""
    file = {"type": "string", "format": "binary", "description": "WAV, FLAC, Ogg (Vorbis, Opus), MP3, AIFF, AU …"}
    schema = {"type": "object", "required": ["file"], "properties": {"file": file, **fields}}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


async def transcribed(
    state: State,
    sound: Path,
    *,
    phrases: str | None = None,
    threshold: float | None = None,
    boost: dict[str, float] | None = None,
    lenient: bool = False,
    heard: Callable[[str], None] | None = None,
) -> Result:
    """As the pool says, and logged."""
    result = await state.pool.transcribe(
        sound, phrases=phrases, threshold=threshold, boost=boost, lenient=lenient, heard=heard
    )
    note(result, state.metrics, log_text=state.settings.log_text)
    return result


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What comes of the work, which is dropped when the client is gone: raises ClientDisconnect then."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        for each in (task, gone):
            each.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await each


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
