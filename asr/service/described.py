"""What the OpenAPI document says of answers, besides the good ones."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

_MEANINGS = {
    400: "What was asked can't be done, or the recording can't be read.",
    401: "No valid API key.",
    403: "The key doesn't open this; or another site's page, or another name of this machine.",
    404: "There is no such thing.",
    405: "Not for this method.",
    408: "It came in too slowly.",
    409: "It can't be changed as things stand.",
    413: "Larger or longer than the service takes.",
    422: "The phrase file has a fault.",
    500: "The service failed.",
    503: "As many wait as may, or it is stopping; see Retry-After.",
    504: "No answer within the time that the settings allow.",
    507: "The service's disk is full.",
}
RECEIVING = (400, 408, 413, 500, 503, 504, 507)  # whatever takes a body


class Fault(BaseModel):
    """What went wrong, in the shape of OpenAI's errors."""

    message: str
    type: str
    param: str | None
    code: str | None


class Refusal(BaseModel):
    """An answer that isn't what was asked for."""

    error: Fault


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `responses` of a route; keys and hosts are asked for everywhere."""
    answers: dict[int | str, dict[str, Any]] = {}
    for status in sorted({401, 403, *statuses}):
        answers[status] = {"model": Refusal, "description": _MEANINGS[status]}
        if status == 503:
            seconds = {"description": "Seconds after which there may be room.", "schema": {"type": "integer"}}
            answers[status]["headers"] = {"Retry-After": seconds}
    return answers


def kinds(*types: str) -> dict[int | str, dict[str, Any]]:
    """For `responses` of a route: a good answer may be text of these kinds, such as text/plain."""
    return {200: {"content": {kind: {"schema": {"type": "string"}} for kind in types}}}
