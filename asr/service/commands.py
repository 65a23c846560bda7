"""Cepstra's own interface: which command was meant, and the phrase sets that commands come from."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from asr.errors import PhrasesError
from asr.service import answers
from asr.service.described import RECEIVING, refusals
from asr.service.errors import RequestError, TooLargeError
from asr.service.incoming import incoming
from asr.service.requests import form_body, transcribed, unless_gone
from asr.service.state import state_of
from asr.service.store import MAX_BYTES, Stored, decoded
from asr.service.uploads import received

if TYPE_CHECKING:
    from asr.service.store import PhraseStore

_NAME = {
    "parameters": [
        {
            "name": "name",
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"},
        }
    ]
}
_TEXT = {
    **_NAME,
    "requestBody": {
        "required": True,
        "content": {"text/plain": {"schema": {"type": "string", "description": "A phrase file: plain, YAML, JSGF."}}},
    },
}


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["commands"])

    @routes.post(
        "/commands",
        summary="Which command was meant, how surely, or none",
        openapi_extra=form_body(
            {
                "phrases": {"type": "string", "description": "The phrase set's name; needed where there are several."},
                "threshold": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 1,
                    "description": "Least confidence of a command; the model's own without it.",
                },
            }
        ),
        responses=refusals(*RECEIVING, 404, 422),
    )
    async def commands(request: Request) -> dict[str, Any]:
        state = state_of(request)
        state.check_room()
        async with received(request, state.settings, state.spool) as form:
            phrases = form.value("phrases") or _only(state.phrases)
            threshold = form.number("threshold", 0, 1)
            state.metrics.stages.labels("upload").observe(form.seconds)
            work = transcribed(state, form.file, phrases=state.phrases.get(phrases).name, threshold=threshold)
            return answers.command(
                await unless_gone(request, work), phrases, state.pool.threshold if threshold is None else threshold
            )

    @routes.get("/phrases", summary="The phrase sets", responses=refusals())
    async def every(request: Request) -> dict[str, Any]:
        phrases = state_of(request).phrases
        return {"phrases": [phrases.get(name).summary() for name in phrases.names()]}

    @routes.get("/phrases/{name}", summary="A phrase set", openapi_extra=_NAME, responses=refusals(404))
    async def one(request: Request, name: str) -> dict[str, Any]:
        return asdict(state_of(request).phrases.get(name))

    @routes.put(
        "/phrases/{name}",
        summary="Put a phrase set",
        openapi_extra=_TEXT,
        response_model=None,
        responses={201: {"description": "It is new."}, **refusals(*RECEIVING, 409, 422)},
    )
    async def put(request: Request, name: str) -> Response:
        state = state_of(request)
        state.phrases.check_name(name)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind.startswith("multipart/"):  # what curl -d sends has the other kind of a form, but may be right
            raise RequestError("send the phrase file itself as the body, as `curl -T FILE` does, not a form")
        too_large = TooLargeError(f"the body is larger than {MAX_BYTES >> 10} KB; divide the set")
        async with incoming(request, state.settings, MAX_BYTES, too_large) as chunks:
            text = decoded(name, b"".join([chunk async for chunk in chunks]))
        if not text.strip():
            raise PhrasesError(f"{name}: holds no sentence; send the text of a phrase file as the body")
        checked = await state.pool.check_phrases(name, text)
        stored = Stored.of(name, text, checked)
        new = state.phrases.put(stored)
        return JSONResponse(asdict(stored), 201 if new else 200)

    @routes.delete(
        "/phrases/{name}",
        summary="Delete a phrase set",
        status_code=204,
        openapi_extra=_NAME,
        responses=refusals(404, 409, 500),
    )
    async def delete(request: Request, name: str) -> None:
        state_of(request).phrases.delete(name)

    return routes


def _only(phrases: PhraseStore) -> str:
    names = phrases.names()
    if len(names) != 1:
        there = f"there are {', '.join(names[:20])}" if names else "put one with PUT /v1/phrases/NAME"
        raise RequestError(f"phrases: name the set that the recording is compared with; {there}", param="phrases")
    return names[0]
