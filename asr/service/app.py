"""The application: everything put together, as uvicorn or any other ASGI server runs it."""

from __future__ import annotations

import tempfile
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI

from asr.errors import CepstraError
from asr.phrases import PhraseSet
from asr.service import commands, health, openai, refusals
from asr.service.gate import Gate
from asr.service.metrics import Metrics
from asr.service.pool import Pool
from asr.service.state import State
from asr.service.store import NAME, PhraseStore, Stored
from asr.service.work import Checked  # noqa: TC001  fields are read below

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from asr.service.settings import Settings


def create_app(settings: Settings) -> FastAPI:
    """The service; its workers start with its lifespan, and end with it."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory(prefix="cepstra-") as folder:
            phrases = PhraseStore(None if settings.state is None else settings.state / "phrases")
            pool = Pool(settings, phrases, metrics, Path(folder))
            await pool.start()
            try:
                for file in settings.phrases:
                    phrases.put(await _given(pool, file))
                app.state.service = State(settings, metrics, phrases, pool, Path(folder))
                app.state.transcriber = pool
                yield
            finally:
                await pool.stop(settings.stop_seconds)

    app = FastAPI(
        title="Cepstra", version=version("cepstra"), lifespan=lifespan, docs_url=None, redoc_url=None,
        description="Spoken commands to text.",
    )  # fmt: skip
    refusals.install(app)
    app.include_router(openai.router())
    app.include_router(commands.router())
    app.include_router(health.router())
    app.add_middleware(Gate, settings=settings, metrics=metrics)
    return app


async def _given(pool: Pool, file: Path) -> Stored:
    """A phrase file of the settings, called by its name without the ending."""
    phrases = PhraseSet.read(file)
    name = file.stem.lower().replace(" ", "-")
    if not NAME.fullmatch(name):
        raise CepstraError(f"{file}: {name!r} can't name a phrase set; rename the file to a-z, 0-9, - and _")
    text = file.read_text(encoding="utf-8-sig")
    checked: Checked = await pool.check_phrases(name, text)
    del phrases
    return Stored(name, text, checked.sentences, checked.intents, checked.words, checked.samples, fixed=True)
