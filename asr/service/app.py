"""The application: everything put together, as uvicorn or any other ASGI server runs it."""

from __future__ import annotations

import difflib
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from asr.errors import CepstraError, ConfigError, PhrasesError
from asr.phrases import PhraseSet
from asr.phrases.phrase_set import text_of
from asr.service import commands, health, openai, page_routes, refusals, vosk, websocket
from asr.service.gate import Gate
from asr.service.metrics import Metrics
from asr.service.pool import Pool
from asr.service.spool import spool
from asr.service.state import State
from asr.service.store import NAME, PhraseStore, Stored
from asr.service.wyoming import serve_wyoming

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from asr.service.settings import Settings


STREAMS = ("/v1/stream", "/vosk")  # WebSockets, which OpenAPI does not describe


def create_app(settings: Settings) -> FastAPI:
    """The service; its workers start with its lifespan, and end with it."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with spool() as folder:
            phrases = PhraseStore(None if settings.state is None else settings.state / "phrases")
            given = [(file, *_read(file)) for file in settings.phrases]
            pool = Pool(settings, phrases, metrics, folder)
            await pool.start()
            try:
                for file, name, text in given:
                    phrases.put(await _checked(pool, file, name, text))
                app.state.service = State(settings, metrics, phrases, pool, folder)
                app.state.transcriber = pool
                async with _wyoming(settings, pool, metrics):
                    yield
            finally:
                await pool.stop(settings.stop_seconds)

    app = FastAPI(
        title="Cepstra", version=version("cepstra"), lifespan=lifespan, docs_url=None, redoc_url=None,
        description="Spoken commands to text.",
    )  # fmt: skip
    # As FastAPI's documentation advises
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    app.state.metrics = metrics
    app.state.max_streams, app.state.stream_idle_seconds = settings.max_streams, settings.stream_idle_seconds
    refusals.install(app)
    app.include_router(openai.router())
    app.include_router(commands.router())
    app.include_router(websocket.router())
    app.include_router(vosk.router())
    app.include_router(health.router())
    app.include_router(page_routes.router())
    _check_routes(settings, app)
    app.add_middleware(Gate, settings=settings, metrics=metrics)
    return app


def _check_routes(settings: Settings, app: FastAPI) -> None:
    """A key that opens nothing is a slip of the pen. Raises ConfigError."""
    paths = [*_described(app)["paths"], *STREAMS]
    for key in settings.api_keys:
        for wanted in key.routes:
            if not any(_leads_to(wanted, path) for path in paths):
                near = difflib.get_close_matches(wanted, paths, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(paths)}"
                raise ConfigError(f"setting api_keys: key {key.name!r}: no such route as {wanted}; {hint}")


def _leads_to(wanted: str, path: str) -> bool:
    """Whether a path is that route or below it: /v1 and /v1/phrases/mine both lead to /v1/phrases/{name}."""
    parts, there = wanted.strip("/").split("/"), path.strip("/").split("/")
    return wanted == "/" or (
        len(parts) <= len(there)
        and all(part == other or other.startswith("{") for part, other in zip(parts, there, strict=False))
    )


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, without the answers that FastAPI would have given, had it checked what we check."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for path in document["paths"].values():
            for operation in path.values():
                if "HTTPValidationError" in str(operation["responses"].get("422")):
                    del operation["responses"]["422"]
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        app.openapi_schema = document
    return app.openapi_schema


@asynccontextmanager
async def _wyoming(settings: Settings, pool: Pool, metrics: Metrics) -> AsyncIterator[None]:
    """Its own port, where the settings name one."""
    if settings.wyoming is None:
        yield
        return
    server = await serve_wyoming(
        settings.wyoming, pool, phrases=settings.wyoming_phrases, aliases=settings.model_aliases,
        max_clients=settings.max_streams, idle_seconds=settings.stream_idle_seconds,
        metrics=metrics, log_text=settings.log_text, has_keys=bool(settings.api_keys),
    )  # fmt: skip
    try:
        yield
    finally:
        await server.stop()


def _read(file: Path) -> tuple[str, str]:
    """Name and text of a phrase file of the settings; it is called by its name without the ending."""
    text = text_of(file)
    PhraseSet.parse(text, str(file))  # whose faults name the file
    name = file.stem.lower().replace(" ", "-")
    if not NAME.fullmatch(name):
        raise CepstraError(f"{file}: {name!r} can't name a phrase set; rename the file to a-z, 0-9, - and _")
    return name, text


async def _checked(pool: Pool, file: Path, name: str, text: str) -> Stored:
    try:
        return Stored.of(name, text, await pool.check_phrases(name, text), fixed=True)
    except PhrasesError as error:  # what the model can't write: of the set, for all that a worker knows
        raise PhrasesError(f"{file}{str(error).removeprefix(name)}") from None
