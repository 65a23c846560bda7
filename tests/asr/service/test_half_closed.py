"""A client that has sent its request and says that it sends no more: it is answered, unless it is gone altogether."""

from __future__ import annotations

import asyncio
import socket
import threading
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from asr.service import protocol
from tests.asr.service.live import SPEED_UP, eventually, form, head, read_all, served
from tests.heard import written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GET = b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"


class Patient:
    """An application that answers with the path after `seconds`, unless its client is gone before."""

    def __init__(self) -> None:
        self.seconds = 0.3
        self.gone = 0
        self.port = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            async with asyncio.timeout(self.seconds):
                while (await receive())["type"] != "http.disconnect":
                    pass
            self.gone += 1
        except TimeoutError:
            body = scope["path"].encode()
            length = [(b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": length})
            await send({"type": "http.response.body", "body": body})

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def answers(self, request: bytes) -> bytes:
        """All that comes for a request whose client sends no more."""
        with self.connect() as client:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            return read_all(client)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    monkeypatch.setattr(protocol, "PROBE_SECONDS", 0.05)
    app = Patient()
    config = uvicorn.Config(app, log_config=None, lifespan="off", http=protocol.protocol(15.0))
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app.port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield app
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("request_", [GET % b"x", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"])
def test_it_is_answered_and_the_connection_ends(patient: Patient, request_: bytes) -> None:
    reply = patient.answers(request_)
    *interim, last = reply.split(b"HTTP/1.1 ")[1:]
    assert last.startswith(b"200 OK")
    assert last.endswith(b"/x")
    assert set(interim) <= {b"100 Continue\r\n\r\n"}
    assert patient.gone == 0


def test_ordinary_clients_pass_over_the_questions_whether_they_listen(patient: Patient) -> None:
    with patient.connect() as client:
        client.sendall(GET % b"x")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(12, socket.MSG_PEEK).startswith(b"HTTP/1.1 100")
        answer = HTTPResponse(client)
        answer.begin()
        assert (answer.status, answer.read()) == (200, b"/x")


def test_clients_of_an_older_http_are_not_asked(patient: Patient) -> None:
    assert b" 100 " not in patient.answers(b"GET /x HTTP/1.0\r\n\r\n")


def test_all_of_several_requests_are_answered(patient: Patient) -> None:
    reply = patient.answers(b"".join(GET % name for name in (b"a", b"b", b"c")))
    assert reply.count(b" 200 OK") == 3
    assert [reply.index(name) for name in (b"/a", b"/b", b"/c")] == sorted(map(reply.index, (b"/a", b"/b", b"/c")))
    assert patient.gone == 0


def test_work_for_one_that_is_gone_is_dropped(patient: Patient) -> None:
    patient.seconds = 60.0
    with patient.connect() as client:
        client.sendall(GET % b"x")
    assert eventually(lambda: patient.gone == 1)


def test_half_a_request_gets_no_answer(patient: Patient) -> None:
    patient.seconds = 60.0
    assert patient.answers(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na") == b""
    assert eventually(lambda: patient.gone == 1)


def test_a_recording_is_transcribed_for_it(tmp_path: Path) -> None:
    body = form(SPEED_UP.read_bytes())
    with served(tmp_path, workers=1) as live, live.connect() as client:
        client.sendall(head(len(body)) + body)
        client.shutdown(socket.SHUT_WR)
        answer = HTTPResponse(client)
        answer.begin()
        assert answer.status == 200
        assert written("computer_speed_up") in answer.read().decode()
