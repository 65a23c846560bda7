"""The reader of forms: whatever comes in whatever pieces."""

from __future__ import annotations

import asyncio
import email
import email.policy
import functools
import itertools
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import Request
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.service.errors import ServiceError
from asr.service.settings import Settings
from asr.service.uploads import received
from tests.asr.service.forms import form, part

if TYPE_CHECKING:
    from collections.abc import Iterator


settings_of = functools.cache(Settings)  # which are slow to make


@pytest.fixture(scope="module", autouse=True)
def quiet() -> None:
    """The parser's own log has a line for each fault, and Hypothesis makes thousands."""
    logging.getLogger("python_multipart").setLevel(logging.ERROR)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


def read(
    runner: asyncio.Runner, chunks: list[bytes], content_type: str, **values: Any
) -> tuple[dict[str, list[str]], bytes | None, str]:
    """Fields, sound and file name that the reader finds in a body that comes in such chunks. Raises ServiceError."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def all_of_it(spool: Path) -> tuple[dict[str, list[str]], bytes | None, str]:
        scope = {"type": "http", "headers": [(b"content-type", content_type.encode("latin-1"))]}
        async with received(Request(scope, receive), settings_of(**values), spool) as found:
            return found.fields, found.sound.read_bytes() if found.sound else None, found.file_name

    with tempfile.TemporaryDirectory() as folder:
        try:
            return runner.run(all_of_it(Path(folder)))
        finally:
            assert not list(Path(folder).iterdir())


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(at)]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(
    fields=st.dictionaries(st.from_regex(r"[a-z_]{1,10}(\[\])?", fullmatch=True).filter(lambda name: name != "file"),
                           st.lists(TEXT, min_size=1, max_size=3), max_size=4),
    data=st.binary(max_size=300) | st.lists(st.sampled_from([b"\r\n", b"--", b"b", b"\r", b"\n"])).map(b"".join),
    name=TEXT,
    places=st.lists(st.integers(0, 5000), max_size=30),
)  # fmt: skip
def test_what_httpx_writes_is_read_in_any_chunks(
    runner: asyncio.Runner, fields: dict[str, list[str]], data: bytes, name: str, places: list[int]
) -> None:
    request = httpx.Request("POST", "http://x/", data=fields, files={"file": (name or "a", data)})
    found, heard, called = read(runner, cut(request.read(), places), request.headers["content-type"])
    assert found == fields
    assert heard == data
    escaped = (name or "a").translate({ord('"'): "%22"} | {ord(chr(c)): f"%{c:02X}" for c in range(32) if c != 27})
    assert called.replace("\\", "") == escaped.replace("\\", "")


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from(
            [b"--b", b"--b--", b"\r\n", b"\r\n--b\r\n", b"\r\n--b--\r\n", b"Content-Disposition: form-data; name=file",
             b'Content-Disposition: form-data; name="a"', b": ", b";", b'"', b"\r\n\r\n", b"x", b"--", b"\x00", b"file"]
        ) | st.binary(max_size=4),
        max_size=20,
    ),
    places=st.lists(st.integers(0, 5000), max_size=10),
)  # fmt: skip
def test_bytes_of_any_kind_are_a_form_or_refused_in_any_chunks_alike(
    runner: asyncio.Runner, pieces: list[bytes], places: list[int]
) -> None:
    body, kind = b"".join(pieces), "multipart/form-data; boundary=b"
    outcomes: list[Any] = []
    for chunks in ([body], cut(body, places), [body[at : at + 1] for at in range(len(body))]):
        try:
            outcomes.append(read(runner, chunks, kind))
        except ServiceError as error:
            outcomes.append(error.status)
    assert outcomes[0] == outcomes[1] == outcomes[2]


@settings(max_examples=40, deadline=None)
@given(
    parts=st.lists(
        st.tuples(st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(lambda name: name != "file"),
                  st.text(st.characters(codec="ascii", exclude_characters="\r\n"), max_size=30)),
        min_size=1, max_size=6,
    ),
    places=st.lists(st.integers(0, 3000), max_size=10),
)  # fmt: skip
def test_fields_are_those_that_pythons_email_package_finds(
    runner: asyncio.Runner, parts: list[tuple[str, str]], places: list[int]
) -> None:
    body, headers = form(*(part(f'form-data; name="{name}"', value.encode()) for name, value in parts), boundary="=-+b")
    kind = headers["Content-Type"].replace("=-+b", '"=-+b"')
    message = email.message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body, policy=email.policy.HTTP)
    expected: dict[str, list[str]] = {}
    for each in message.iter_parts():
        name = each.get_param("name", header="content-disposition")
        payload = each.get_payload(decode=True)
        assert isinstance(payload, bytes)
        expected.setdefault(str(name), []).append(payload.decode())
    found, heard, _ = read(runner, cut(body, places), kind)
    assert found == expected
    assert heard is None


@given(size=st.integers(0, 3000), step=st.integers(1, 3000))
@settings(max_examples=50, deadline=None)
def test_the_cap_is_exact_in_any_chunks(runner: asyncio.Runner, size: int, step: int) -> None:
    body, headers = form(part('form-data; name="file"', b"x" * size))
    chunks = [body[at : at + step] for at in range(0, len(body), step)]
    if size > 1000:
        with pytest.raises(ServiceError, match=r"larger than 0\.001 MB"):
            read(runner, chunks, headers["Content-Type"], max_upload_mb=0.001)
    else:
        assert read(runner, chunks, headers["Content-Type"], max_upload_mb=0.001)[1] == b"x" * size
