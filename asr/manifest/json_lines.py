"""The JSON under a manifest: bytes to one object per row, with the line where each stands."""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any

from asr.errors import ManifestError
from asr.manifest.faults import Fault
from audio.identify import is_other_sound, is_wave

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


MAX_LINE = 1 << 24  # bytes: what has no line ends at all is never taken into memory


def scan_json(path: Path) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
    """Line number and JSON object of each row, or the fault there. Raises ManifestError if the file can't be read.

    Blank lines are skipped; a file that is one JSON array is read as if each element stood on a line of its own.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
            if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise ManifestError(f"{path}: is UTF-16: save it as UTF-8")
            if is_wave(head) or is_other_sound(head):
                raise ManifestError(
                    f"{path}: is a recording, not a manifest: `cepstra transcribe` takes recordings, "
                    "`cepstra manifest import` makes a manifest of a folder of them"
                )
            if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
                yield from _scan_array(path, head + file.read())
                return
            file.seek(len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0)
            yield from scan_lines(iter(lambda: file.readline(MAX_LINE + 1), b""), path)
    except FileNotFoundError as error:
        raise ManifestError(f"{path}: no such manifest: check the path") from error
    except IsADirectoryError as error:
        raise ManifestError(f"{path}: is a folder: `cepstra manifest import` makes a manifest of one") from error
    except OSError as error:
        raise ManifestError(f"{path}: can't be read: {error.strerror or error}") from error


def scan_lines(lines: Iterable[bytes], path: Path, first: int = 1) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
    """The same of some lines of that file; first: number of the first one. Raises ManifestError for an endless one."""
    for number, raw in enumerate(lines, start=first):
        if len(raw) > MAX_LINE:
            raise ManifestError(f"{path}:{number}: a line of more than {MAX_LINE >> 20} MB: not a manifest")
        if raw.strip():
            yield number, _parse(raw, path, number)


def _scan_array(path: Path, raw: bytes) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
    """The elements of a file that is one JSON array, which needs all of it in memory."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        yield line, _not_utf8(path, line, error)
        return
    position, line, counted = text.index("[") + 1, 1, 0
    while True:
        while position < len(text) and (text[position].isspace() or text[position] == ","):
            position += 1
        line, counted = line + text.count("\n", counted, position), position
        if text[position : position + 1] == "]":
            return
        try:
            values, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            yield line, _not_json(path, line, error)
            return
        yield line, _object(values, path, line)


def _parse(raw: bytes, path: Path, line: int) -> dict[str, Any] | Fault:
    try:
        return _object(_DECODER.decode(raw.decode().strip()), path, line)
    except UnicodeDecodeError as error:
        return _not_utf8(path, line, error)
    except (ValueError, RecursionError) as error:
        return _not_json(path, line, error)


def _object(values: object, path: Path, line: int) -> dict[str, Any] | Fault:
    if isinstance(values, dict):
        return values
    problem = f"a JSON {_JSON_NAMES.get(type(values), 'null')} where an object belongs"
    return Fault(path, line, "", "not-json", problem, 'write {"audio_filepath": …, "duration": …, "text": …}')


def _not_utf8(path: Path, line: int, error: UnicodeDecodeError) -> Fault:
    byte = error.object[error.start]
    return Fault(path, line, "", "not-utf8", f"byte 0x{byte:02x} is not UTF-8", "save the file as UTF-8")


def _not_json(path: Path, line: int, error: Exception) -> Fault:
    why = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
    remedy = "write one JSON object per line (`cepstra manifest import` makes them of CSV, TSV and folders)"
    return Fault(path, line, "", "not-json", f"not JSON ({why})", remedy)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return values


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that JSON knows")


_JSON_NAMES = {str: "string", list: "array", int: "number", float: "number", bool: "boolean"}
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
