"""`WS /v1/stream` over real sockets: its messages, in all encodings, and what is told of damage."""

from __future__ import annotations

import asyncio
import io
import json
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

from asr.listen import Listener
from asr.service import stream, websocket
from tests.asr.service.streams.websockets_said import RATE, as_bytes, kinds, said, until
from tests.heard import written

if TYPE_CHECKING:
    from asr.recognizer import Recognizer

ROOT = Path(__file__).resolve().parents[4]


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
        (f'{{"type": "start", "sample_rate": 1{"0" * 400}}}', "sample_rate", "invalid_request"),
        (f'{{"type": "start", "boost": {{"go": 1{"0" * 400}}}}}', "boost", "invalid_request"),
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
