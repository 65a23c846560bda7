"""What streams leave in the log and the counters: a line for each answer and each error, and nothing said in them."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import websockets
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error

from asr.errors import AudioError
from asr.service import sockets, vosk, websocket
from asr.service.app import create_app
from asr.service.metrics import Metrics
from asr.service.settings import load
from asr.service.wyoming import serve_wyoming
from audio.reading import read_audio
from tests.asr.service.streams.conftest import NAMES
from tests.heard import written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from asr.service.transcriber import Urgency

RATE = 16000
SAMPLES = Path(__file__).resolve().parents[4] / "data_manifests" / "samples"
TEXTS = [written(name) for name in NAMES]
OWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def as_bytes(samples: Any) -> bytes:
    return bytes((samples * 32767).astype("<i2").tobytes())


def lines(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    """The fields of every line with a message, all of them at the level INFO."""
    found = [each for each in caplog.records if each.name == "cepstra.service" and each.getMessage() == message]
    assert all(each.levelno == logging.INFO for each in found)
    return [{name: value for name, value in vars(each).items() if name not in OWN} for each in found]


def counted(metrics: Metrics, name: str) -> dict[str, float]:
    """Values of a counter, by its only label, but for those that are still 0."""
    return {
        next(iter(sample.labels.values())): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == f"cepstra_{name}_total" and sample.labels and sample.value
    }


def state(*, log_text: bool = False) -> dict[str, Any]:
    return {"metrics": Metrics(), "service": SimpleNamespace(settings=SimpleNamespace(log_text=log_text))}


async def stream_of(address: str, start: dict[str, Any], data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with websockets.connect(address + "/v1/stream") as client:
        for message in (json.dumps({"type": "start", "partial": False, **start}), data, '{"type": "stop"}'):
            await client.send(message)
        while not found or found[-1]["type"] != "done":
            found.append(json.loads(await client.recv()))
    return found


async def vosk_of(address: str, config: dict[str, Any], data: bytes) -> None:
    """Until it ends, whichever way."""
    async with websockets.connect(address + "/vosk") as client:
        for message in (json.dumps({"config": {"sample_rate": RATE, **config}}), data, '{"eof": 1}'):
            await client.send(message)
        async for _ in client:
            pass


async def wyoming_of(uri: str, data: bytes, **wishes: Any) -> Transcript | Error:
    async with AsyncClient.from_uri(uri) as client:
        for each in (Transcribe(**wishes), AudioStart(RATE, 2, 1), AudioChunk(RATE, 2, 1, data), AudioStop()):
            await client.write_event(each.event())
        event = await client.read_event()
        assert event is not None
        if Transcript.is_type(event.type):
            return Transcript.from_event(event)
        assert await client.read_event() is None  # the service ends it
        return Error.from_event(event)


@asynccontextmanager
async def answering(uri: str, stand_in: Any, **rules: Any) -> AsyncIterator[None]:
    server = await serve_wyoming(uri, stand_in, **rules)
    try:
        yield
    finally:
        await server.stop()


@pytest.mark.parametrize("log_text", [False, True])
def test_every_utterance_of_a_stream_is_a_line(serving: Any, talk: Any, caplog: Any, log_text: bool) -> None:
    given = state(log_text=log_text)
    with caplog.at_level(logging.INFO), serving(websocket.router(), **given) as server:
        found = asyncio.run(stream_of(server.address, {}, as_bytes(talk)))
    finals = [message for message in found if message["type"] == "final"]
    expected: list[dict[str, Any]] = [{"seconds": round(each["duration"], 2), "via": "stream"} for each in finals]
    if log_text:
        expected = [{**line, "text": text} for line, text in zip(expected, TEXTS, strict=True)]
    assert len(finals) == 3
    assert lines(caplog, "transcribed") == expected
    assert counted(given["metrics"], "rejected") == {}


@pytest.mark.parametrize("log_text", [False, True])
def test_every_utterance_of_vosk_is_a_line(serving: Any, talk: Any, caplog: Any, log_text: bool) -> None:
    with caplog.at_level(logging.INFO), serving(vosk.router(), **state(log_text=log_text)) as server:
        asyncio.run(vosk_of(server.address, {}, as_bytes(talk)))
    found = lines(caplog, "transcribed")
    assert [line["via"] for line in found] == ["vosk"] * 3
    assert all(0.3 < line["seconds"] < 4 for line in found)
    assert [line.get("text") for line in found] == (TEXTS if log_text else [None] * 3)
    assert all("text" in line for line in found) == log_text


@pytest.mark.parametrize("log_text", [False, True])
def test_every_transcript_of_wyoming_is_a_line(tmp_path: Path, stand_in: Any, caplog: Any, log_text: bool) -> None:
    five, metrics = read_audio(SAMPLES / "five_five_two_eight_five.wav"), Metrics()
    uri = f"unix://{tmp_path / 's'}"

    async def client() -> None:
        async with answering(uri, stand_in, metrics=metrics, log_text=log_text):
            await wyoming_of(uri, as_bytes(five))
            await wyoming_of(uri, b"")

    with caplog.at_level(logging.INFO):
        asyncio.run(client())
    seconds = (round(len(five) / RATE, 2), 0.0)
    expected: list[dict[str, Any]] = [{"seconds": each, "via": "wyoming"} for each in seconds]
    if log_text:
        expected = [{**line, "text": text} for line, text in zip(expected, [TEXTS[1], ""], strict=True)]
    assert lines(caplog, "transcribed") == expected
    assert counted(metrics, "rejected") == {"no-speech": 1}


def test_what_is_no_command_is_counted_as_over_http(serving: Any, talk: Any, stand_in: Any, tmp_path: Path) -> None:
    given = state()
    with serving(websocket.router(), **given) as server:
        asyncio.run(stream_of(server.address, {"phrases": "digits"}, as_bytes(talk)))
    assert counted(given["metrics"], "rejected") == {"unknown-command": 2}
    given = state()
    with serving(vosk.router(), **given) as server:
        asyncio.run(vosk_of(server.address, {"phrases": "digits"}, as_bytes(talk)))
    assert counted(given["metrics"], "rejected") == {"unknown-command": 2}
    metrics, uri = Metrics(), f"unix://{tmp_path / 's'}"

    async def client() -> None:
        async with answering(uri, stand_in, metrics=metrics):
            await wyoming_of(uri, as_bytes(read_audio(SAMPLES / "computer_speed_up.wav")), name="digits")

    asyncio.run(client())
    assert counted(metrics, "rejected") == {"unknown-command": 1}


HIDDEN = "my-dear-secret"


def test_every_error_of_a_stream_is_a_line(serving: Any, stand_in: Any, talk: Any, caplog: Any) -> None:
    count = 0

    async def fail(_: Urgency) -> None:
        nonlocal count
        count += 1
        if count == 1:
            raise AudioError(f"{HIDDEN} can't be read; send it again")

    given = state()
    with caplog.at_level(logging.INFO), serving(websocket.router(), **given) as server:
        for start in ({"phrases": HIDDEN}, {HIDDEN: 1}):
            found = asyncio.run(stream_of(server.address, start, b""))
            assert found[0]["type"] == "error"
        count, stand_in.before = 0, fail
        found = asyncio.run(stream_of(server.address, {}, as_bytes(talk)))
        assert [each["type"] for each in found].count("error") == 1
        assert asyncio.run(_closed(server.address, bytes(sockets.LARGEST_FRAME + 1))) == sockets.TOO_BIG
    codes = ["not_found", "invalid_request", "invalid_audio", "too_large"]
    assert lines(caplog, "refused") == [{"code": code, "via": "stream"} for code in codes]
    assert counted(given["metrics"], "errors") == dict.fromkeys(codes, 1)
    assert len(lines(caplog, "transcribed")) == 2
    assert HIDDEN not in str([vars(each) for each in caplog.records if each.name.startswith("cepstra")])


async def _closed(address: str, message: bytes | None = None) -> int | None:
    """The code that the service closes it with."""
    async with websockets.connect(address + "/v1/stream") as client:
        if message is not None:
            await client.send(message)
        await client.wait_closed()
        return client.close_code


def test_streams_beyond_the_limit_and_those_that_were_silent(serving: Any, caplog: Any) -> None:
    given = state()
    with caplog.at_level(logging.INFO), serving(websocket.router(), max_streams=0, **given) as server:
        assert asyncio.run(_closed(server.address)) == sockets.TRY_LATER
    assert lines(caplog, "refused") == [{"code": "busy", "via": "stream"}]
    assert counted(given["metrics"], "errors") == {"busy": 1}
    given = state()
    with serving(websocket.router(), stream_idle_seconds=0.1, **given) as server:
        assert asyncio.run(_closed(server.address)) == sockets.IDLE
    assert counted(given["metrics"], "errors") == {}


def test_every_error_of_vosk_is_a_line(serving: Any, stand_in: Any, talk: Any, caplog: Any) -> None:
    async def fail(_: Urgency) -> None:
        raise AudioError(f"{HIDDEN} can't be read; send it again")

    async def client(address: str) -> None:
        wrong: list[dict[str, Any]] = [{"phrases": HIDDEN}, {"words": 1, "sample_rate": HIDDEN}, {}]
        for config in wrong:
            stand_in.before = None if config else fail
            with pytest.raises(websockets.ConnectionClosed):
                await vosk_of(address, config, as_bytes(talk))

    given = state()
    with caplog.at_level(logging.INFO), serving(vosk.router(), **given) as server:
        asyncio.run(client(server.address))
    codes = ["not_found", "invalid_request", "invalid_audio"]
    assert lines(caplog, "refused") == [{"code": code, "via": "vosk"} for code in codes]
    assert counted(given["metrics"], "errors") == dict.fromkeys(codes, 1)
    assert HIDDEN not in str([vars(each) for each in caplog.records if each.name.startswith("cepstra")])


def test_every_error_of_wyoming_is_a_line(tmp_path: Path, stand_in: Any, caplog: Any) -> None:
    metrics, uri = Metrics(), f"unix://{tmp_path / 's'}"

    async def client() -> None:
        async with answering(uri, stand_in, metrics=metrics, max_clients=1):
            assert isinstance(await wyoming_of(uri, bytes(3200), name=HIDDEN), Error)
            reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
            writer.write(HIDDEN.encode() + b"\n")
            assert await reader.read()
            writer.close()
            async with AsyncClient.from_uri(uri), AsyncClient.from_uri(uri) as second:
                assert await second.read_event() is not None

    with caplog.at_level(logging.INFO):
        asyncio.run(client())
    codes = ["not_found", "invalid_request", "busy"]
    assert lines(caplog, "refused") == [{"code": code, "via": "wyoming"} for code in codes]
    assert counted(metrics, "errors") == dict.fromkeys(codes, 1)
    assert HIDDEN not in str([vars(each) for each in caplog.records if each.name.startswith("cepstra")])


def test_the_service_itself_says_what_its_wyoming_does(tmp_path: Path, caplog: Any) -> None:
    """Settings reach it: keys, aliases, whether text is logged; and its counters are the service's."""
    if not SAMPLES.exists():
        pytest.skip("no samples ship with this checkout")
    uri = f"unix://{tmp_path / 's'}"
    keys = [{"name": "all", "key": "0123456789abcdef"}]
    app = create_app(load(None, {"workers": 1, "wyoming": uri, "log_text": True, "api_keys": keys}))
    five = as_bytes(read_audio(SAMPLES / "five_five_two_eight_five.wav"))

    async def client() -> None:
        async with app.router.lifespan_context(app):
            for name in (None, "whisper-1"):
                answer = await wyoming_of(uri, five, name=name)
                assert isinstance(answer, Transcript)
                assert answer.text == TEXTS[1]
            assert isinstance(await wyoming_of(uri, five, name="none"), Error)
            answer = await wyoming_of(uri, np.zeros(RATE, "<i2").tobytes())
            assert isinstance(answer, Transcript)

    with caplog.at_level(logging.INFO):
        asyncio.run(client())
    assert lines(caplog, "listening for Wyoming") == [{"uri": uri}]
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING] == [
        f"Wyoming has no keys: whoever can reach {uri} is answered"
    ]
    assert [line["text"] for line in lines(caplog, "transcribed")] == [TEXTS[1], TEXTS[1], ""]
    assert counted(app.state.metrics, "errors") == {"not_found": 1}
    assert counted(app.state.metrics, "rejected") == {"no-speech": 1}
