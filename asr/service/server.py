"""The server: one process that listens, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from asr.errors import CepstraError
from asr.service import logs
from asr.service.app import create_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.service.settings import Settings
    from asr.service.state import State

_log = logging.getLogger("cepstra.service")
BACKLOG = 2048


def serve(settings: Settings) -> None:
    """Until SIGINT or SIGTERM. Raises CepstraError where it can't start."""
    logs.install()
    with _listening(settings) as listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        _log.info("settings", extra={"settings": settings.shown()})
        if not settings.is_local and not settings.api_keys:
            _log.warning("open to whoever can reach it: set api_keys, or listen at 127.0.0.1")
        asyncio.run(_serve(settings, listener, f"http://{shown}:{port}/"))


def _listening(settings: Settings) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        address = socket.getaddrinfo(settings.host, settings.port, family, socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[4][:2], family=address[0], backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no such address"
        raise CepstraError(
            f"{settings.host}:{settings.port}: can't be listened at ({reason.lower()}); choose another --host or --port"
        ) from None
    # Connections inherit it. Without it an answer's body waits 40 ms for the client to acknowledge its headers
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, which raises the signal once more at the end: the workers would have no time to finish."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self.handle_exit, each, None)
        yield


async def _serve(settings: Settings, listener: socket.socket, url: str) -> None:
    app = create_app(settings)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", ws="websockets-sansio", ws_max_size=1 << 20,
        ws_per_message_deflate=False,  # sound gains nothing, and a little of it could become any amount of memory
        server_header=False, timeout_keep_alive=30, timeout_graceful_shutdown=round(settings.stop_seconds) + 1,
    )  # fmt: skip
    server = _Server(config)
    # By ourselves rather than by uvicorn, which prints the traceback of a start that fails
    async with app.router.lifespan_context(app):
        state: State = app.state.service
        _reloads(state)
        sys.stderr.write(f"listening at {url} (model {state.pool.model}, {state.pool.workers} workers)\n")
        await server.serve([listener])


def _reloads(state: State) -> None:
    """Read the bundle again at SIGHUP."""
    running: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        try:
            await state.pool.reload()
        except CepstraError as error:
            _log.error("the bundle was not taken: %s", error)

    def start() -> None:
        task = asyncio.ensure_future(reload())
        running.add(task)
        task.add_done_callback(running.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, start)
