"""`WS /v1/stream`: its limits, and what becomes of hostile clients and of faults."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
import websockets

from asr.errors import AudioError
from asr.service import sockets, websocket
from asr.service.transcriber import Urgency
from tests.asr.service.streams.websockets_said import RATE, as_bytes, kinds, said, until


@pytest.mark.parametrize("path", ["/v1/stream"])
@pytest.mark.parametrize("message", [bytes((1 << 20) + 1), "x" * ((1 << 16) + 1), "ß" * ((1 << 15) + 1)])
def test_large_messages_close_the_connection(serving: Any, path: str, message: str | bytes) -> None:
    async def client(address: str) -> None:
        async with websockets.connect(address + path) as connection:
            await connection.send(message)
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009

    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))


def test_no_more_streams_than_the_settings_allow(serving: Any) -> None:
    async def client(server: Any) -> None:
        address = server.address + "/v1/stream"
        async with websockets.connect(address) as first, websockets.connect(address) as second:
            for connection in (first, second):
                await connection.send('{"type": "start"}')
                await until(connection, "ready")
            async with websockets.connect(address) as third:
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    await third.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013
            assert "try again" in closed.value.rcvd.reason
        while server.state.streams:
            await asyncio.sleep(0.01)
        async with websockets.connect(address) as again:
            await again.send('{"type": "start"}')
            await until(again, "ready")

    with serving(websocket.router(), max_streams=2) as server:
        asyncio.run(client(server))


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["cepstra", "key.abc"], "cepstra"), (["key.abc"], "key.abc"), (["key.abc", "x"], "x")]
)
def test_browsers_are_answered_with_one_of_their_protocols(serving: Any, offered: list[Any], chosen: str) -> None:
    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream", subprotocols=offered) as connection:
            assert connection.subprotocol == chosen

    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))


def test_who_sends_nothing_is_let_go(serving: Any) -> None:
    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "nothing came for 0.1 s; connect again")

    with serving(websocket.router(), stream_idle_seconds=0.1) as server:
        asyncio.run(client(server.address))


def test_a_client_that_goes_takes_its_question_with_it(serving: Any, stand_in: Any, talk: Any, hanging: Any) -> None:
    async def client(server: Any) -> None:
        connection = await websockets.connect(server.address + "/v1/stream")
        await connection.send('{"type": "start", "partial": false}')
        await connection.send(as_bytes(talk[: 5 * RATE]))
        while not stand_in.asked:
            await asyncio.sleep(0.01)
        connection.transport.abort()  # in the middle of a final one
        while server.state.streams:
            await asyncio.sleep(0.01)

    stand_in.before = hanging
    with serving(websocket.router()) as server:
        asyncio.run(client(server))
    assert hanging.cancelled == [Urgency.LIVE]


def test_half_a_frame_and_gone(serving: Any, talk: Any) -> None:
    async def client(server: Any) -> None:
        reader, writer = await asyncio.open_connection(*server.address.removeprefix("ws://").split(":"))
        writer.write(
            b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert b"101" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x82\xfe\x10\x00abcdhalf of what it promises")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        async with websockets.connect(server.address + "/v1/stream") as connection:
            assert kinds(await said(connection, as_bytes(talk)), "partial")[-2:] == ["final", "done"]
        while server.state.streams:
            await asyncio.sleep(0.01)

    with serving(websocket.router()) as server:
        asyncio.run(client(server))


def test_a_client_that_never_reads_is_given_up(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SEND_SECONDS", 0.2)
    monkeypatch.setattr(sockets, "CLOSE_SECONDS", 0.2)

    async def client(server: Any) -> None:
        reader, writer = await asyncio.open_connection(*server.address.removeprefix("ws://").split(":"), limit=1)
        writer.write(
            b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await reader.read(1)
        text = b'{"type": "' + b"x" * 110 + b'"}'  # each is answered by an error
        frame = bytes([0x81, 0x80 | len(text)]) + bytes(4) + text
        try:
            while True:
                writer.write(frame * 1000)
                async with asyncio.timeout(1):
                    await writer.drain()
        except (TimeoutError, ConnectionError):
            pass
        while server.state.streams:
            await asyncio.sleep(0.01)
        writer.transport.abort()

    with serving(websocket.router()) as server:
        asyncio.run(client(server))


def test_a_client_that_sends_too_fast_has_to_wait(serving: Any, stand_in: Any, talk: Any) -> None:
    """While an answer is awaited, what comes is not taken, but for a backlog and what sockets hold."""
    release: list[bool] = []

    async def wait(_: Urgency) -> None:
        while not release:
            await asyncio.sleep(0.01)

    async def client(server: Any) -> int:
        async with websockets.connect(server.address + "/v1/stream") as connection:
            await connection.send('{"type": "start", "partial": false}')
            await connection.send(as_bytes(talk[: 4 * RATE]))
            taken = 0
            try:
                while taken < 1 << 27:
                    async with asyncio.timeout(2):
                        await connection.send(bytes(1 << 16))
                    taken += 1 << 16
            except TimeoutError:
                pass
            connection.transport.abort()
            return taken

    stand_in.before = wait
    with serving(websocket.router()) as server:
        try:
            assert asyncio.run(client(server)) < 1 << 25
        finally:
            release.append(True)


def test_faults_of_ours_are_logged_without_a_trace_and_told_in_words(
    serving: Any, stand_in: Any, talk: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail(_: Urgency) -> None:
        raise ZeroDivisionError("what was said is a secret")

    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            await connection.send('{"type": "start", "partial": false}')
            await connection.send(as_bytes(talk))
            assert json.loads(await connection.recv())["type"] == "ready"
            assert json.loads(await connection.recv())["type"] == "speech_started"
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1011
            assert "secret" not in closed.value.rcvd.reason

    stand_in.before = fail
    with caplog.at_level(logging.INFO, "cepstra.service"), serving(websocket.router()) as server:
        asyncio.run(client(server.address))
    assert [record.getMessage() for record in caplog.records if record.name == "cepstra.service"] == [
        "a stream failed: ZeroDivisionError",
        "refused",
    ]
    assert all(record.exc_info is None for record in caplog.records if record.name == "cepstra.service")
    assert "Traceback" not in capfd.readouterr().err


def test_one_answer_that_fails_does_not_end_the_stream(serving: Any, stand_in: Any, talk: Any) -> None:
    count = 0

    async def fail(_: Urgency) -> None:
        nonlocal count
        count += 1
        if count == 1:
            raise AudioError("it can't be read; send it again")

    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            await connection.send('{"type": "start", "partial": false}')
            found = await said(connection, as_bytes(talk))
            assert kinds(found) == ["ready", "speech_started", "error", *["speech_started", "final"] * 2, "done"]
            assert found[2]["start"] == found[1]["start"] < found[2]["end"]

    stand_in.before = fail
    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))
