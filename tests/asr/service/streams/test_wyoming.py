"""Wyoming, with the library's own client: what Home Assistant asks, and what becomes of hostile clients."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soxr
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.event import Event, async_write_event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

from asr.errors import ConfigError
from asr.service import stream
from asr.service.errors import BusyError, NotFoundError
from asr.service.transcriber import Urgency
from asr.service.wyoming import serve_wyoming
from audio.reading import read_audio
from tests.heard import written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RATE = 16000
SAMPLES = Path(__file__).resolve().parents[4] / "data_manifests" / "samples"


@pytest.fixture
def five() -> Any:
    return read_audio(SAMPLES / "five_five_two_eight_five.wav")


@asynccontextmanager
async def listening(folder: Path, stand_in: Any, **rules: Any) -> AsyncIterator[str]:
    uri = f"unix://{folder / 's'}"
    server = await serve_wyoming(uri, stand_in, **rules)
    try:
        yield uri
    finally:
        await server.stop()


def as_bytes(samples: Any, width: int = 2) -> bytes:
    if width == 1:
        return bytes((samples * 127 + 128).astype(np.uint8).tobytes())
    whole = (samples.astype(np.float64) * (2.0 ** (8 * width - 1) - 1)).astype("<i4")
    return b"".join(int(value).to_bytes(width, "little", signed=True) for value in whole.tolist())


async def ask(client: AsyncClient, samples: Any, *, rate: int = RATE, width: int = 2, channels: int = 1,
              begin: bool = True, **wishes: Any) -> Event | None:  # fmt: skip
    sound = np.repeat(soxr.resample(samples, RATE, rate).clip(-1, 1), channels)
    data = as_bytes(sound, width)
    await client.write_event(Transcribe(**wishes).event())
    if begin:
        await client.write_event(AudioStart(rate, width, channels).event())
    for at in range(0, len(data), 2048 * width * channels):
        part = data[at : at + 2048 * width * channels]
        await client.write_event(AudioChunk(rate, width, channels, part).event())
    await client.write_event(AudioStop().event())
    return await client.read_event()


def text(event: Event | None) -> str:
    assert event is not None
    assert Transcript.is_type(event.type), event
    return Transcript.from_event(event).text


def test_it_says_what_it_is(tmp_path: Path, stand_in: Any) -> None:
    async def client() -> None:
        async with listening(tmp_path, stand_in) as uri, AsyncClient.from_uri(uri) as connection:
            await connection.write_event(Describe().event())
            event = await connection.read_event()
            assert event is not None
            assert Info.is_type(event.type)
            (program,) = Info.from_event(event).asr
            (model,) = program.models
            assert (program.name, model.name, model.languages) == ("cepstra", "stand-in", ["en"])
            assert program.installed
            assert model.installed
            assert program.version == model.version != ""
            await connection.write_event(Ping("x").event())
            event = await connection.read_event()
            assert event is not None
            assert Pong.from_event(event).text == "x"

    asyncio.run(client())


@pytest.mark.parametrize(
    ("rate", "width", "channels", "begin"),
    [(16000, 2, 1, True), (16000, 2, 1, False), (44100, 2, 2, True), (16000, 4, 1, True), (16000, 3, 1, True),
     (22050, 1, 1, True)],
)  # fmt: skip
def test_sound_of_many_kinds(  # noqa: PLR0917  they are given by name
    tmp_path: Path, stand_in: Any, five: Any, rate: int, width: int, channels: int, begin: bool
) -> None:
    async def client() -> None:
        async with listening(tmp_path, stand_in) as uri, AsyncClient.from_uri(uri) as connection:
            for _ in range(2):  # on one connection
                event = await ask(connection, five, rate=rate, width=width, channels=channels, begin=begin,
                                  language="en")  # fmt: skip
                assert text(event) == "five five two eight five"
                assert event is not None
                assert Transcript.from_event(event).language == "en"

    asyncio.run(client())
    assert {urgency for urgency, _, _ in stand_in.asked} == {Urgency.LIVE}


def test_nothing_is_nothing(tmp_path: Path, stand_in: Any) -> None:
    async def client() -> None:
        async with listening(tmp_path, stand_in) as uri, AsyncClient.from_uri(uri) as connection:
            assert text(await ask(connection, np.zeros(0, np.float32))) == ""
            assert text(await ask(connection, np.zeros(RATE, np.float32))) == ""
            await connection.write_event(AudioStop().event())
            assert text(await connection.read_event()) == ""

    asyncio.run(client())


def test_phrases_by_setting_and_by_name(tmp_path: Path, stand_in: Any, five: Any) -> None:
    other = read_audio(SAMPLES / "computer_speed_up.wav")

    async def client() -> None:
        async with listening(tmp_path, stand_in, phrases="digits") as uri, AsyncClient.from_uri(uri) as connection:
            assert text(await ask(connection, five)) == "five five two eight five"
            assert text(await ask(connection, other)) == ""
        async with listening(tmp_path, stand_in) as uri, AsyncClient.from_uri(uri) as connection:
            assert text(await ask(connection, other, name="stand-in")) == written("computer_speed_up")
            assert text(await ask(connection, other, name="digits")) == ""
            assert text(await ask(connection, other)) == written("computer_speed_up")
        with pytest.raises(NotFoundError):
            await serve_wyoming(f"unix://{tmp_path / 't'}", stand_in, phrases="none")

    asyncio.run(client())


def test_names_of_the_model_mean_free_text(tmp_path: Path, stand_in: Any) -> None:
    other = read_audio(SAMPLES / "computer_speed_up.wav")

    async def client() -> None:
        rules = {"aliases": ("whisper-1", "digits")}  # even where a phrase set is called so
        async with listening(tmp_path, stand_in, **rules) as uri, AsyncClient.from_uri(uri) as connection:
            for name in ("whisper-1", "digits", "stand-in", "cepstra", ""):
                assert text(await ask(connection, other, name=name)) == written("computer_speed_up")
            answer = await ask(connection, other, name="whisper-2")
            assert answer is not None
            assert Error.from_event(answer).code == "not_found"

    asyncio.run(client())


def test_another_language_is_refused_in_words(tmp_path: Path, stand_in: Any, five: Any) -> None:
    async def client() -> None:
        async with listening(tmp_path, stand_in) as uri:
            async with AsyncClient.from_uri(uri) as connection:
                for own in ("en", "en-US", "EN_gb", "english", "", None):
                    assert text(await ask(connection, five, language=own)) == "five five two eight five"
            count = len(stand_in.asked)
            for other in ("de", "de-DE", "eng", "x" * 1000):
                async with AsyncClient.from_uri(uri) as connection:
                    answer = await ask(connection, five, language=other)
                    assert answer is not None
                    error = Error.from_event(answer)
                    assert error.code == "invalid_request"
                    assert error.text == f"language: the model knows en only, not {other[:40]!r}"
                    assert await connection.read_event() is None
            assert len(stand_in.asked) == count

    asyncio.run(client())


@pytest.mark.parametrize(
    ("host", "has_keys", "warned"),
    [("127.0.0.1", False, False), ("localhost", False, False), ("0.0.0.0", False, True),  # noqa: S104  it is what is warned of
     ("127.0.0.1", True, True)],
)  # fmt: skip
def test_the_address_is_logged_and_that_it_has_no_keys(  # noqa: PLR0917  they are given by name
    stand_in: Any, unused: int, caplog: pytest.LogCaptureFixture, host: str, has_keys: bool, warned: bool
) -> None:
    uri = f"tcp://{host}:{unused}"

    async def run() -> None:
        server = await serve_wyoming(uri, stand_in, has_keys=has_keys)
        await server.stop()

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    found = [record for record in caplog.records if record.name == "cepstra.service"]
    warning = f"Wyoming has no keys: whoever can reach {uri} is answered"
    assert [(record.levelname, record.getMessage()) for record in found] == [
        ("INFO", "listening for Wyoming"), *([("WARNING", warning)] if warned else []),
    ]  # fmt: skip
    assert vars(found[0])["uri"] == uri


def test_several_clients_at_once_over_tcp(stand_in: Any, five: Any, unused: int) -> None:
    async def one(uri: str) -> str:
        async with AsyncClient.from_uri(uri) as connection:
            return text(await ask(connection, five))

    async def clients() -> None:
        uri = f"tcp://127.0.0.1:{unused}"
        server = await serve_wyoming(uri, stand_in)
        try:
            assert set(await asyncio.gather(*(one(uri) for _ in range(4)))) == {"five five two eight five"}
        finally:
            await server.stop()
        with pytest.raises(OSError, match="onnect"):
            await one(uri)

    asyncio.run(clients())


@pytest.fixture
def unused() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


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
