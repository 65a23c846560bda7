"""Wyoming, the protocol in which Home Assistant asks for speech to text."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import stat
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import async_read_event
from wyoming.info import AsrModel, AsrProgram, Attribution, Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.server import AsyncEventHandler, AsyncServer

from asr.errors import CepstraError, ConfigError
from asr.inflow import PcmInflow
from asr.results import Result
from asr.service.asked import check_language
from asr.service.errors import BusyError, RequestError, ServiceError, TooLargeError
from asr.service.notes import Notes
from asr.service.sockets import report
from asr.service.stream import insist
from asr.service.transcriber import Urgency
from audio.pcm import Encoding, RawFormat
from audio.vad import RATE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection

    from wyoming.event import Event

    from asr.inflow import Array
    from asr.service.metrics import Metrics
    from asr.service.transcriber import Transcriber

_log = logging.getLogger("cepstra.service")

LONGEST_SECONDS = 60.0  # of sound between audio-start and audio-stop
LARGEST = 1 << 20  # bytes of an event's payload
SMALL = 1 << 15  # bytes that are made into samples at once
PROGRAM = "cepstra"
_WIDTHS: dict[int, Encoding] = {1: "PCM_U8", 2: "PCM_16", 3: "PCM_24", 4: "PCM_32"}
_FORM = RawFormat("PCM_16", RATE)  # what Home Assistant sends, where an event doesn't say


class WyomingServer:
    """One that runs; `stop` ends it."""

    def __init__(self, server: AsyncServer, handlers: set[_Handler]) -> None:
        """For `serve_wyoming`."""
        self._server, self._handlers = server, handlers

    async def stop(self) -> None:
        """Take no more clients, and leave those that are there."""
        await self._server.stop()
        for handler in list(self._handlers):
            await handler.end()


@dataclass(frozen=True)
class _Rules:
    """What holds for every client."""

    transcriber: Transcriber
    notes: Notes
    phrases: str | None
    aliases: Collection[str]
    max_clients: int
    idle_seconds: float | None


async def serve_wyoming(
    uri: str,
    transcriber: Transcriber,
    *,
    phrases: str | None = None,
    aliases: Collection[str] = (),
    max_clients: int = 64,
    idle_seconds: float | None = None,
    metrics: Metrics | None = None,
    log_text: bool = False,
    has_keys: bool = False,
) -> WyomingServer:
    """Answer clients at tcp://HOST:PORT or unix://PATH from now on.

    phrases: the phrase set that everything is held to: a transcript is the sentence of a command, or "". aliases:
    names of the model besides its own. max_clients: at one time. idle_seconds: without an event, after which a client
    is let go. log_text: whether what was said may be logged. has_keys: whether the service asks for keys elsewhere,
    since this protocol can't. Raises ConfigError for an address that can't be used, and what the transcriber has to
    say of the phrases.
    """
    _check(uri)
    if phrases is not None:
        await insist(lambda: transcriber.transcribe(np.zeros(RATE // 10, np.float32), phrases=phrases))
    notes = Notes("wyoming", metrics, log_text)
    rules = _Rules(transcriber, notes, phrases, aliases, max_clients, idle_seconds)
    handlers: set[_Handler] = set()

    def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncEventHandler:
        return _Handler(reader, writer, rules, handlers)

    server = AsyncServer.from_uri(uri)
    try:
        await server.start(handler)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{uri}: can't be listened at ({reason}); choose another address") from None
    _log.info("listening for Wyoming", extra={"uri": uri})
    if has_keys or not _is_local(uri):
        _log.warning("Wyoming has no keys: whoever can reach %s is answered", uri)
    return WyomingServer(server, handlers)


def _check(uri: str) -> None:
    try:
        parts = urlsplit(uri)
        usable = (parts.scheme == "tcp" and bool(parts.hostname) and parts.port is not None) or (
            parts.scheme == "unix" and parts.path not in ("", "/")
        )
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"wyoming: {uri!r} is not an address; give tcp://HOST:PORT or unix:///PATH")
    if parts.scheme == "unix":
        with suppress(OSError, ValueError):
            if not stat.S_ISSOCK(Path(parts.path).lstat().st_mode):  # the library would take it away
                raise ConfigError(f"{uri}: a file is there; choose another path")


def _is_local(uri: str) -> bool:
    """Whether only this machine can reach it."""
    parts = urlsplit(uri)
    if parts.scheme == "unix" or parts.hostname in (None, "localhost"):
        return True
    try:
        return ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:  # a name
        return False


class _Handler(AsyncEventHandler):
    """One client: sound between audio-start and audio-stop, and its transcript."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        rules: _Rules,
        handlers: set[_Handler],
    ) -> None:
        super().__init__(_Bounded(reader), writer)
        self._rules, self._handlers = rules, handlers
        self._task: asyncio.Task[None] | None = None
        self._wanted = Transcribe()  # what the client asks for
        self._sound: _Sound | None = None

    async def run(self) -> None:
        """Receive events until the client goes, or what it sends makes no sense; nothing escapes."""
        self._task = asyncio.current_task()
        self._handlers.add(self)
        try:
            most = self._rules.max_clients
            if len(self._handlers) > most:
                raise BusyError(f"{most} clients are connected, no more may be; try again later")  # noqa: TRY301
            while (event := await self._next()) is not None:
                await self.handle_event(event)
            if not self.reader.at_eof():
                raise RequestError("not an event of Wyoming; see the protocol")  # noqa: TRY301
        except CepstraError as error:
            # A client that waits for a transcript learns by the connection's end that there won't be one
            code = error.code if isinstance(error, ServiceError) else RequestError.code
            await self._refuse(str(error), code)
        except (OSError, EOFError):
            pass  # it's gone, or silent (TimeoutError)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            await self._refuse("not an event of Wyoming; see the protocol", RequestError.code)
        except Exception as error:  # noqa: BLE001  whatever it is, it ends one client only
            report("a Wyoming client", error)
            await self._refuse("the service failed; connect again", ServiceError.code)
        finally:
            self._handlers.discard(self)
            self.writer.close()

    async def _next(self) -> Event | None:
        async with asyncio.timeout(self._rules.idle_seconds):
            return await async_read_event(self.reader)

    async def end(self) -> None:
        """Stop at once, whatever is going on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def handle_event(self, event: Event) -> bool:
        """Whether to go on."""
        if Describe.is_type(event.type):
            await self.write_event(_info(self._rules.transcriber).event())
        elif Ping.is_type(event.type):
            await self.write_event(Pong(Ping.from_event(event).text).event())
        elif Transcribe.is_type(event.type):
            self._wanted = Transcribe.from_event(event)
        elif AudioStart.is_type(event.type):
            self._sound = _Sound(_form(event.data))
        elif AudioChunk.is_type(event.type):
            form = _form(event.data)
            self._sound = self._sound or _Sound(form)
            await self._sound.feed(form, event.payload or b"")
        elif AudioStop.is_type(event.type):
            await self.write_event((await self._transcript()).event())
        return True

    async def _transcript(self) -> Transcript:
        samples = np.zeros(0, np.float32) if self._sound is None else self._sound.finish()
        self._sound = None
        # Not before the sound is over: who closes a connection that is being written to takes the error back
        check_language(self._wanted.language or None, self._rules.transcriber.language)
        if len(samples):
            result = await insist(lambda: self._transcribed(samples))
        else:
            result = Result(None, 0.0, "", 1.0, no_speech=True)
        self._rules.notes.transcribed(result)
        meaning = result.meaning
        text = result.text if meaning is None or meaning.command is None else meaning.command.sentence
        return Transcript(text, language=self._rules.transcriber.language)

    def _transcribed(self, samples: Array) -> Awaitable[Result]:
        name = self._wanted.name
        own = (None, "", PROGRAM, self._rules.transcriber.model, *self._rules.aliases)
        phrases = self._rules.phrases or (None if name in own else name)
        return self._rules.transcriber.transcribe(samples, phrases=phrases, urgency=Urgency.LIVE)

    async def _refuse(self, message: str, code: str) -> None:
        self._rules.notes.refused(code)
        with suppress(OSError, RuntimeError):
            await self.write_event(Error(message, code).event())


class _Sound:
    """What has come of it, at 16 kHz."""

    def __init__(self, form: RawFormat) -> None:
        self._form = form
        self._inflow = PcmInflow(form, "the sound")
        self._parts: list[Array] = []
        self._count = 0

    async def feed(self, form: RawFormat, data: bytes) -> None:
        """Raises AudioError and RequestError for what can't be taken, TooLargeError when it is too much."""
        if form != self._form:
            raise RequestError("the sound changes its format; send audio-stop first")
        if len(data) > SMALL:
            parts = await asyncio.to_thread(lambda: list(self._inflow.feed(data)))
        else:
            parts = list(self._inflow.feed(data))
        self._parts += parts
        self._count += sum(map(len, parts))
        if self._count > LONGEST_SECONDS * RATE:
            raise TooLargeError(f"more than {LONGEST_SECONDS:g} s of sound; send audio-stop earlier")

    def finish(self) -> Array:
        """All of it."""
        return np.concatenate([*self._parts, *self._inflow.finish()])


class _Bounded(asyncio.StreamReader):
    """A reader that reads no more at once than a bounded number of bytes, whatever length an event claims to have."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__()
        self._reader = reader

    async def readline(self) -> bytes:
        """A line; ValueError for one that is too long."""
        return await self._reader.readline()

    async def readexactly(self, n: int) -> bytes:
        """So many bytes; ValueError for too many."""
        if not 0 <= n <= LARGEST:
            raise ValueError(n)
        return await self._reader.readexactly(n)

    def at_eof(self) -> bool:
        """Whether all has been read, and no more comes."""
        return self._reader.at_eof()

    def feed_eof(self) -> None:
        """No more comes."""
        self._reader.feed_eof()


def _form(data: dict[str, Any]) -> RawFormat:
    """Of the samples of an event; RequestError where there can't be such."""
    width = data.get("width", 2)
    rate, channels = data.get("rate", _FORM.sample_rate), data.get("channels", 1)
    if not all(isinstance(value, int) for value in (width, rate, channels)) or width not in _WIDTHS:
        raise RequestError("sound: rate, width (1 to 4 bytes) and channels are whole numbers")
    return RawFormat(_WIDTHS[width], rate, channels)


def _info(transcriber: Transcriber) -> Info:
    attribution = Attribution(name="Cepstra", url="")
    number = version("cepstra")
    model = AsrModel(
        name=transcriber.model,
        attribution=attribution,
        installed=True,
        description=f"Spoken commands ({transcriber.language})",
        version=number,
        languages=[transcriber.language],
    )
    program = AsrProgram(
        name=PROGRAM,
        attribution=attribution,
        installed=True,
        description="Spoken commands to text, on this machine",
        version=number,
        models=[model],
    )
    return Info(asr=[program])
