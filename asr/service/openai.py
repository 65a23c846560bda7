"""OpenAI's speech interface: POST /v1/audio/transcriptions and GET /v1/models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from asr.service import answers
from asr.service.asked import check_language
from asr.service.described import RECEIVING, kinds, refusals
from asr.service.errors import NotFoundError, RequestError
from asr.service.events import Events
from asr.service.requests import form_body, transcribed, unless_gone
from asr.service.state import state_of
from asr.service.uploads import received
from asr.writers import render

if TYPE_CHECKING:
    from asr.service.state import State
    from asr.service.uploads import Form

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
GRANULARITIES = ("word", "segment")
LONGEST_PROMPT = 2000  # characters; the rest has no effect
_PIECES = re.compile(r"[,;:\n.!?]+")


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["OpenAI"])

    @routes.post(
        "/audio/transcriptions",
        summary="What is said in a recording",
        openapi_extra=form_body(
            {
                "model": {"type": "string", "description": "The model's name, or one that stands for it."},
                "language": {"type": "string", "description": "ISO 639-1; the model's own or none."},
                "prompt": {"type": "string", "description": "Words and phrases to expect, between commas."},
                "response_format": {"type": "string", "enum": list(FORMATS), "default": "json"},
                "temperature": {"type": "number", "minimum": 0, "maximum": 2, "description": "Has no effect."},
                "timestamp_granularities[]": {
                    "type": "array",
                    "items": {"type": "string", "enum": list(GRANULARITIES)},
                    "description": "With verbose_json; segment without it.",
                },
                "stream": {"type": "string", "enum": ["true", "false"], "description": "Server-sent events."},
            }
        ),
        response_model=None,
        responses={**kinds("text/plain", "text/event-stream"), **refusals(*RECEIVING, 404)},
    )
    async def transcriptions(request: Request) -> Response:
        state = state_of(request)
        state.check_room()
        async with received(request, state.settings, state.spool) as form:
            return await _answer(request, state, form)

    @routes.get("/models", summary="The model", responses=refusals())
    async def models(request: Request) -> dict[str, Any]:
        return {"object": "list", "data": [_model(state_of(request))]}

    @routes.get("/models/{name}", summary="The model, by name", responses=refusals(404))
    async def model(request: Request, name: str) -> dict[str, Any]:
        state = state_of(request)
        _check_model(state, name)
        return _model(state)

    return routes


async def _answer(request: Request, state: State, form: Form) -> Response:
    _check_model(state, form.value("model"))
    check_language(form.value("language"), state.pool.language)
    form.number("temperature", 0, 2)
    kind = form.choice("response_format", FORMATS, "json")
    granularities = form.values("timestamp_granularities")
    for each in granularities:
        if each not in GRANULARITIES:
            param = "timestamp_granularities"
            raise RequestError(f"{param}: {each[:40]!r} is none of {', '.join(GRANULARITIES)}", param=param)
    stream = form.choice("stream", ("true", "false", "True", "False", "1", "0"), "false").lower() in ("true", "1")
    boost = expected(form.value("prompt"))
    state.metrics.stages.labels("upload").observe(form.seconds)
    if stream:
        if kind not in ("json", "text"):
            raise RequestError(f"stream: goes with response_format json, not {kind}", param="stream")
        return await _streamed(request, state, form, boost)
    result = await unless_gone(request, transcribed(state, form.file, boost=boost, lenient=True))
    if kind == "json":
        return JSONResponse(answers.plain(result))
    if kind == "verbose_json":
        return JSONResponse(answers.verbose(result, state.pool.language, granularities or ["segment"]))
    return PlainTextResponse(render(result, kind))


async def _streamed(request: Request, state: State, form: Form, boost: dict[str, float]) -> Response:
    events = Events(form.file)
    file, form.sound = form.file, None  # the response outlives the form
    work = transcribed(state, file, boost=boost, lenient=True, heard=events.heard)
    await unless_gone(request, events.begin(work))
    return events


def expected(prompt: str | None) -> dict[str, float]:
    """A prompt's words and phrases, each once; a sentence is taken for what stands between its commas."""
    from asr.boost import MAX_CHARACTERS, WEIGHT  # noqa: PLC0415  few requests have a prompt

    pieces = [" ".join(piece.split()) for piece in _PIECES.split((prompt or "")[:LONGEST_PROMPT])]
    if prompt and len(prompt) > LONGEST_PROMPT:
        pieces.pop()  # it may be half a word
    return {piece: WEIGHT for piece in dict.fromkeys(pieces) if piece and len(piece) <= MAX_CHARACTERS}


def _model(state: State) -> dict[str, Any]:
    return {"id": state.pool.model, "object": "model", "created": state.started, "owned_by": "cepstra"}


def _check_model(state: State, name: str | None) -> None:
    known = (state.pool.model, *state.settings.model_aliases)
    if name is not None and name not in known:
        raise NotFoundError(f"model: {name[:60]!r} is not here; there are {', '.join(known)}", param="model")
