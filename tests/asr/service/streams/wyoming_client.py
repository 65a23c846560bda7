"""A Wyoming service, and the library's own client."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import soxr
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop

from asr.service.wyoming import serve_wyoming

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from wyoming.client import AsyncClient
    from wyoming.event import Event

RATE = 16000
SAMPLES = Path(__file__).resolve().parents[4] / "data_manifests" / "samples"


@asynccontextmanager
async def listening(folder: Path, stand_in: Any, **rules: Any) -> AsyncIterator[str]:
    uri = f"unix://{folder / 's'}"
    server = await serve_wyoming(uri, stand_in, **rules)
    try:
        yield uri
    finally:
        await server.stop()


def as_bytes(samples: Any, width: int = 2) -> bytes:
    if width == 1:
        return bytes((samples * 127 + 128).astype(np.uint8).tobytes())
    whole = (samples.astype(np.float64) * (2.0 ** (8 * width - 1) - 1)).astype("<i4")
    return b"".join(int(value).to_bytes(width, "little", signed=True) for value in whole.tolist())


async def ask(client: AsyncClient, samples: Any, *, rate: int = RATE, width: int = 2, channels: int = 1,
              begin: bool = True, **wishes: Any) -> Event | None:  # fmt: skip
    sound = np.repeat(soxr.resample(samples, RATE, rate).clip(-1, 1), channels)
    data = as_bytes(sound, width)
    await client.write_event(Transcribe(**wishes).event())
    if begin:
        await client.write_event(AudioStart(rate, width, channels).event())
    for at in range(0, len(data), 2048 * width * channels):
        part = data[at : at + 2048 * width * channels]
        await client.write_event(AudioChunk(rate, width, channels, part).event())
    await client.write_event(AudioStop().event())
    return await client.read_event()


def text(event: Event | None) -> str:
    assert event is not None
    assert Transcript.is_type(event.type), event
    return Transcript.from_event(event).text
