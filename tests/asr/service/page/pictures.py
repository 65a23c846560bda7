"""Takes the pictures of docs/page.md: `python tests/asr/service/page/pictures.py`, with Chromium installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[4]
SAMPLES = ROOT / "data_manifests" / "samples"
PHRASES = """lists:
  machine: [computer, speaker, microwave]
intents:
  faster: "[please] {machine} speed up"
  turn_down: "turn the {machine} down"
  turn_off: "[please] turn off the {machine}"
"""


@contextmanager
def _service() -> Iterator[str]:
    """Where it answers."""
    command = [sys.executable, "-m", "asr", "serve", "--port", "0", "--beam", "4"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as serving:
        try:
            for line in serving.stderr or ():
                if found := re.search(r"listening at (http\S+/)", line):
                    yield found[1]
                    break
        finally:
            serving.terminate()


def _opened(browser: Browser, url: str, **options: Any) -> Page:
    page = browser.new_page(**options)
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    return page


def _heard(page: Page, name: str) -> None:
    page.set_input_files("#files", SAMPLES / f"{name}.wav")
    page.wait_for_selector(".result:first-child[data-state='done']")


def take(browser: Browser, url: str, folder: Path) -> None:
    """page.png, page-command.png, page-phone.png and page-api.png."""
    page = _opened(browser, url, viewport={"width": 1120, "height": 980}, reduced_motion="reduce")
    page.click("#new-set")
    page.fill("#set-name", "machines")
    page.fill("#set-text", PHRASES)
    page.click(".editor .primary")
    page.wait_for_selector(".samples")
    _heard(page, "turn_the_speaker_down")
    page.screenshot(path=folder / "page-command.png")
    page.select_option("#listen-for", "")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    _heard(page, "please_save_the_file")
    _heard(page, "set_a_timer_for_seven_hours_and_forty_nine_minutes")
    page.mouse.move(0, 0)
    page.screenshot(path=folder / "page.png")
    phone = _opened(
        browser, url, viewport={"width": 360, "height": 780}, device_scale_factor=2, has_touch=True, is_mobile=True,
        color_scheme="dark", reduced_motion="reduce",
    )  # fmt: skip
    _heard(phone, "five_five_two_eight_five")
    phone.screenshot(path=folder / "page-phone.png")
    api = _opened(browser, url + "docs", viewport={"width": 1120, "height": 860})
    api.screenshot(path=folder / "page-api.png")
    for opened in (page, phone, api):
        opened.close()


def main() -> None:
    """Into docs, or the folder that is given."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with _service() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        take(browser, url, folder)
        browser.close()


if __name__ == "__main__":
    main()
