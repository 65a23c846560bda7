"""What is said over a WebSocket, for tests of `/v1/stream`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

RATE = 16000


def as_bytes(samples: Any) -> bytes:
    return bytes((samples * 32768).astype("<i2").tobytes())


async def until(client: Any, kind: str) -> list[dict[str, Any]]:
    """Messages up to the first of a kind, which is the last of them."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["type"] != kind:
        found.append(json.loads(await client.recv()))
    return found


async def said(client: Any, data: bytes, size: int = 3200) -> list[dict[str, Any]]:
    """What comes of a stream from its first sample to done."""

    async def send() -> None:
        for at in range(0, len(data), size):
            await client.send(data[at : at + size])
        await client.send('{"type": "stop"}')

    sending = asyncio.create_task(send())
    found = await until(client, "done")
    await sending
    return found


def kinds(messages: list[dict[str, Any]], *without: str) -> list[str]:
    return [message["type"] for message in messages if message["type"] not in without]
