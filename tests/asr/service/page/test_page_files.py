"""The page's files, as they are served."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from asr.service.page_routes import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

FILES = sorted(path for path in FOLDER.iterdir() if path.is_file())
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data: blob:",
    "media-src": "'self' blob:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


@pytest.fixture(scope="module")
def client(service: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service) as opened:
        yield opened


def _paths() -> list[str]:
    return ["/", "/docs", *(f"/page/{path.name}" for path in FILES if path.suffix != ".html")]


@pytest.mark.parametrize("path", _paths())
def test_every_file_comes_with_its_type_and_the_policy(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    name = {"/": "index.html", "/docs": "docs.html"}.get(path, path.rpartition("/")[2])
    assert answer.content == (FOLDER / name).read_bytes()
    kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    assert answer.headers["content-type"].partition(";")[0] == kinds[name.rpartition(".")[2]]
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["permissions-policy"] == "microphone=(self)"


@pytest.mark.parametrize("path", ["/", "/page/app.js"])
def test_a_file_that_is_known_is_not_sent_again(client: httpx.Client, path: str) -> None:
    tag = client.get(path).headers["etag"]
    for known in (tag, f'"another", W/{tag}', "*"):
        again = client.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert client.get(path, headers={"If-None-Match": '"another"'}).status_code == 200
    head = client.head(path)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)


@pytest.mark.parametrize(
    "name", ["none.js", "index.html", "..%2f__init__.py", "%2e%2e%2fpage_routes.py", "app.js%00", "a/b", ""]
)
def test_nothing_else_is_served(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/page/{name}")
    assert answer.status_code == 404
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_taken_from_elsewhere_or_written_as_markup(path: object) -> None:
    text = (FOLDER / str(path)).read_text(encoding="utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", text)) - {"http://www.w3.org/2000/svg"}
    assert not addresses
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    if str(path).endswith(".html"):
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


@pytest.mark.usefixtures("sets")
def test_the_pictures_of_the_documentation_can_be_taken_anew(browser: Browser, service: str, tmp_path: Path) -> None:
    program = runpy.run_path(str(Path(__file__).with_name("pictures.py")))
    program["take"](browser, service + "/", tmp_path)
    taken = {path.name for path in tmp_path.iterdir()}
    page = (program["ROOT"] / "docs" / "page.md").read_text(encoding="utf-8")
    assert taken == set(re.findall(r"page[\w-]*\.png", page))
    for name in taken:
        assert 20_000 < (tmp_path / name).stat().st_size < 300_000
        assert (program["ROOT"] / "docs" / name).stat().st_size < 300_000


def _colours(scheme: str) -> dict[str, str]:
    text = (FOLDER / "style.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\n\s*\}", text, re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))


def _luminance(colour: str) -> float:
    """WCAG 2's relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("above", "below", "least"),
    [
        *((ink, ground, 4.5) for ink in ("ink", "quiet", "accent", "bad") for ground in ("ground", "card")),
        *((ink, "tint", 4.5) for ink in ("ink", "quiet", "accent")),
        ("on-accent", "accent", 4.5),
        ("card", "bad", 4.5),
        ("bad", "bad-tint", 4.5),
        ("edge", "card", 3),
        ("edge", "ground", 3),
        ("accent", "line", 3),
    ],
)
def test_contrast_is_that_of_wcag_aa(scheme: str, above: str, below: str, least: float) -> None:
    """4.5 for text, 3 for the borders of controls and for bars."""
    colours = _colours(scheme)
    lighter, darker = sorted((_luminance(colours[above]), _luminance(colours[below])), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= least
