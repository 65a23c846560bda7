"""A manifest's row and what was heard in it, as one line of JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from asr.results import Result
from asr.writers import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from asr.manifest.records import Utterance

_FAILED: Final = b'{"error"'  # a line of what was heard begins otherwise


def heard(row: Utterance, result: Result) -> str:
    """The result with what the row says of itself, but for keys that the result has too; the line is ended."""
    where = _where(row)
    return _line(row, where | {key: value for key, value in result.to_dict().items() if key not in where})


def failed(row: Utterance, reason: str) -> str:
    """The same of a row that couldn't be transcribed: the reason is the first key, "error"."""
    return _line(row, {"error": reason} | _where(row), without=[field.name for field in fields(Result)])


def has_failed(line: bytes) -> bool:
    """Whether a line is one of `failed`."""
    return line.startswith(_FAILED)


def written(row: Utterance) -> str:
    """The sound as the manifest names it."""
    return row.written or str(row.audio_filepath)


def _where(row: Utterance) -> dict[str, Any]:
    return {"audio_filepath": written(row), **({"offset": row.offset} if row.offset else {})}


def _line(row: Utterance, answer: dict[str, Any], without: Iterable[str] = ()) -> str:
    own = {"reference": row.text or None, **{key: getattr(row, key) for key in ("speaker", "source", "split")}}
    own = {key: value for key, value in own.items() if value is not None} | dict(row.extra)
    taken = {*answer, *without}
    return to_json(answer | {key: value for key, value in own.items() if key not in taken}) + "\n"
