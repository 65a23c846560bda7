"""The server: one process that listens, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import uvicorn

from asr.errors import CepstraError
from asr.service import logs
from asr.service.app import create_app
from asr.service.protocol import protocol
from asr.service.socket_protocol import socket_protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from asr.service.pool import Pool
    from asr.service.settings import Settings
    from asr.service.state import State

_log = logging.getLogger("cepstra.service")
BACKLOG = 128  # asyncio tries as often to accept in one go, and says so each time that it fails
LAST_WORDS = 1.0  # seconds to say that the service is stopping, where somebody doesn't want to wait
_ENDS = (signal.SIGINT, signal.SIGTERM)


def serve(settings: Settings) -> None:
    """Until SIGINT or SIGTERM. Raises CepstraError where it can't start."""
    logs.install()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which would end it, as long as there is no loop to handle it
    with _listening(settings) as listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        _log.info("settings", extra={"settings": settings.shown()})
        if not settings.is_local and not settings.api_keys:
            _log.warning("open to whoever can reach it: set api_keys, or listen at 127.0.0.1")
        with suppress(asyncio.CancelledError):  # ended before it had started
            asyncio.run(_serve(settings, listener, f"http://{shown}:{port}/"))


def _listening(settings: Settings) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        address = socket.getaddrinfo(settings.host, settings.port, family, socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[4][:2], family=address[0], backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) and not isinstance(error, socket.gaierror) else None
        reason = os.strerror(number) if number else "no such address"
        raise CepstraError(
            f"{settings.host}:{settings.port}: can't be listened at ({reason.lower()}); choose another --host or --port"
        ) from None
    # Connections inherit it. Without it an answer's body waits 40 ms for the client to acknowledge its headers
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _Server(uvicorn.Server):
    """Has the pool refuse what is new as soon as it stops listening; leaves signals to us."""

    def __init__(self, config: uvicorn.Config, pool: Pool, seconds: float) -> None:
        super().__init__(config)
        self._pool, self._seconds = pool, seconds

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        # uvicorn's own raises the signal again when it returns, which would end the process before the workers
        return nullcontext()

    def drop(self) -> None:
        """Whoever is still connected."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _notify("STOPPING=1")
        _log.info("stopping", extra={"requests": self._pool.requests})
        stopping = asyncio.ensure_future(self._pool.stop(self._seconds))
        await super().shutdown(sockets)
        await stopping
        _log.info("stopped")


async def _serve(settings: Settings, listener: socket.socket, url: str) -> None:
    app = create_app(settings)
    config = uvicorn.Config(
        app, log_config=None, backlog=BACKLOG, access_log=False, lifespan="off", http=protocol(settings.idle_seconds),
        ws=socket_protocol(settings.idle_seconds), ws_max_size=1 << 20,
        ws_per_message_deflate=False,  # sound gains nothing, and a little of it could become any amount of memory
        server_header=False, timeout_keep_alive=30, timeout_graceful_shutdown=round(settings.stop_seconds) + 1,
    )  # fmt: skip
    signals = _Signals()
    # By ourselves rather than by uvicorn, which prints the traceback of a start that fails
    async with app.router.lifespan_context(app):
        state: State = app.state.service
        server = _Server(config, state.pool, settings.stop_seconds)
        signals.started(server, state.pool)
        sys.stderr.write(f"listening at {url} (model {state.pool.model}, {state.pool.workers} workers)\n")
        _notify("READY=1")
        _log.info("listening", extra={"url": url, "model": state.pool.model, "bundle": state.pool.digest})
        await server.serve([listener])


class _Signals:
    """SIGINT and SIGTERM end it, SIGHUP has it read the bundle again, from the first moment on."""

    def __init__(self) -> None:
        self._server: _Server | None = None
        self._pool: Pool | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._main = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in _ENDS:
            loop.add_signal_handler(number, self._on_end)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)

    def started(self, server: _Server, pool: Pool) -> None:
        """What signals are about from now on."""
        self._server, self._pool = server, pool

    def _on_end(self) -> None:
        if self._server is not None and self._pool is not None:
            if self._server.should_exit:  # asked for twice: somebody doesn't want to wait
                self._pool.hurry()
                asyncio.get_running_loop().call_later(LAST_WORDS, self._server.drop)
            self._server.should_exit = True
        elif self._main is not None:
            self._main.cancel()

    def _on_hangup(self) -> None:
        if self._pool is None or len(self._running) > 1:  # it is being read, or will be once more
            return
        task = asyncio.ensure_future(_reload(self._pool))
        self._running.add(task)
        task.add_done_callback(self._running.discard)


async def _reload(pool: Pool) -> None:
    try:
        await pool.reload()
    except CepstraError as error:
        _log.error("the bundle was not taken: %s", error)


def _notify(state: str) -> None:
    """Tell systemd, where it has started us (sd_notify)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)
