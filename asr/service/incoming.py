"""The body of a request, chunk by chunk, no slower and no larger than allowed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from asr.service.errors import ServiceError, SlowError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request

    from asr.service.settings import Settings


async def incoming(request: Request, settings: Settings, most: int, too_large: ServiceError) -> AsyncIterator[bytes]:
    """Chunks as they come. Raises too_large above `most` bytes, SlowError, ClientDisconnect."""
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > most:
        raise too_large
    received = 0
    stream = request.stream()
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
