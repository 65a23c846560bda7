"""A pool of stand-ins for workers, and what is sent to it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from asr.service.metrics import Metrics
from asr.service.pool import Pool
from asr.service.settings import load
from asr.service.store import PhraseStore
from tests.asr.service.standin import GOOD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

LONGEST = 60.0  # seconds, of anything: what takes longer hangs


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LONGEST):
            await test()

    asyncio.run(limited())


@asynccontextmanager
async def started(folder: Path, model: Path | None, **settings: Any) -> AsyncIterator[Pool]:
    spool = folder / "spool"
    spool.mkdir()
    pool = Pool(load(None, {"model": model, "workers": 2, **settings}), PhraseStore(None), Metrics(), spool)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.stop(LONGEST)
    assert all(file.name.startswith("bundle-") for file in spool.iterdir())


def sound(kind: float = GOOD, length: int = 1, filling: int = 0) -> Any:
    """A recording for stand-ins, which would need longer to start with numpy."""
    return kind, length, bytes(filling)


def long_recording(folder: Path, *kinds: float) -> Path:
    """A long recording; how a piece behaves is what a stand-in does with it."""
    path = folder / "spool" / "long.upload"
    path.write_bytes(bytes(round(256 * kind) for kind in kinds))
    return path


def decoding(pool: Pool) -> list[int]:
    """Processes."""
    return [slot.pid for slot in pool._slots if slot.pid is not None and not slot.reads]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST):
        while not condition():
            await asyncio.sleep(0.01)


async def is_at_work(pool: Pool, tasks: int = 1) -> None:
    await until(lambda: pool._metrics.working._value.get() >= tasks)
