"""Multipart forms as they come in: sound goes to disk, never whole through memory, and no further than allowed."""

from __future__ import annotations

import time
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from asr.service.errors import RequestError, TooLargeError
from asr.service.incoming import incoming

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from fastapi import Request
    from python_multipart.multipart import MultipartCallbacks

    from asr.service.settings import Settings

MOST_FIELDS = 64
FIELD_BYTES = 1 << 16
HEADER_BYTES = 1 << 12  # of a part, all of them; the parser itself allows little more
FORM_BYTES = 1 << 20  # of everything around the sound


@dataclass
class Form:
    """What was sent: the values of each field, and the sound."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    sound: Path | None = None
    file_name: str = ""
    seconds: float = 0.0  # that it took to come in

    def value(self, name: str) -> str | None:
        """The last one; None where it is missing or empty."""
        values = self.fields.get(name, [])
        return values[-1].strip() or None if values else None

    def values(self, name: str) -> list[str]:
        """Of a field that may be repeated."""
        return [*self.fields.get(name, []), *self.fields.get(f"{name}[]", [])]

    def number(self, name: str, least: float, most: float) -> float | None:
        """Raises RequestError."""
        value = self.value(name)
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise RequestError(f"{name}: {value[:40]!r} is not a number from {least:g} to {most:g}", param=name)
        return number

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Raises RequestError."""
        value = self.value(name) or default
        if value not in choices:
            raise RequestError(f"{name}: {value[:40]!r} is none of {', '.join(choices)}", param=name)
        return value

    @property
    def file(self) -> Path:
        """The sound. Raises RequestError where none was sent."""
        if self.sound is None:
            raise RequestError("file: is missing; send the recording in a form's field of this name", param="file")
        return self.sound


@asynccontextmanager
async def received(request: Request, settings: Settings, spool: Path) -> AsyncIterator[Form]:
    """The form of a request; its file is there as long as the block lasts.

    Raises RequestError for what is no form, TooLargeError, SlowError, FullError, and ClientDisconnect.
    """
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise RequestError("send the recording as multipart/form-data, in the field file", param="file")
    reader = _Reader(spool, settings)
    began = time.monotonic()
    try:
        try:
            parser = MultipartParser(options[b"boundary"], reader.callbacks())  # it refuses long boundaries
            most = settings.max_upload_bytes + FORM_BYTES
            chunks = incoming(request, settings, most, _too_large(settings))
            async for chunk in _begun(chunks, options[b"boundary"]):
                parser.write(chunk)
            parser.finalize()
        except FormParserError:
            raise RequestError("the form is damaged; send it as multipart/form-data") from None
        if not reader.ended:
            raise RequestError("the form ends too early; send it again")
        reader.form.seconds = time.monotonic() - began
        yield reader.form
    finally:
        reader.close()


async def _begun(chunks: AsyncIterator[bytes], boundary: bytes) -> AsyncIterator[bytes]:
    """The same bytes, if they begin with the boundary: what the parser makes of others hangs on where chunks end."""
    begin = b"--" + boundary
    head: bytes | None = b""
    async for chunk in chunks:
        if head is None:
            yield chunk
            continue
        head += chunk
        if len(head) >= len(begin) + 2:
            if not head.removeprefix(b"\r\n").startswith(begin):
                raise RequestError("the form does not begin with its boundary; send it as multipart/form-data")
            yield head
            head = None
    if head:
        yield head


def _too_large(settings: Settings) -> TooLargeError:
    return TooLargeError(f"file: is larger than {settings.max_upload_mb:g} MB; send a shorter one", param="file")


class _Reader:
    """What a parser calls. Its part is one that begins, has headers, data, and ends."""

    def __init__(self, spool: Path, settings: Settings) -> None:
        self._spool, self._settings = spool, settings
        self.form = Form()
        self.ended = False
        self._headers: dict[bytes, bytes] = {}
        self._header, self._value, self._data = b"", b"", b""
        self._header_bytes = 0  # of all headers of a part
        self._name = ""
        self._file: BinaryIO | None = None
        self._count = 0

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._on_field,
            "on_header_value": self._on_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._on_data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self.form.sound is not None:
            self.form.sound.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._count += 1
        if self._count > MOST_FIELDS:
            raise RequestError(f"the form has more than {MOST_FIELDS} fields; leave some out")
        self._headers, self._header, self._value, self._data, self._name = {}, b"", b"", b"", ""
        self._header_bytes = 0

    def _on_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]
        self._check_header(end - start)

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._check_header(end - start)

    def _check_header(self, more: int) -> None:
        self._header_bytes += more
        if self._header_bytes > HEADER_BYTES:
            raise RequestError("the headers of a part of the form are too long; shorten the file's name")

    def _header_end(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = b"", b""

    def _headers_end(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition"))
        name = options.get(b"name")
        if kind != b"form-data" or name is None:
            raise RequestError("a part of the form has no name; send it as multipart/form-data")
        self._name = name.decode("utf-8", "replace")
        if b"filename" in options or self._name == "file":
            if self._name != "file":
                raise RequestError(f"{self._name[:40]!r}: is no field for a file; that is file", param="file")
            if self.form.sound is not None:
                raise RequestError("file: is there twice; send one recording at a time", param="file")
            self.form.file_name = options.get(b"filename", b"").decode("utf-8", "replace")
            self.form.sound = self._spool / f"{uuid.uuid4().hex}.upload"  # what a client calls it is no path
            self._file = self.form.sound.open("xb", buffering=0)

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            if self._file.tell() + end - start > self._settings.max_upload_bytes:
                raise _too_large(self._settings)
            left = memoryview(data)[start:end]
            while left:  # a disk that is all but full takes a part
                left = left[self._file.write(left) :]
            return
        self._data += data[start:end]
        if len(self._data) > FIELD_BYTES:
            raise TooLargeError(f"{self._name[:40]}: is longer than {FIELD_BYTES >> 10} KB", param=self._name[:40])

    def _end(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            return
        self.form.fields.setdefault(self._name, []).append(self._data.decode("utf-8", "replace"))

    def _finish(self) -> None:
        self.ended = True
