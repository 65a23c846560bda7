"""The body of a request, chunk by chunk, no slower and no larger than allowed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from asr.service.errors import SlowError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request

    from asr.service.settings import Settings

DRAIN_SECONDS = 5.0
DRAIN_BYTES = 1 << 27


@asynccontextmanager
async def incoming(
    request: Request, settings: Settings, most: int, too_large: TooLargeError
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Chunks as they come. They raise too_large above `most` bytes, SlowError, ClientDisconnect.

    When the block ends with a TooLargeError, some of what is still coming is taken: a connection that is closed on a
    client in mid-sentence loses the answer.
    """
    stated = request.headers.get("content-length", "")
    too_long = stated.isdecimal() and int(stated) > most
    if too_long and "expect" in request.headers:  # one that asks first sends nothing when it is refused
        raise too_large
    stream = request.stream()
    try:
        if too_long:
            raise too_large
        yield _bounded(stream, settings, most, too_large)
    except TooLargeError:
        await _drain(stream)
        raise


async def _bounded(
    stream: AsyncIterator[bytes], settings: Settings, most: int, too_large: TooLargeError
) -> AsyncIterator[bytes]:
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
            raise too_large
        yield chunk


async def _drain(stream: AsyncIterator[bytes]) -> None:
    drained = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while drained < DRAIN_BYTES and (chunk := await anext(stream, None)) is not None:
                drained += len(chunk)
