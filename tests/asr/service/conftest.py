"""What tests of the service share: `cepstra serve` as a process, and its application with a stand-in of the pool."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import uuid
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
import yaml

from asr.phrases import PhraseSet
from asr.results import Result
from asr.service import handle
from asr.service.app import create_app
from asr.service.settings import load
from asr.service.state import State
from asr.service.store import PhraseStore
from asr.service.work import Checked
from audio.reading import audio_info
from tests.asr.service import standin
from tests.asr.service.live import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "data_manifests" / "samples"
PHRASES = ROOT / "data_manifests" / "phrases"
START_SECONDS = 120.0


class Service:
    """A running `cepstra serve`: where it listens, what it logged, and what it keeps on disk."""

    def __init__(
        self, temporary: Path, folder: Path, settings: dict[str, Any], environment: dict[str, str], options: list[str]
    ) -> None:
        """temporary: for its own files. folder: that it is started in. Returns when it listens."""
        self._temporary = temporary / "tmp"
        self._temporary.mkdir()
        if settings:
            file = temporary / "serve.yaml"
            file.write_text(yaml.safe_dump(settings), encoding="utf-8")
            options = ["--config", str(file), *options]
        clean = {name: value for name, value in os.environ.items() if not name.upper().startswith("CEPSTRA_SERVE_")}
        usual = {"CEPSTRA_SERVE_PORT": "0", "CEPSTRA_SERVE_WORKERS": "1", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "asr", "serve", *options],
            cwd=folder, env={**clean, **usual, "TMPDIR": str(self._temporary), **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._listens.wait(START_SECONDS), self.lines
        found = re.search(r"^listening at (http://\S+)/ ", "\n".join(self.lines), re.MULTILINE)
        if found is None:
            self._reader.join()
            raise AssertionError("\n".join(self.lines))
        self.url = found[1]
        self.http = httpx.Client(base_url=self.url, timeout=60)

    @property
    def log(self) -> list[dict[str, Any]]:
        """Its lines, but for the one that people wait for."""
        return [json.loads(line) for line in self.lines if not line.startswith("listening at ")]

    @property
    def left(self) -> list[str]:
        """Files of requests that are still on its disk."""
        files = [path for folder in self._temporary.glob("cepstra-*") for path in folder.iterdir()]
        return [path.name for path in files if not path.name.endswith(".cepstra")]

    def stop(self) -> None:
        """By SIGTERM, which it ends by in good order: exit code 0, and no file left. Once is enough."""
        if self.process.poll() is not None and self.http.is_closed:
            return
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(60) == 0, self.lines
            assert not list(self._temporary.glob("cepstra-*"))
        finally:
            self.process.kill()
            self._reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line.rstrip("\n"))
                if line.startswith("listening at "):
                    self._listens.set()
        self._listens.set()  # or it has ended


@pytest.fixture(scope="module")
def service_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Service]]:
    """service_with(max_upload_mb=1, …): one with these settings, that is stopped after the module's tests.

    environment: variables; options: of the command line; folder: that it is started in.
    """
    with ExitStack() as stack:

        def start(
            *,
            environment: dict[str, str] | None = None,
            options: list[str] | None = None,
            folder: Path = ROOT,
            **settings: Any,
        ) -> Service:
            temporary = tmp_path_factory.mktemp("serve")
            service = Service(temporary, folder, settings, environment or {}, options or [])
            stack.callback(service.stop)
            return service

        yield start


@pytest.fixture(scope="module")
def service(service_with: Callable[..., Service]) -> Service:
    """One worker, the phrase sets lights and drone, open to all."""
    return service_with(phrases=[str(PHRASES / name) for name in ("lights.yaml", "drone.txt")])


class StandIn:
    """A pool that decodes nothing: each recording is said to be `text`. `asked` is what it was told."""

    rate, model, language, digest, threshold = 16000, "stand-in", "en", "", 0.5
    workers, waiting, is_stopping = 1, 0, False

    def __init__(self) -> None:
        self.text = "yes"
        self.asked: list[dict[str, Any]] = []
        self.sounds: list[bytes] = []
        self.refuses: Exception | None = None  # before a recording is received
        self.refuses_sound: Exception | None = None
        self.before: Callable[[], object] = lambda: None

    def refuse_if_full(self) -> None:
        if self.refuses is not None:
            raise self.refuses

    async def transcribe(self, sound: Path, **manner: Any) -> Result:
        self.before()
        self.asked.append(manner)
        self.sounds.append(sound.read_bytes())
        if self.refuses_sound is not None:
            raise self.refuses_sound
        duration = audio_info(sound).duration if self.sounds[-1].startswith(b"RIFF") else 1.0
        return Result(None, duration, self.text, 0.5, (), ())

    async def check_phrases(self, name: str, text: str) -> Checked:
        phrases = PhraseSet.parse(text, name, "en")
        return Checked(phrases.sentences, phrases.intents, len(phrases.words), tuple(phrases.samples(8)))


class Bare:
    """The application in a thread of this process, with a stand-in for its pool."""

    def __init__(self, url: str, pool: StandIn, spool: Path, state: State) -> None:
        self.url, self.pool, self.spool, self.state = url, pool, spool, state
        self.http = httpx.Client(base_url=url, timeout=30)

    @property
    def left(self) -> list[str]:
        """Files of requests that are still on disk."""
        return [path.name for path in self.spool.iterdir()]

    def raw(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a request whose path and headers go out as they are given."""
        connection = HTTPConnection(self.url.removeprefix("http://"), timeout=30)
        with closing(connection):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


@contextmanager
def _bare(spool: Path, settings: dict[str, Any]) -> Iterator[Bare]:
    made = load(None, settings)
    app = create_app(made)
    pool = StandIn()
    phrases = PhraseStore(None if made.state is None else made.state / "phrases")
    spool.mkdir(parents=True)
    state = State(made, app.state.metrics, phrases, pool, spool)  # type: ignore[arg-type]
    app.state.service = state
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="websockets-sansio")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        bare = Bare(f"http://127.0.0.1:{listener.getsockname()[1]}", pool, spool, state)
        try:
            yield bare
        finally:
            bare.http.close()
            server.should_exit = True
            thread.join()


@pytest.fixture
def bare_with(tmp_path: Path) -> Iterator[Callable[..., Bare]]:
    """bare_with(max_upload_mb=1, …): the application with these settings and a stand-in for its pool."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(_bare(tmp_path / f"spool-{uuid.uuid4().hex}", settings))


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    with _bare(tmp_path_factory.mktemp("bare") / "spool", {"max_upload_mb": 0.1}) as made:
        yield made


@pytest.fixture
def bare(_shared: Bare) -> Bare:
    """Recordings of at most 100 kB, without keys; the module's tests share all but the stand-in."""
    _shared.pool = StandIn()
    _shared.state.pool = _shared.pool  # type: ignore[assignment]
    return _shared


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    """By the test."""
    before = set(children(os.getpid()))
    yield
    assert set(children(os.getpid())) <= before


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The bundle of stand-ins: its text is the model's name."""
    monkeypatch.setattr(handle, "_START", standin.START)
    bundle = tmp_path / "model.cepstra"
    bundle.write_text("first")
    return bundle
