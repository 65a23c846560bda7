"""The service's own page, and the pages' files: a closed list, read once."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter
from starlette.responses import Response

from asr.service.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

FOLDER: Final = Path(__file__).parent / "page"
PAGES: Final = {"/": "index.html", "/docs": "docs.html"}
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self)",
    "Cache-Control": "no-cache",  # kept, and asked about each time: a service of another version has other files
}


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str
    tag: str

    @classmethod
    def of(cls, path: Path) -> _File:
        content = path.read_bytes()
        return cls(content, TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"')

    def answer(self, request: Request) -> Response:
        """It, or that nothing has changed since the caller last had it."""
        headers = {**HEADERS, "ETag": self.tag}
        known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
        if known & {self.tag, "*"}:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def router() -> APIRouter:
    """GET /, /docs and /page/{file}, without a key: nothing in them is the owner's.

    Raises OSError where the installation lacks its page.
    """
    files = {path.name: _File.of(path) for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
    routes = APIRouter()

    def page(name: str) -> Callable[[Request], Awaitable[Response]]:
        file = files[name]

        async def answer(request: Request) -> Response:
            return file.answer(request)

        return answer

    async def part(request: Request) -> Response:
        name = request.path_params["file"]
        if name not in files or name in PAGES.values():
            raise NotFoundError("no such file of the page; it begins at /")
        return files[name].answer(request)

    for path, name in PAGES.items():
        routes.add_route(path, page(name), include_in_schema=False)
    routes.add_route("/page/{file}", part, include_in_schema=False)
    return routes
