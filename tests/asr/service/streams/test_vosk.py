"""`WS /vosk` with the messages that vosk-server's public test clients send, in their order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import soxr
import websockets

from asr.service import stream, vosk
from tests.asr.service.streams.conftest import NAMES
from tests.heard import written

RATE = 16000
TEXTS = [written(name) for name in NAMES]


def as_bytes(samples: Any, rate: int = RATE) -> bytes:
    return bytes((soxr.resample(samples, RATE, rate).clip(-1, 1) * 32767).astype("<i2").tobytes())


async def conversation(address: str, config: str | None, data: bytes, size: int) -> list[dict[str, Any]]:
    """A block, its answer, the next block …, eof, its answer, and the end."""
    found = []
    async with websockets.connect(address + "/vosk") as client:
        if config is not None:
            await client.send(config)
        for at in range(0, len(data), size):
            await client.send(data[at : at + size])
            found.append(json.loads(await client.recv()))
        await client.send('{"eof" : 1}')
        found.append(json.loads(await client.recv()))
        with pytest.raises(websockets.ConnectionClosedOK):
            await client.recv()
    return found


def texts(answers: list[dict[str, Any]]) -> list[str]:
    return [answer["text"] for answer in answers if answer.get("text")]


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_a_block_of_a_fifth_of_a_second_and_its_answer(serving: Any, talk: Any, rate: int) -> None:
    with serving(vosk.router()) as server:
        config = f'{{ "config" : {{ "sample_rate" : {rate} }} }}'
        found = asyncio.run(conversation(server.address, config, as_bytes(talk, rate), 2 * (rate // 5)))
    assert all(set(answer) in ({"partial"}, {"text"}, {"text", "result"}) for answer in found)
    assert len(texts(found)) == 3
    assert texts(found)[1] == TEXTS[1]
    assert texts(found)[2].endswith("speed up")
    assert found[0] == {"partial": ""}
    for answer in found:
        if answer.get("text"):
            assert [word["word"] for word in answer["result"]] == answer["text"].split()
            for word in answer["result"]:
                assert set(word) == {"conf", "end", "start", "word"}
                assert 0 <= word["start"] <= word["end"] <= len(talk) / RATE
                assert 0 <= word["conf"] <= 1
    starts = [answer["result"][0]["start"] for answer in found if answer.get("text")]
    assert starts == sorted(starts)
    assert starts[0] >= 0.9  # of the stream: there is a second of silence first


def test_what_is_left_comes_with_the_end(serving: Any, talk: Any) -> None:
    spoken = talk[: round(3.5 * RATE)]  # no pause after the first command
    with serving(vosk.router()) as server:
        found = asyncio.run(
            conversation(server.address, '{"config": {"sample_rate": 16000.0, "words": 0}}', as_bytes(spoken), 8000)
        )
        assert all(set(answer) == {"partial"} for answer in found[:-1])
        assert found[-1] == {"text": TEXTS[0]}
        nothing = asyncio.run(conversation(server.address, None, b"", 1))
        assert nothing == [{"text": ""}]


def test_partial_texts(serving: Any, talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PARTIAL_SECONDS", 0.0)
    monkeypatch.setattr(stream, "PARTIAL_SHARE", 0.0)

    async def client(address: str) -> str:
        async with websockets.connect(address + "/vosk") as connection:
            await connection.send('{"config": {"sample_rate": 16000}}')
            await connection.send(as_bytes(talk[: 2 * RATE]))
            partial: str = json.loads(await connection.recv())["partial"]
            while not partial:  # which a guess takes a moment for
                await connection.send(b"")
                partial = json.loads(await connection.recv())["partial"]
            return partial

    with serving(vosk.router()) as server:
        assert asyncio.run(client(server.address))


def test_several_utterances_in_one_block_are_one_answer(serving: Any, talk: Any) -> None:
    with serving(vosk.router()) as server:
        found = asyncio.run(conversation(server.address, '{"config": {"sample_rate": 16000}}', as_bytes(talk), 1 << 20))
    (text,) = texts(found)
    assert text.endswith(f"{TEXTS[1]} {TEXTS[2]}")


def test_phrases_alternatives_and_lists(serving: Any, stand_in: Any, talk: Any) -> None:
    config = {"config": {"sample_rate": RATE, "phrases": "digits", "max_alternatives": 3, "phrase_list": ["x"]}}
    with serving(vosk.router()) as server:
        found = asyncio.run(conversation(server.address, json.dumps(config), as_bytes(talk), 6400))
        heard = [answer["alternatives"] for answer in found if "alternatives" in answer]
        assert [each[0]["text"] for each in heard if each[0]["text"]] == ["five five two eight five"]
        assert all(len(each) == 1 and 0 <= each[0]["confidence"] <= 1 for each in heard)
        for key, value in (("phrase_list", ["lamp", "[unk]"]), ("grammar", '["lamp", "[unk]"]')):
            stand_in.asked.clear()
            config = {"config": {"sample_rate": RATE, key: value}}
            asyncio.run(conversation(server.address, json.dumps(config), as_bytes(talk[: 3 * RATE]), 6400))
            assert stand_in.asked
            assert all(set(options["boost"]) == {"lamp"} for _, options, _ in stand_in.asked)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("hello", "JSON"),
        ("[]", "object"),
        ("{}", "eof"),
        ('{"config": 3}', "config"),
        ('{"config": {"sample_rate": "x"}}', "sample_rate"),
        (f'{{"config": {{"sample_rate": 1{"0" * 400}}}}}', "sample_rate"),
        ('{"config": {"phrase_list": {"a": 1}}}', "phrase_list"),
        ('{"config": {"grammar": "["}}', "grammar"),
        ('{"config": {"phrases": 1}}', "phrases"),
        ('{"config": {"phrases": "none"}}', "none"),
    ],
)
def test_what_is_wrong_stands_in_the_closing_frame(serving: Any, message: str, reason: str) -> None:
    async def client(address: str) -> None:
        async with websockets.connect(address + "/vosk") as connection:
            await connection.send(message)
            await connection.send(bytes(3200))
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1008
            assert reason in closed.value.rcvd.reason

    with serving(vosk.router()) as server:
        asyncio.run(client(server.address))
