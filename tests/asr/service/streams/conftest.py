"""What tests of the service share: a recogniser in a thread for the pool of workers, and a server on a free port."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI

from asr.phrases import PhraseSet
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.service.app import create_app
from asr.service.errors import NotFoundError
from asr.service.settings import load
from asr.service.transcriber import Urgency
from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from asr.results import Result
    from asr.service.transcriber import Sound

SAMPLES = Path(__file__).resolve().parents[4] / "data_manifests" / "samples"
NAMES = ("wake_me_up_at_nine_twenty_this_evening", "five_five_two_eight_five", "computer_speed_up")


class Hanging:
    """What is awaited before an answer and never comes; notes what is cancelled meanwhile."""

    def __init__(self) -> None:
        self.cancelled: list[Urgency] = []

    async def __call__(self, urgency: Urgency) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.cancelled.append(urgency)
            raise


@pytest.fixture
def hanging() -> Hanging:
    return Hanging()


class StandIn:
    """A Transcriber of one recogniser in a thread. `before` is awaited before each answer, and may refuse it."""

    def __init__(self, recognizer: Recognizer) -> None:
        self.rate, self.model, self.language = 16000, "stand-in", "en"
        self.asked: list[tuple[Urgency, dict[str, Any], int]] = []
        self.before: Any = None
        self._recognizer = recognizer

    async def transcribe(
        self,
        sound: Sound,
        *,
        phrases: str | None = None,
        threshold: float | None = None,
        boost: Mapping[str, float] | None = None,
        urgency: Urgency = Urgency.SHORT,
    ) -> Result:
        assert isinstance(sound, np.ndarray)
        assert sound.dtype == np.float32
        self.asked.append((urgency, {"phrases": phrases, "threshold": threshold, "boost": boost}, len(sound)))
        if self.before is not None:
            await self.before(urgency)
        if phrases not in (None, "digits"):
            raise NotFoundError(f"{phrases!r}: no such phrase set", param="phrases")
        return await asyncio.to_thread(self._recognizer.transcribe, sound, phrases=phrases)


@pytest.fixture(scope="session")
def both() -> Recognizer:
    """Free text, and the phrase set `digits` by name."""
    if not DEFAULT_BUNDLE.exists() or not SAMPLES.exists():
        pytest.skip("no model or no samples ship with this checkout")
    return Recognizer(phrases={"digits": PhraseSet.parse("intents: {digits: ['five five two eight five']}")}, threads=1)


@pytest.fixture
def stand_in(both: Recognizer) -> StandIn:
    return StandIn(both)


@pytest.fixture(scope="session")
def talk() -> NDArray[np.float32]:
    """Three commands with a second of silence around each, exact as 16-bit samples at 16 kHz."""
    parts = [np.zeros(16000, np.float32)]
    for name in NAMES:
        parts += [read_audio(SAMPLES / f"{name}.wav"), np.zeros(16000, np.float32)]
    return np.concatenate(parts)


@contextmanager
def served(app: FastAPI, lifespan: Literal["on", "off"] = "off") -> Iterator[Any]:
    """A server in a thread: its ws:// address, and the app's state."""
    config = uvicorn.Config(
        app, port=0, ws="websockets-sansio", ws_per_message_deflate=False, log_config=None, lifespan=lifespan
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield SimpleNamespace(address=f"ws://127.0.0.1:{port}", state=app.state)
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def serving(stand_in: StandIn) -> Callable[..., Any]:
    """serving(router, max_streams=2) is a context in which a server answers at the ws:// address that it gives."""

    def serve(router: Any, **state: Any) -> Any:
        app = FastAPI()
        app.include_router(router)
        app.state.transcriber = stand_in
        for name, value in state.items():
            setattr(app.state, name, value)
        return served(app)

    return serve


@pytest.fixture
def serving_all(both: Recognizer, tmp_path: Path) -> Callable[..., Any]:
    """serving_all(router, …) is the same with the whole service, and the workers that it has."""
    del both  # it's there, or skipped

    def serve(*routers: Any) -> Any:
        (tmp_path / "digits.yaml").write_text("intents: {digits: ['five five two eight five']}")
        app = create_app(load(None, {"workers": 1, "phrases": [str(tmp_path / "digits.yaml")]}))
        for router in routers:
            app.include_router(router)
        return served(app, "on")

    return serve


@pytest.fixture
def five() -> Any:
    return read_audio(SAMPLES / "five_five_two_eight_five.wav")
