"""Before any route: who is asking, by which name, and what is written down about it."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
import uuid
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from asr.service import logs
from asr.service.errors import STOPPING, BusyError, ForbiddenError, KeyRefusedError, RequestError
from asr.service.refusals import described
from asr.service.settings import LOOPBACK

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from asr.service.metrics import Metrics
    from asr.service.settings import Settings

OPEN = ("/health", "/docs", "/openapi.json")  # no key opens these, since they tell nothing
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_log = logging.getLogger("cepstra.access")


class Gate:
    """ASGI: request ids, hosts and origins, keys, one line of log for each request, and the last word on errors."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one WebSocket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        logs.request_id.set(request_id)
        scope.setdefault("state", {})
        began, status, started = time.monotonic(), 0, False

        async def answering(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                started, status = True, message["status"]
                out = MutableHeaders(scope=message)
                out["X-Request-ID"] = request_id
                out.setdefault("X-Content-Type-Options", "nosniff")
            await send(message)

        key = ""
        try:
            self._check_host(headers)
            key = self._check_key(scope, headers)
            if scope["type"] == "http":
                await self._with_room(scope, receive, answering)
            else:
                status = 101
                await self._app(scope, receive, send)
        except ClientDisconnect:
            status = 499  # as nginx calls a client that is gone
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  a client gets an answer and no traceback
            if isinstance(error, asyncio.CancelledError):  # by the server, which doesn't wait any longer
                error = BusyError(STOPPING, retry_after=1)
            code, content, more = described(error)
            status = code
            scope["state"]["code"] = content["error"]["code"]
            if scope["type"] == "websocket":
                # Before it is accepted this is answered with 403
                await send({"type": "websocket.close", "code": 1008, "reason": content["error"]["message"][:120]})
            elif not started:
                await JSONResponse(content, code, more)(scope, receive, answering)
        self._write(scope, status, time.monotonic() - began, key)

    async def _with_room(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("POST", "PUT"):
            if self._open >= self._settings.max_uploads:
                self._metrics.refused.labels("uploads").inc()
                raise BusyError("too many requests at once; try again later", retry_after=1)
            self._open += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._open -= 1
        else:
            await self._app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        """A page of somebody else's may make a browser ask us by another name, or open a WebSocket."""
        if len(headers.getlist("host")) > 1:
            raise RequestError("more than one Host header; send one")
        host = _name(headers.get("host", ""))
        allowed = self._settings.allowed_hosts or (LOOPBACK if self._settings.is_local else ())
        if allowed and host not in {name.lower() for name in (*allowed, self._settings.host)}:
            raise ForbiddenError(f"host {host[:60]!r} is not among allowed_hosts")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
            raise ForbiddenError("a page of another site may not use this service")

    def _check_key(self, scope: Scope, headers: Headers) -> str:
        """The name of the key. Raises KeyRefusedError, ForbiddenError."""
        keys, path = self._settings.api_keys, scope["path"]
        if not keys or path in OPEN or path == "/" or path.startswith("/page/"):
            return ""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = ""
        for protocol in scope.get("subprotocols", []):  # browsers can send nothing else with a WebSocket
            if protocol.startswith("key."):
                given = protocol.removeprefix("key.")
        # Each is compared, however many match: the time tells nothing
        found = [key for key in keys if hmac.compare_digest(key.key.get_secret_value().encode(), given.encode())]
        if not found:
            raise KeyRefusedError("no valid API key; send the header Authorization: Bearer KEY")
        opening = [key for key in found if any(_opens(route, path) for route in key.routes)]
        if not opening:
            raise ForbiddenError(f"this key doesn't open {path[:100]}")
        return opening[0].name

    def _write(self, scope: Scope, status: int, seconds: float, key: str) -> None:
        route: Any = scope.get("route")
        path = getattr(route, "path", "page" if scope["path"].startswith("/page/") else "other")
        self._metrics.requests.labels(path, str(status)).inc()
        self._metrics.stages.labels("request").observe(seconds)
        code = scope["state"].get("code", "")
        if status >= 400 and status != 499:
            self._metrics.errors.labels(code or str(status)).inc()
        fields = {
            "method": scope.get("method", "WS"),
            "path": path if route is not None else scope["path"][:200],
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        _log.info("answered", extra=fields | {name: value for name, value in (("code", code), ("key", key)) if value})


def _name(host: str) -> str:
    """A Host header without its port: "[::1]:80" -> "::1"."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


def _opens(route: str, path: str) -> bool:
    """Whole parts of a path: /v1/commands opens /v1/commands and what is below, not /v1/commandsother."""
    return path == route or path.startswith(route.rstrip("/") + "/")
