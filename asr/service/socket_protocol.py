"""WebSockets as uvicorn speaks them, with limits to what a client can have it keep or do before a route sees it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from asr.service.refusals import body

if TYPE_CHECKING:
    import asyncio

    from websockets.frames import Frame

MOST_FRAGMENTS = 1024  # of a message: each takes memory, even an empty one
UNREAD_BYTES = 1 << 16  # of answers to pings, that a client leaves lying
TURN_BYTES = 1 << 14  # read at a time: they may be thousands of frames, and others wait meanwhile


class SocketProtocol(WebSocketsSansIOProtocol):
    """The handshake has so many seconds; one that can't be read is refused, which uvicorn leaves open for ever."""

    seconds = 15.0
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Its request is waited for."""
        super().connection_made(transport)
        self._limit = self.loop.call_later(self.seconds, self._give_up)
        if hasattr(transport, "max_size"):  # asyncio's own; another loop's has it or not
            transport.max_size = TURN_BYTES

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is."""
        self._relax()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A request, or frames."""
        super().data_received(data)
        if self.handshake_initiated:
            self._relax()
        elif self.conn.handshake_exc is not None and not self.transport.is_closing():
            content = body("this is no WebSocket request that can be understood", 400, "invalid_request")
            text = json.dumps(content).encode()
            self.transport.write(
                b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(text), text)
            )
            self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        """One part more of a message."""
        if len(self.frames) >= MOST_FRAGMENTS:
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer it, unless answers pile up."""
        if self.transport.get_write_buffer_size() > UNREAD_BYTES:
            self.transport.abort()
            return
        super().handle_ping()

    def _relax(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _give_up(self) -> None:
        if not self.handshake_initiated and not self.transport.is_closing():
            self.transport.abort()


def socket_protocol(seconds: float) -> type[SocketProtocol]:
    """With this limit."""
    return type("SocketProtocol", (SocketProtocol,), {"seconds": seconds})
