"""The body of a request, chunk by chunk, no slower and no larger than allowed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from asr.service.errors import ServiceError, SlowError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request

    from asr.service.settings import Settings


DRAIN_SECONDS = 5.0
DRAIN_BYTES = 1 << 27


async def incoming(request: Request, settings: Settings, most: int, too_large: ServiceError) -> AsyncIterator[bytes]:
    """Chunks as they come. Raises too_large above `most` bytes, SlowError, ClientDisconnect."""
    stated = request.headers.get("content-length", "")
    stream = request.stream()
    if stated.isdecimal() and int(stated) > most:
        if "expect" not in request.headers:  # one that asks first sends nothing when it is refused
            await _drain(stream)
        raise too_large
    received = 0
    end = asyncio.get_running_loop().time() + settings.upload_seconds
    while True:
        left = end - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(left, settings.idle_seconds)):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise SlowError("the request came in too slowly; send it again, or less at once") from None
        if chunk is None:
            return
        received += len(chunk)
        if received > most:
            await _drain(stream)
            raise too_large
        yield chunk


async def _drain(stream: AsyncIterator[bytes]) -> None:
    """Take some of what is still coming: a connection that is closed on a client in mid-sentence loses the answer."""
    drained = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while drained < DRAIN_BYTES and (chunk := await anext(stream, None)) is not None:
                drained += len(chunk)
