"""Errors as clients of OpenAI's interface expect them: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from asr.errors import AudioError, CepstraError, GuidanceError, PhrasesError
from asr.service.errors import NO_ROOM, FullError, ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request

_log = logging.getLogger("cepstra.service")
_STATUS: tuple[tuple[type[CepstraError], int, str, str | None], ...] = (
    (AudioError, 400, "invalid_audio", "file"),
    (PhrasesError, 422, "invalid_phrases", None),
    (GuidanceError, 400, "invalid_prompt", "prompt"),
)


def body(message: str, status: int, code: str | None, param: str | None = None) -> dict[str, Any]:
    """What is answered."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def described(error: Exception) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers for whatever went wrong; nothing that only the service should know."""
    cause = error.__cause__ if isinstance(error, CepstraError) else error
    if isinstance(cause, OSError) and not isinstance(error, ServiceError):  # a file of the service's, of no concern
        if cause.errno in NO_ROOM:
            error = FullError("the service has no room for this; try again later")
        else:
            _log.error("a file of the service's can't be used: %s", error)
            error = ServiceError("the service can't read or write its files; its log says why")
    if isinstance(error, ServiceError):
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        if error.status in (408, 413):
            headers["Connection"] = "close"  # what is still coming isn't wanted
        if error.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return error.status, body(str(error), error.status, error.code, error.param), headers
    for kind, status, code, param in _STATUS:
        if isinstance(error, kind):
            return status, body(str(error), status, code, param), {}
    if isinstance(error, CepstraError):
        return 500, body(str(error), 500, "server_error"), {}
    _log.error("a fault of the service's own", exc_info=error)
    return 500, body("the service failed at this; its log says why", 500, "server_error"), {}


def install(app: FastAPI) -> None:
    """Have every error answered in this shape."""

    async def on_error(request: Request, error: Exception) -> JSONResponse:
        status, content, headers = described(error)
        request.state.code = content["error"]["code"]  # for the log
        return JSONResponse(content, status, headers)

    async def on_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)  # noqa: S101  registered for it
        status = error.status_code
        words = {404: "there is no such path; /docs lists them", 405: "the path doesn't take this method; see /docs"}
        message = words.get(status, HTTPStatus(status).phrase.lower())
        code = HTTPStatus(status).name.lower()
        request.state.code = code
        return JSONResponse(body(message, status, code), status, error.headers)

    async def on_invalid(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)  # noqa: S101  registered for it
        first: Mapping[str, Any] = error.errors()[0]
        param = ".".join(str(part) for part in first["loc"][1:]) or None
        message = f"{param or 'the request'}: {first['msg']}"
        return JSONResponse(body(message, 400, "invalid_request", param), 400)

    app.add_exception_handler(CepstraError, on_error)
    app.add_exception_handler(OSError, on_error)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)
