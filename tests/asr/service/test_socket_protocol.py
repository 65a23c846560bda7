"""WebSockets that are none: what a client sends instead of a handshake, or in the place of messages."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.asr.service.conftest import Service

HANDSHAKE = (
    b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.fixture(scope="module")
def service(service_with: Callable[..., Service]) -> Service:
    return service_with(idle_seconds=3)


@pytest.fixture
def raw(service: Service) -> Iterator[socket.socket]:
    port = int(service.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as made:
        yield made


def descriptors(service: Service) -> int:
    return len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))


@pytest.mark.parametrize(
    "more",
    [
        b"Content-Length: 5\r\n\r\nhello",
        b"Content-Length: 5\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"".join(b"X-%d: y\r\n" % number for number in range(200)) + b"\r\n",
        b"X: " + b"y" * 9000 + b"\r\n\r\n",
    ],
    ids=["body", "no body", "chunks", "many headers", "long header"],
)
def test_a_handshake_that_cannot_be_read_is_answered_and_closed(
    service: Service, raw: socket.socket, more: bytes
) -> None:
    raw.sendall(HANDSHAKE + more)
    answer = b""
    while data := raw.recv(4096):  # it ends
        answer += data
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ", b"HTTP/1.1 431 "))
    assert service.http.get("/health").json()["ready"]


def test_connections_that_are_none_leave_nothing_behind(service: Service) -> None:
    port, before = int(service.url.rpartition(":")[2]), descriptors(service)
    made = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    for each in made:
        each.sendall(HANDSHAKE + b"Content-Length: 5\r\n\r\n")
    end = time.monotonic() + 30
    while descriptors(service) > before and time.monotonic() < end:
        time.sleep(0.1)
    assert descriptors(service) <= before
    for each in made:
        each.close()


def test_a_message_of_endless_parts_is_refused_and_others_are_answered(service: Service) -> None:
    with connect(service.url.replace("http", "ws") + "/v1/stream") as websocket:
        frames = b"\x02\x80aaaa" + b"\x00\x80aaaa" * 5000  # binary, and empty continuations of it, masked
        websocket.socket.sendall(frames)
        assert httpx.get(f"{service.url}/health", timeout=30).status_code == 200
        with suppress(ConnectionClosed):
            while True:
                websocket.recv(timeout=20)
        assert websocket.close_code == 1009


def test_answers_to_pings_do_not_pile_up(service: Service) -> None:
    port = int(service.url.rpartition(":")[2])
    with socket.socket() as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.connect(("127.0.0.1", port))
        greedy.settimeout(20)
        greedy.sendall(HANDSHAKE + b"\r\n")
        ping, sent = b"\x89\xfd" + b"aaaa" + b"x" * 125, 0
        with suppress(ConnectionError):
            while sent < 100_000_000:  # more than sockets hold
                sent += greedy.send(ping * 100)
        assert sent < 100_000_000
    assert service.http.get("/health").json()["ready"]
