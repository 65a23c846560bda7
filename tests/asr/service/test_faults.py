"""Clients that are slow, gone, or talk nonsense: they get an answer or are dropped, and others are served."""

from __future__ import annotations

import io
import json
import random
import re
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import soundfile
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable

from tests.asr.service.live import (
    BOUNDARY,
    HEAD,
    SPEED_UP,
    TAIL,
    Live,
    eventually,
    form,
    head,
    read_all,
    served,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IDLE, UPLOAD = 1.0, 3.0  # seconds
SECRETS = re.compile(r'Traceback|File \\?"|/site-packages|cepstra-serve-[a-z0-9_]{8}/|\.upload|bundle-\d|/asr/')
BROKEN = 240  # recordings
CASES = 240  # for each of the document's operations, half of them against what it says
LONGEST = 40.0  # seconds, for all of them


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """One for all of these tests: at the end it is as well as it was."""
    folder = tmp_path_factory.mktemp("faults")
    phrases = folder / "computer.txt"
    phrases.write_text("computer speed up\nturn the speaker down\n")
    with served(
        folder, "--phrases", phrases, idle_seconds=IDLE, upload_seconds=UPLOAD, max_upload_mb=1, max_seconds=120
    ) as service:
        yield service
        assert service.is_well()
        assert service.spool() == []
        assert len(service.workers()) == 3
        assert service.end() == 0
        for line in service.lines():  # each of them is JSON
            assert "traceback" not in line
            assert line["level"] in ("info", "warning")
            assert line["message"] != "a worker ended"


def _answer(reply: bytes) -> tuple[int, dict[str, Any]]:
    """Status and body of the last answer in what was received."""
    top, _, body = reply.rpartition(b"\r\n\r\n")
    return int(top.rpartition(b"HTTP/1.1 ")[2][:3]), json.loads(body)


def _statuses(live: Live) -> list[int]:
    return [line["status"] for line in live.lines() if line["message"] == "answered"]


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("sent", [0, 1, 500, 1200, 20_000, None])
def test_a_client_that_goes_away_leaves_nothing_behind(live: Live, sent: int | None, reset: bool) -> None:
    request = head(len(form(SPEED_UP.read_bytes()))) + form(SPEED_UP.read_bytes())
    before = _statuses(live)
    with live.connect() as client:
        client.sendall(request[:sent])
        if sent is None or sent > 1000:
            assert eventually(lambda: live.spool() or len(_statuses(live)) > len(before))
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert eventually(lambda: live.spool() == [])
    if sent is not None and sent > 300:
        assert eventually(lambda: _statuses(live)[len(before) :] == [499])


@pytest.mark.parametrize("pause", [None, 0.2])
def test_a_body_that_comes_too_slowly_is_refused(live: Live, pause: float | None) -> None:
    """None: it stops; otherwise a byte now and then, which keeps the connection from being idle."""
    with live.connect() as client:
        client.sendall(head(100_000) + HEAD)
        reply = _dripping(client, b"RIFF" * 1000, pause)
    status, body = _answer(reply)
    assert status == 408
    assert body["error"]["code"] == "request_timeout"
    assert live.spool() == []


def test_an_upload_that_is_too_large_is_refused_before_it_has_come_in_and_then_dropped(live: Live) -> None:
    with live.connect() as client:
        client.sendall(head(1 << 40) + HEAD)
        status, _ = _answer(_dripping(client, b"x" * 1000, 0.2))
    assert status == 413


@pytest.mark.parametrize("stated", [len(HEAD) + (8 << 20), 1 << 40])
def test_a_client_that_reads_only_after_it_has_sent_all_sees_that_it_was_too_much(live: Live, stated: int) -> None:
    with live.connect() as client:
        client.sendall(head(stated) + HEAD)
        for _ in range(8):
            client.sendall(bytes(1 << 20))
        status, body = _answer(read_all(client))
    assert status == 413
    assert body["error"]["code"] == "too_large"


def test_what_follows_an_upload_that_was_refused_is_nobodys_request(live: Live) -> None:
    for more in (b"nonsense" * 100_000, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000):
        with live.connect() as client, suppress(ConnectionError):
            client.sendall(head(2_000_000) + HEAD + bytes(2_000_000 - len(HEAD)) + more)
            assert read_all(client).count(b"HTTP/1.1 ") <= 1
    assert live.health()["ready"]


@pytest.mark.parametrize("pause", [None, 0.2])
@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET /health HT",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /health HTTP/1.1\r\nX-",  # the second one
        b"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebS",
    ],
)
def test_headers_that_come_too_slowly_end_the_connection(live: Live, start: bytes, pause: float | None) -> None:
    if not start and pause:
        start = b"G"
    with live.connect() as client:
        client.sendall(start)
        reply = _dripping(client, b"a" * 1000, pause)
    assert reply.count(b"HTTP/1.1 200") == start.count(b"\r\n\r\n")
    assert live.health()["ready"]


def _dripping(client: socket.socket, data: bytes, pause: float | None) -> bytes:
    """What comes back until the connection is closed, while bytes are sent."""
    if pause is None:
        return read_all(client)
    reply = b""
    client.settimeout(pause)
    for i in range(len(data)):
        try:
            client.sendall(data[i : i + 1])
            chunk = client.recv(1 << 16)
        except TimeoutError:
            continue
        except ConnectionError:
            return reply
        if not chunk:
            return reply
        reply += chunk
    raise AssertionError("the connection stayed open")


@pytest.mark.parametrize("path", ["/v1/stream", "/vosk", "/nothing"])
def test_half_a_websocket_frame_harms_nobody(live: Live, path: str) -> None:
    handshake = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()
    masked = b"\x82\xfe\xff\xff\x00\x00\x00\x00"  # a binary frame of 65,535 bytes, of which some come
    for frame in (b"", b"\x82", masked, masked + bytes(1000), b"\xff\xff\xff\xff", b"\x81\x05hello"):
        with live.connect() as client:
            client.sendall(handshake)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 ")
            client.sendall(frame)
    assert live.health()["ready"]


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"hello\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET  /health\r\n\r\n",
        b"POST /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 700_000,
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: x\r\n" * 30_000,
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_in_the_shape_of_other_errors(live: Live, request_: bytes) -> None:
    with live.connect() as client:
        with suppress(ConnectionError):
            client.sendall(request_)
        reply = read_all(client)
    if not reply and len(request_) > 1 << 17:
        return  # dropped with the rest of what was sent
    status, body = _answer(reply)
    assert 400 <= status < 500
    assert set(body) == {"error"}
    assert not SECRETS.search(reply.decode())


def test_broken_forms_are_refused(live: Live) -> None:
    good = form(SPEED_UP.read_bytes())
    part = 'Content-Disposition: form-data; name="{}"'
    bodies = [
        b"", b"--", HEAD, good[:-3], good.replace(TAIL, b""), good[20:], TAIL,
        good.replace(b"form-data", b"attachment"),
        good.replace(b'name="file"', b"name"), good.replace(b"\r\n\r\n", b"\r\n", 1), HEAD + good,
        good.replace(BOUNDARY.encode(), b"another"), good.replace(b"a.wav", b"a" * 20_000), b"\r\n" * 5000,
        f"--{BOUNDARY}\r\n{part.format('model')}\r\n\r\n{'m' * 100_000}\r\n".encode() + good,
        b"".join(f"--{BOUNDARY}\r\n{part.format(i)}\r\n\r\n1\r\n".encode() for i in range(200)) + good,
        f"--{BOUNDARY}\r\n{part.format('temperature')}\r\n\r\nnan\r\n".encode() + good,
        f"--{BOUNDARY}\r\n{part.format('response_format')}\r\n\r\n\0\r\n".encode() + good,
    ]  # fmt: skip
    for body in bodies:
        answer = httpx.post(
            f"{live.url}/v1/audio/transcriptions", content=body, timeout=60,
            headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
        )  # fmt: skip
        assert answer.status_code in (400, 413), (body[:200], answer.text)
        assert answer.json()["error"]["message"]
        assert not SECRETS.search(answer.text)


def _half_a_second(kind: str) -> bytes:
    samples, rate = soundfile.read(SPEED_UP, dtype="float32")
    file = io.BytesIO()
    soundfile.write(file, samples[: rate // 2], rate, format=kind)
    return file.getvalue()


def _broken(sound: bytes, number: int) -> bytes:
    """A recording with a fault."""
    draw = random.Random(number)
    data = bytearray(sound)
    kind = number // 4 % 8
    if kind == 0:
        return bytes(data[: draw.randrange(len(data))])
    if kind == 1:  # bits
        for _ in range(draw.choice([1, 10, 1000])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == 2:  # the header lies
        for _ in range(draw.randrange(1, 6)):
            data[draw.randrange(44)] = draw.randrange(256)
    elif kind == 3:  # huge sizes, rates, channels
        offset = draw.choice([4, 16, 22, 24, 28, 32, 34, 40])
        data[offset : offset + 4] = draw.choice([b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\0\0\0\x80"])
    elif kind == 4:  # something else behind a good beginning
        data[draw.choice([4, 12, 44]) :] = draw.randbytes(draw.randrange(5000))
    elif kind == 5:  # other containers, with nothing in them
        magic = draw.choice(
            [b"fLaC\0\0\0\x22", b"OggS\0\x02", b"ID3\4\0\0\0\0\x7f\x7f", b"FORM\xff\xff\xff\xffAIFF", b".snd"]
        )
        return magic + draw.randbytes(draw.randrange(3000))
    elif kind == 6:
        return draw.choice([b"", b"\0", b"RIFF", bytes(44), bytes(10_000), draw.randbytes(2000), b"RIFF" * 1000])
    else:  # a piece is missing, or there twice
        start = draw.randrange(len(data))
        del data[start : start + draw.randrange(1, 3000)]
    return bytes(data)


def test_hundreds_of_broken_recordings_are_each_answered(live: Live) -> None:
    sounds = [_half_a_second(kind) for kind in ("WAV", "FLAC", "OGG", "MP3")]

    def send(number: int) -> httpx.Response:
        path = "/v1/commands" if number % 3 == 0 else "/v1/audio/transcriptions"
        files = {"file": ("a.wav", _broken(sounds[number % 4], number))}
        return httpx.post(live.url + path, files=files, timeout=60)

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(send, range(BROKEN)))
    for number, answer in enumerate(answers):
        assert answer.status_code in (200, 400, 413), (number, answer.text)
        assert answer.status_code == 200 or answer.json()["error"]["message"], number
        assert not SECRETS.search(answer.text), (number, answer.text)
    assert sum(answer.status_code == 400 for answer in answers) > BROKEN / 4
    assert live.is_well()


def _asked(live: Live, operation: Any, mode: Any, end: float) -> int:
    """How many requests of an operation were answered well: such as the document describes, or such as it doesn't."""
    import schemathesis.specs.openapi.checks as known  # noqa: PLC0415  an extra

    checks = [
        known.status_code_conformance, known.content_type_conformance, known.response_schema_conformance,
        known.response_headers_conformance,
    ]  # fmt: skip
    count = 0

    @seed(1)
    @settings(
        max_examples=CASES // 2, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        nonlocal count
        if time.monotonic() > end:
            return
        answer = case.call(base_url=live.url, timeout=60)
        count += 1
        assert not SECRETS.search(answer.text), answer.text
        assert answer.status_code < 500, answer.text
        case.validate_response(answer, checks=checks)

    with suppress(Unsatisfiable):  # what takes nothing can't be asked wrongly
        ask()
    return count


def test_a_thousand_requests_around_the_openapi_document_are_answered_as_it_says(
    live: Live, record_property: Callable[[str, object], None]
) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    schema = schemathesis.openapi.from_dict(httpx.get(f"{live.url}/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations()]
    ways = [
        (operation, mode)
        for operation in operations
        for mode in schemathesis.GenerationMode
        if mode is schemathesis.GenerationMode.POSITIVE or operation.body  # nobody can ask for /health wrongly
    ]
    end = time.monotonic() + LONGEST
    counts: dict[str, int] = {}
    for i, (operation, mode) in enumerate(ways):
        share = (end - time.monotonic()) / (len(ways) - i)
        counts[f"{operation.label}, {mode.value}"] = _asked(live, operation, mode, time.monotonic() + share)
    for operation in operations:
        assert counts[f"{operation.label}, positive"]
    record_property("requests", sum(counts.values()))
    assert live.is_well()
