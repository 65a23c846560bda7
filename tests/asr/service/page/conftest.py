"""The service and a Chromium that looks at its page, and minds whatever goes wrong in it."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from playwright.sync_api import sync_playwright

from asr.service.app import create_app
from asr.service.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

SAMPLES = Path(__file__).resolve().parents[4] / "data_manifests" / "samples"
SPOKEN = SAMPLES / "computer_speed_up.wav"  # what the microphone hears
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.blockedURI}`));
"""


class Watched:
    """Pages of one service. `faults` is what a test has to explain, or fails by."""

    def __init__(self, browser: Browser, base: str) -> None:
        self.base = base
        self.faults: list[str] = []
        self.refused: list[int] = []  # statuses that a test expects, in any order
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def open(self, path: str = "/", script: str = "", **options: Any) -> Page:
        """A page in a session of its own. script: runs before those of the page. options: of the context."""
        context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(15_000)
        self._contexts.append(context)
        page = context.new_page()
        page.add_init_script(VIOLATIONS + script)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._request)
        page.goto(self.base + path)
        page.wait_for_selector("body[data-ready]")
        return page

    def _console(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        for status in self.refused:
            if f"responded with a status of {status}" in message.text:
                self.refused.remove(status)
                return
        self.faults.append(f"{message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.base + "/", "blob:", "data:")):
            self.faults.append(f"asked of another origin: {request.url}")

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """Where the service answers, with the model that ships."""
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(load(None, {"workers": 1, "beam": 4})), port=0, log_config=None, ws="websockets-sansio"
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def sets(service: str) -> Iterator[httpx.Client]:
    """The service's phrase sets, of which none are left behind."""
    with httpx.Client(base_url=service) as client:
        yield client
        for each in client.get("/v1/phrases").json()["phrases"]:
            client.delete(f"/v1/phrases/{each['name']}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium whose microphone hears SPOKEN from the start of each recording, and silence after it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    arguments = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={SPOKEN}%noloop",
    ]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def watched(browser: Browser, service: str) -> Iterator[Watched]:
    """watched.open(): the page; its console, its requests and its policy must have had nothing to complain about."""
    pages = Watched(browser, service)
    yield pages
    pages.close()
    assert pages.faults == []
    assert pages.refused == [], "expected of the service, and never came"
