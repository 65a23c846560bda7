"""Wyoming: what becomes of hostile clients, of those that go, and of faults."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.event import Event, async_write_event
from wyoming.ping import Ping

from asr.errors import ConfigError
from asr.service import stream
from asr.service.errors import BusyError
from asr.service.wyoming import serve_wyoming
from tests.asr.service.streams.wyoming_client import RATE, as_bytes, ask, listening, text

if TYPE_CHECKING:
    from pathlib import Path

    from asr.service.transcriber import Urgency

HOSTILE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff\xfe\x00" * 100 + b"\n",
    b"5\n",
    b"[]\n",
    b"{}\n",
    b'{"type": 3}\n',
    b'{"type": "audio-chunk", "data_length": "x"}\n',
    b'{"type": "audio-chunk", "data": []}\n',
    b'{"type": "audio-chunk", "payload_length": 10000000000}\n' + bytes(1 << 16),
    b'{"type": "audio-chunk", "payload_length": 100}\nhalf of it',
    b'{"type": "audio-chunk", "data_length": 20}\n{"rate": "x",        ',
    b"x" * (1 << 20),
    b"[" * 50000 + b"\n",
]


@pytest.mark.parametrize("data", HOSTILE)
def test_what_is_no_wyoming_ends_one_connection_only(
    tmp_path: Path, stand_in: Any, five: Any, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def client() -> None:
        async with listening(tmp_path, stand_in) as uri:
            reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
            writer.write(data)
            writer.write_eof()
            with suppress(ConnectionResetError):  # since not all was read
                assert b"Traceback" not in await reader.read()
            writer.close()
            async with AsyncClient.from_uri(uri) as connection:
                assert text(await ask(connection, five)) == "five five two eight five"

    with caplog.at_level(logging.WARNING):
        asyncio.run(client())
    assert caplog.records == []


def test_an_error_is_told_and_the_connection_closed(tmp_path: Path, stand_in: Any) -> None:
    """Home Assistant waits for a transcript until the connection ends."""
    start = AudioStart(RATE, 2, 1).event()
    wrong = {
        "such": [Transcribe(name="none").event(), start, AudioChunk(RATE, 2, 1, bytes(3200)).event(),
                 AudioStop().event()],
        "width": [AudioStart(RATE, 5, 1).event()],
        "whole numbers": [Event("audio-start", {"rate": "x", "width": 2, "channels": 1})],
        "Hz": [AudioStart(10, 2, 1).event()],
        "channels": [AudioStart(RATE, 2, 0).event()],
        "changes": [start, AudioChunk(8000, 2, 1, bytes(3200)).event()],
    }  # fmt: skip

    async def client() -> None:
        async with listening(tmp_path, stand_in) as uri:
            for said, events in wrong.items():
                async with AsyncClient.from_uri(uri) as connection:
                    for event in events:
                        await connection.write_event(event)
                    answer = await connection.read_event()
                    assert answer is not None
                    assert Error.is_type(answer.type)
                    assert said in Error.from_event(answer).text
                    assert await connection.read_event() is None

    asyncio.run(client())


def test_sound_is_bounded(tmp_path: Path, stand_in: Any) -> None:
    async def client() -> None:
        async with listening(tmp_path, stand_in) as uri, AsyncClient.from_uri(uri) as connection:
            try:
                for _ in range(61):
                    await connection.write_event(AudioChunk(RATE, 2, 1, bytes(2 * RATE)).event())
            except ConnectionError:  # it may be closed before all is sent
                return
            answer = await connection.read_event()
            assert answer is not None
            assert Error.from_event(answer).code == "too_large"

    asyncio.run(client())
    assert stand_in.asked == []


def test_a_busy_service_is_asked_again(tmp_path: Path, stand_in: Any, five: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.0)
    refused: list[Urgency] = []

    async def refuse(urgency: Urgency) -> None:
        if len(refused) < 3:
            refused.append(urgency)
            raise BusyError("busy")

    async def client() -> None:
        stand_in.before = refuse
        async with listening(tmp_path, stand_in) as uri, AsyncClient.from_uri(uri) as connection:
            assert text(await ask(connection, five)) == "five five two eight five"

    asyncio.run(client())
    assert len(refused) == 3


def test_faults_of_ours_are_logged_and_told_without_a_trace(
    tmp_path: Path, stand_in: Any, five: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: Urgency) -> None:
        raise ZeroDivisionError("a secret")

    async def client() -> None:
        stand_in.before = fail
        async with listening(tmp_path, stand_in) as uri, AsyncClient.from_uri(uri) as connection:
            answer = await ask(connection, five)
            assert answer is not None
            assert Error.is_type(answer.type)
            assert "secret" not in json.dumps(answer.data)

    with caplog.at_level(logging.INFO):
        asyncio.run(client())
    assert [record.getMessage() for record in caplog.records if record.name == "cepstra.service"] == [
        "listening for Wyoming",
        "a Wyoming client failed: ZeroDivisionError",
        "refused",
    ]


def test_who_goes_before_the_answer_is_no_fault(
    tmp_path: Path, stand_in: Any, five: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def client() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def wait(_: Urgency) -> None:
            begun.set()
            await go.wait()

        stand_in.before = wait
        async with listening(tmp_path, stand_in) as uri:
            _, writer = await asyncio.open_unix_connection(tmp_path / "s")
            for event in (AudioChunk(RATE, 2, 1, as_bytes(five)).event(), AudioStop().event()):
                await async_write_event(event, writer)
            await begun.wait()
            writer.transport.abort()
            go.set()
            async with AsyncClient.from_uri(uri) as connection:
                assert text(await ask(connection, five)) == "five five two eight five"

    with caplog.at_level(logging.WARNING):
        asyncio.run(client())
    assert caplog.records == []


def test_stopping_waits_for_no_one(tmp_path: Path, stand_in: Any, five: Any) -> None:
    async def client() -> None:
        begun = asyncio.Event()

        async def hang(_: Urgency) -> None:
            begun.set()
            await asyncio.sleep(3600)

        stand_in.before = hang
        async with listening(tmp_path, stand_in) as uri, AsyncClient.from_uri(uri) as connection:
            asking = asyncio.create_task(ask(connection, five))
            await begun.wait()
            asking.cancel()
        assert not (tmp_path / "s").exists()

    asyncio.run(client())


def test_who_sends_nothing_is_let_go(tmp_path: Path, stand_in: Any) -> None:
    async def client() -> None:
        async with listening(tmp_path, stand_in, idle_seconds=0.05) as uri, AsyncClient.from_uri(uri) as connection:
            assert await connection.read_event() is None

    asyncio.run(client())


def test_no_more_clients_than_may(tmp_path: Path, stand_in: Any) -> None:
    async def client() -> None:
        async with listening(tmp_path, stand_in, max_clients=1) as uri, AsyncClient.from_uri(uri) as first:
            await first.write_event(Ping().event())
            assert await first.read_event() is not None
            async with AsyncClient.from_uri(uri) as second:
                answer = await second.read_event()
                assert answer is not None
                assert Error.from_event(answer).code == "busy"
            await first.write_event(Ping().event())
            assert await first.read_event() is not None

    asyncio.run(client())


@pytest.mark.parametrize("uri", ["", "tcp://", "tcp://host", "tcp://host:x", "tcp://host:99999", "stdio://", "unix://",
                                 "http://a:1", "unix:///no/such/folder/s"])  # fmt: skip
def test_addresses_that_cannot_be(stand_in: Any, uri: str) -> None:
    with pytest.raises(ConfigError, match=";"):
        asyncio.run(serve_wyoming(uri, stand_in))


def test_a_file_at_the_address_is_left_alone(tmp_path: Path, stand_in: Any) -> None:
    (tmp_path / "s").write_text("dear to me")
    with pytest.raises(ConfigError, match="a file is there; choose another"):
        asyncio.run(serve_wyoming(f"unix://{tmp_path / 's'}", stand_in))
    assert (tmp_path / "s").read_text() == "dear to me"
