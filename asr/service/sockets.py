"""What the two kinds of WebSocket share: who is let in, how much may wait, and how a connection ends."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from starlette.websockets import WebSocketDisconnect

from asr.errors import GuidanceError
from asr.service.errors import BusyError, ServiceError, TooLargeError
from asr.service.refusals import described
from asr.writers import to_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.websockets import WebSocket

    from asr.errors import CepstraError
    from asr.service.notes import Notes

log = logging.getLogger("cepstra.service")

LARGEST_FRAME = 1 << 20  # bytes of sound in a message
LARGEST_TEXT = 1 << 16  # bytes of a text message
BACKLOG = 1 << 18  # bytes that wait to be worked off; beyond that the client's own socket has to hold them
OVERHEAD = 128  # bytes that a message counts for in any case
SEND_SECONDS = 30.0  # a client that reads nothing for so long is given up
CLOSE_SECONDS = 5.0
# RFC 6455's codes
NORMAL, IDLE, REFUSED, TOO_BIG, FAILED, TRY_LATER = 1000, 1001, 1008, 1009, 1011, 1013


class Closing(Exception):  # noqa: N818  no error: it is how a connection ends
    """The connection is to end, and how."""

    def __init__(self, code: int, reason: str, error: str | None = None) -> None:
        """error: the code of what is wrong, where something is."""
        super().__init__(reason)
        self.code, self.reason, self.error = code, reason, error


class Answer(Protocol):
    """Works off the messages of a connection, in order; the connection ends with it."""

    def __call__(
        self, messages: AsyncIterator[str | bytes], send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> Awaitable[None]:
        """messages: as they came, without end. send: one of JSON."""
        ...


def fault(error: CepstraError) -> dict[str, Any]:
    """As a message tells it: what is wrong, and with which field."""
    told: dict[str, Any] = described(error)[1]["error"]
    if not isinstance(error, ServiceError):  # the fields of a request over HTTP have other names
        told["param"] = "boost" if isinstance(error, GuidanceError) else None
    return told


def report(what: str, error: Exception) -> None:
    """Log a fault of ours; where it is only at the level of debugging, since without handlers that goes to stderr."""
    log.error("%s failed: %s", what, type(error).__name__)
    log.debug("%s failed", what, exc_info=error)


async def attend(websocket: WebSocket, answer: Answer, notes: Notes) -> None:
    """Let a client in, and have its messages answered until either side ends it.

    Of the app's state: `max_streams` and `stream_idle_seconds` bound how many there are at once, and how long one may
    send nothing; `streams` counts them.
    """
    offered = websocket.scope.get("subprotocols", [])
    # Browsers want one of theirs, and have no other place for a key
    chosen = next((each for each in offered if not each.startswith("key.")), offered[0] if offered else None)
    try:
        await websocket.accept(chosen)
    except (WebSocketDisconnect, ConnectionError, RuntimeError):  # it's gone already
        return
    state = websocket.app.state
    most = getattr(state, "max_streams", None)
    count = getattr(state, "streams", 0)
    if most is not None and count >= most:
        notes.refused(BusyError.code)
        await _close(websocket, TRY_LATER, f"{most} streams are open, no more may be; try again later")
        return
    state.streams = count + 1
    try:
        await _attend(websocket, answer, getattr(state, "stream_idle_seconds", None), notes)
    finally:
        state.streams -= 1


async def _attend(websocket: WebSocket, answer: Answer, idle: float | None, notes: Notes) -> None:
    backlog = _Backlog()

    async def send(message: dict[str, Any]) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await websocket.send_text(to_json(message))

    async def work() -> None:
        await answer(backlog.messages(), send)

    tasks = [asyncio.create_task(_receive(websocket, backlog, idle)), asyncio.create_task(work())]
    code, reason = NORMAL, ""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    except Closing as closing:
        code, reason = closing.code, closing.reason
        if closing.error is not None:
            notes.refused(closing.error)
    except (WebSocketDisconnect, ConnectionError, TimeoutError):
        return
    except Exception as error:  # noqa: BLE001  whatever it is, it ends one client only
        report("a stream", error)
        notes.refused(ServiceError.code)
        code, reason = FAILED, "the service failed; connect again"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _close(websocket, code, reason)


async def _receive(websocket: WebSocket, backlog: _Backlog, idle: float | None) -> None:
    while True:
        try:
            async with asyncio.timeout(idle):
                event = await websocket.receive()
        except TimeoutError:
            raise Closing(IDLE, f"nothing came for {idle:g} s; connect again") from None
        if event["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(event.get("code", NORMAL))
        data, text = event.get("bytes"), event.get("text")
        if data is not None and len(data) > LARGEST_FRAME:
            reason = f"more than {LARGEST_FRAME >> 10} KiB of sound in a message; send smaller ones"
            raise Closing(TOO_BIG, reason, TooLargeError.code)
        if text is not None and len(text.encode()) > LARGEST_TEXT:
            reason = f"a text message of more than {LARGEST_TEXT >> 10} KiB; send a smaller one"
            raise Closing(TOO_BIG, reason, TooLargeError.code)
        await backlog.put(data if data is not None else text or "")


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    with suppress(RuntimeError, ConnectionError, TimeoutError, WebSocketDisconnect):  # it's closed
        async with asyncio.timeout(CLOSE_SECONDS):
            await websocket.close(code, reason.encode()[:123].decode(errors="ignore"))


class _Backlog:
    """Messages that have come and wait, in order; a bounded number of bytes."""

    def __init__(self) -> None:
        self._waiting: deque[str | bytes] = deque()
        self._size = 0
        self._changed = asyncio.Condition()

    async def put(self, message: str | bytes) -> None:
        """Wait until there is room for it, or none before it."""
        size = len(message) + OVERHEAD
        async with self._changed:
            await self._changed.wait_for(lambda: not self._waiting or self._size + size <= BACKLOG)
            self._waiting.append(message)
            self._size += size
            self._changed.notify_all()

    async def messages(self) -> AsyncIterator[str | bytes]:
        """One after the other, without end."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._waiting))
                message = self._waiting.popleft()
                self._size -= len(message) + OVERHEAD
                self._changed.notify_all()
            yield message
