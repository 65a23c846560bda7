"""What clients of several protocols ask for alike."""

from __future__ import annotations

from asr.service.answers import LANGUAGES
from asr.service.errors import RequestError


def check_language(asked: str | None, own: str) -> None:
    """Whether a language, by its code with or without a country or by its name, is the model's own, or none.

    Raises RequestError.
    """
    names = {own, LANGUAGES.get(own, own)}
    if asked is not None and asked.lower().replace("_", "-").split("-")[0] not in names:
        raise RequestError(f"language: the model knows {own} only, not {asked[:40]!r}", param="language")
