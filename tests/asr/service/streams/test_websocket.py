"""`WS /v1/stream` over real sockets: its messages, its limits, and what becomes of hostile clients."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
import soxr
import websockets

from asr.errors import AudioError
from asr.listen import Listener
from asr.service import sockets, stream, websocket
from asr.service.transcriber import Urgency
from tests.heard import written

if TYPE_CHECKING:
    from asr.recognizer import Recognizer

ROOT = Path(__file__).resolve().parents[4]
RATE = 16000


def as_bytes(samples: Any) -> bytes:
    return bytes((samples * 32768).astype("<i2").tobytes())


async def until(client: Any, kind: str) -> list[dict[str, Any]]:
    """Messages up to the first of a kind, which is the last of them."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["type"] != kind:
        found.append(json.loads(await client.recv()))
    return found


async def said(client: Any, data: bytes, size: int = 3200) -> list[dict[str, Any]]:
    """What comes of a stream from its first sample to done."""

    async def send() -> None:
        for at in range(0, len(data), size):
            await client.send(data[at : at + size])
        await client.send('{"type": "stop"}')

    sending = asyncio.create_task(send())
    found = await until(client, "done")
    await sending
    return found


def kinds(messages: list[dict[str, Any]], *without: str) -> list[str]:
    return [message["type"] for message in messages if message["type"] not in without]


def test_a_stream_from_start_to_done(serving: Any, both: Recognizer, talk: Any) -> None:
    listener = Listener(both)
    expected = [heard.to_dict() for heard in [*listener.feed(talk), *listener.finish()]]

    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            await connection.send('{"type": "start", "partial": false}')
            found = await said(connection, as_bytes(talk), 1111)
            assert found[0] == {
                "type": "ready", "model": "stand-in", "language": "en", "encoding": "pcm_s16le", "sample_rate": 16000,
                "channels": 1, "phrases": None, "partial": False, "pause_ms": 500,
            }  # fmt: skip
            assert kinds(found) == ["ready", *["speech_started", "final"] * 3, "done"]
            finals = [message for message in found if message["type"] == "final"]
            for final, other in zip(finals, expected, strict=True):
                for measured in (final, other):
                    del measured["latency"], measured["decoding"]
                assert final == {"type": "final", **other}
            assert [message["start"] for message in found if message["type"] == "speech_started"] == [
                message["start"] for message in finals
            ]

    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))


def test_without_a_start_it_is_16_bit_samples_at_16_khz_and_a_new_stream_may_follow(serving: Any, talk: Any) -> None:
    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            texts = []
            for _ in range(2):
                found = await said(connection, as_bytes(talk))
                assert kinds(found, "partial") == ["ready", *["speech_started", "final"] * 3, "done"]
                texts.append([(message["start"], message["text"]) for message in found if message["type"] == "final"])
            assert texts[0] == texts[1]
            await connection.send('{"type": "start", "phrases": "digits", "pause_ms": 300}')
            found = await said(connection, as_bytes(talk))
            finals = [message for message in found if message["type"] == "final"]
            assert [message["text"] for message in finals] == ["", "five five two eight five", ""]
            assert [message["command"] is None for message in finals] == [True, False, True]
            assert {"rejected", "alternatives", "confidence", "words"} <= set(finals[0])

    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))


def test_the_services_own_workers_answer(serving_all: Any, talk: Any) -> None:
    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            finals = []
            starts: list[dict[str, Any]] = [{}, {"phrases": "digits", "threshold": 0.1}, {"boost": {"computer": 1.0}}]
            for start in starts:
                await connection.send(json.dumps({"type": "start", **start}))
                found = await said(connection, as_bytes(talk))
                assert kinds(found, "partial") == ["ready", *["speech_started", "final"] * 3, "done"]
                finals.append([message["text"] for message in found if message["type"] == "final"])
            assert [texts[1] for texts in finals] == ["five five two eight five"] * 3
            assert finals[1][0] == finals[1][2] == ""
            wrong: list[dict[str, Any]] = [{"phrases": "none"}, {"boost": {"": 1.0}}]
            for start in wrong:
                await connection.send(json.dumps({"type": "start", **start}))
                (error,) = await until(connection, "error")
                assert error["error"]["param"] == next(iter(start))
                assert error["error"]["type"] == "invalid_request_error"

    with serving_all(websocket.router()) as server:
        asyncio.run(client(server.address))


def encoded(talk: Any, encoding: str, rate: int, channels: int) -> bytes:
    sound = soxr.resample(np.repeat(talk[:, None], channels, 1), RATE, rate)
    if encoding == "pcm_s16le":
        return as_bytes(sound)
    if encoding == "pcm_f32le":
        return bytes(sound.astype("<f4").tobytes())
    file = io.BytesIO()
    soundfile.write(file, sound, rate, "OPUS", format="OGG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("encoding", "rate", "channels"),
    [("pcm_s16le", 44100, 2), ("pcm_f32le", 16000, 1), ("pcm_f32le", 8000, 2), ("ogg_opus", 48000, 2),
     ("ogg_opus", 16000, 1)],
)  # fmt: skip
def test_all_encodings_say_the_same(serving: Any, talk: Any, encoding: str, rate: int, channels: int) -> None:
    data = encoded(talk, encoding, rate, channels)

    async def client(address: str) -> list[str]:
        async with websockets.connect(address + "/v1/stream") as connection:
            start = {"type": "start", "encoding": encoding, "sample_rate": rate, "channels": channels}
            await connection.send(json.dumps(start))
            found = await said(connection, data, 999)
            assert kinds(found, "partial") == ["ready", *["speech_started", "final"] * 3, "done"]
            return [message["text"] for message in found if message["type"] == "final"]

    with serving(websocket.router()) as server:
        texts = asyncio.run(client(server.address))
    assert texts[1] == "five five two eight five"
    assert texts[2].endswith("speed up")


def test_partial_texts_come_before_the_final_one(serving: Any, talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PARTIAL_SECONDS", 0.0)
    monkeypatch.setattr(stream, "PARTIAL_SHARE", 0.0)

    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            await connection.send(as_bytes(talk[: round(2.2 * RATE)]))  # in the middle of the first command
            found = await until(connection, "partial")
            assert kinds(found) == ["ready", "speech_started", "partial"]
            assert found[-1]["text"]

    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))


@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        ("what", None, "invalid_request"),
        ("[1]", None, "invalid_request"),
        ("[" * 60000, None, "invalid_request"),
        ('{"type": "go"}', "type", "invalid_request"),
        ('{"type": "start", "encoding": "mp3"}', "encoding", "invalid_request"),
        ('{"type": "start", "encoding": ["pcm_s16le"]}', "encoding", "invalid_request"),
        ('{"type": "start", "sample_rate": "16000"}', "sample_rate", "invalid_request"),
        ('{"type": "start", "sample_rate": 1}', "sample_rate", "invalid_request"),
        ('{"type": "start", "sample_rate": NaN}', "sample_rate", "invalid_request"),
        ('{"type": "start", "sample_rate": 1e400}', "sample_rate", "invalid_request"),
        ('{"type": "start", "sample_rate": 16000.5}', "sample_rate", "invalid_request"),
        ('{"type": "start", "channels": 9}', "channels", "invalid_request"),
        ('{"type": "start", "channels": true}', "channels", "invalid_request"),
        ('{"type": "start", "partial": 1}', "partial", "invalid_request"),
        ('{"type": "start", "pause_ms": 20}', "pause_ms", "invalid_request"),
        ('{"type": "start", "threshold": 2}', "threshold", "invalid_request"),
        ('{"type": "start", "boost": ["a"]}', "boost", "invalid_request"),
        ('{"type": "start", "boost": {"a": "b"}}', "boost", "invalid_request"),
        ('{"type": "start", "phrases": 3}', "phrases", "invalid_request"),
        ('{"type": "start", "pharses": "x"}', "pharses", "invalid_request"),
        ('{"type": "start", "phrases": "none"}', "phrases", "not_found"),
    ],
)
def test_what_is_wrong_is_said_and_the_connection_goes_on(
    serving: Any, talk: Any, message: str, param: str | None, code: str
) -> None:
    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            await connection.send(message)
            await connection.send(as_bytes(talk))  # must not be taken for a stream of the default kind
            (error,) = await until(connection, "error")
            assert set(error) == {"type", "error"}
            assert set(error["error"]) == {"message", "type", "param", "code"}
            assert (error["error"]["param"], error["error"]["code"]) == (param, code)
            assert error["error"]["type"] == "invalid_request_error"
            assert "Traceback" not in error["error"]["message"]
            await connection.send('{"type": "start"}')
            assert kinds(await said(connection, bytes(3200))) == ["ready", "done"]

    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))


def test_a_second_start_is_refused_and_the_stream_goes_on(serving: Any, talk: Any) -> None:
    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            await connection.send('{"type": "start"}')
            await connection.send('{"type": "start"}')
            found = await said(connection, as_bytes(talk))
            assert kinds(found, "partial") == ["ready", "error", *["speech_started", "final"] * 3, "done"]

    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))


@pytest.mark.parametrize(
    ("encoding", "good", "bad", "said_of_it"),
    [
        ("ogg_opus", 0.0, b"RIFF0000WAVEfmt ", "not Ogg"),
        ("ogg_opus", 0.0, bytes(range(256)) * 16, "not Ogg"),
        ("ogg_opus", 3.2, b"garbage" * 99, "no Ogg page where one should begin"),
        ("pcm_f32le", 3.2, b"\xff" * 400, "not finite"),
    ],
)
def test_damage_is_said_after_what_came_before_it(  # noqa: PLR0917  they are given by name
    serving: Any, talk: Any, encoding: str, good: float, bad: bytes, said_of_it: str
) -> None:
    data = encoded(talk[: round(good * RATE)], encoding, RATE, 1) if good else b""

    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            await connection.send(json.dumps({"type": "start", "encoding": encoding, "partial": False}))
            at = data.rfind(b"OggS") if encoding == "ogg_opus" else len(data)
            found = await said(connection, data[: max(0, at)] + bad)
            heard = ["speech_started", "final"] if good else []
            assert kinds(found) == ["ready", *heard, "error", "done"]
            assert said_of_it in found[-2]["error"]["message"]

    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))


def test_samples_on_another_scale_are_warned_of_once(serving: Any) -> None:
    data = np.full(RATE, 1000, "<f4").tobytes()

    async def client(address: str) -> None:
        async with websockets.connect(address + "/v1/stream") as connection:
            await connection.send('{"type": "start", "encoding": "pcm_f32le", "partial": false}')
            found = await said(connection, data)
            assert kinds(found, "speech_started", "final") == ["ready", "warning", "done"]

    with serving(websocket.router()) as server:
        asyncio.run(client(server.address))


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


def test_a_client_that_goes_takes_its_question_with_it(serving: Any, stand_in: Any, talk: Any) -> None:
    cancelled: list[Urgency] = []

    async def hang(urgency: Urgency) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(urgency)
            raise

    async def client(server: Any) -> None:
        connection = await websockets.connect(server.address + "/v1/stream")
        await connection.send('{"type": "start", "partial": false}')
        await connection.send(as_bytes(talk[: 5 * RATE]))
        while not stand_in.asked:
            await asyncio.sleep(0.01)
        connection.transport.abort()  # in the middle of a final one
        while server.state.streams:
            await asyncio.sleep(0.01)

    stand_in.before = hang
    with serving(websocket.router()) as server:
        asyncio.run(client(server))
    assert cancelled == [Urgency.LIVE]


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


def test_the_example_of_the_page_runs(serving: Any, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    sample = ROOT / "data_manifests" / "samples" / "computer_speed_up.wav"
    (tmp_path / "lights.wav").write_bytes(sample.read_bytes())
    with serving(websocket.router()) as server:
        script = example.replace("ws://localhost:8765", server.address)
        assert script != example
        ran = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == written("computer_speed_up")
