"""Wyoming, with the library's own client: what Home Assistant asks."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from wyoming.asr import Transcript
from wyoming.audio import AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

from asr.service.errors import NotFoundError
from asr.service.transcriber import Urgency
from asr.service.wyoming import serve_wyoming
from audio.reading import read_audio
from tests.asr.service.streams.wyoming_client import RATE, SAMPLES, ask, listening, text
from tests.heard import written

if TYPE_CHECKING:
    from pathlib import Path


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
