"""HTTP as uvicorn speaks it, with a limit to the time that a client may take where no route looks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from asr.service.refusals import body

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


HEAD_BYTES = 1 << 16  # of a request's first line and headers
PROBE_SECONDS = 1.0  # between questions whether a client that sends no more still listens


class _Lingering:
    """A transport that ends after what a client is still sending: closed at once, it would take the answer along."""

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        self._transport, self._cycle = transport, cycle

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  as the transport's
        return getattr(self._transport, name)

    def close(self) -> None:
        """At once where the request has come in whole; otherwise say that nothing more will be answered."""
        if self._cycle.more_body and not self._transport.is_closing():
            self._transport.write_eof()
        else:
            self._transport.close()


class Protocol(HttpToolsProtocol):
    """A request's headers, and what still comes of a request that was answered, have so many seconds.

    uvicorn waits for both for ever, so that a few thousand silent connections would use up all descriptors. A body that
    somebody reads is that one's matter.
    """

    seconds = 15.0
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Its first headers are waited for."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is."""
        self._relax()
        if self._probe is not None:
            self._probe.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends no more: it still gets the answer to what it has sent whole."""
        cycle = self.cycle
        self._sends_no_more = cycle is not None and not cycle.more_body and not cycle.response_complete
        if self._sends_no_more and self._probe is None:
            self._probe = self.loop.call_later(PROBE_SECONDS, self._ask_for_life)
        return self._sends_no_more

    def on_message_begin(self) -> None:
        """The first byte of a request, which may be the second one of its connection."""
        if self.transport.is_closing():
            raise ValueError  # the parser stops: nothing more is answered
        super().on_message_begin()
        self._heading, self._head, self._unread = True, 0, 0
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Raises nothing: what is too long is refused, whether it ends or not."""
        self._unread += len(data) if self._heading else 0
        super().data_received(data)
        if self._heading and self._unread > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def on_url(self, url: bytes) -> None:
        """A part of it."""
        self._measure(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A whole one."""
        self._measure(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """What follows is for a route."""
        self._heading = False
        self._relax()
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not None and self.cycle is not before:
            self.cycle.transport = _Lingering(self.transport, self.cycle)  # type: ignore[assignment]

    def on_message_complete(self) -> None:
        """Nothing more is waited for."""
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self.cycle.more_body = False
            self._relax()
            if not self.cycle.keep_alive:
                self.transport.close()

    def on_response_complete(self) -> None:
        """What was refused in the middle of its body is read on for a while, or the client wouldn't see the answer."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            if self._sends_no_more:
                self.transport.close()
            elif self.cycle.more_body:
                self._expect()

    def handle_websocket_upgrade(self) -> None:
        """Another protocol has the connection."""
        self._relax()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """In the shape of every other error; where the last answer has been given, none."""
        if self.transport.is_closing():
            return
        content = json.dumps(body("this is no HTTP request that can be understood", 400, "invalid_request")).encode()
        self._relax()
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(content), content)
        )
        self.transport.close()
        del msg

    def _ask_for_life(self) -> None:
        """One that is gone has said as little as one that waits, but answers by a reset, and its work is dropped."""
        if self.transport.is_closing():
            return
        begun = self.cycle.response_started or self.pipeline  # then the answer asks, or belongs to an earlier request
        if not begun and self.scope["http_version"] == "1.1":  # older ones know no interim answer
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._probe = self.loop.call_later(PROBE_SECONDS, self._ask_for_life)

    _sends_no_more = False
    _probe: asyncio.TimerHandle | None = None
    _heading = True
    _head = _unread = 0  # bytes of headers that are known, and of data that may be headers

    def _measure(self, size: int) -> None:
        self._head += size
        if self._head > HEAD_BYTES:
            raise ValueError  # the parser stops, and the client is told

    def _expect(self) -> None:
        self._relax()
        self._limit = self.loop.call_later(self.seconds, self._give_up)

    def _relax(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


def protocol(seconds: float) -> type[Protocol]:
    """With this limit."""
    return type("Protocol", (Protocol,), {"seconds": seconds})
