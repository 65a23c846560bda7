"""What goes wrong between the page, the microphone and the service, and what its policy forbids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Route

    from tests.asr.service.page.conftest import Watched

SPOKEN = Path(__file__).resolve().parents[4] / "data_manifests" / "samples" / "computer_speed_up.wav"
DONE = ".result[data-state='done']"


def test_a_microphone_that_is_not_to_be_had(watched: Watched) -> None:
    page = watched.open()
    for name, words in (
        ("NotAllowedError", "not allowed"),
        ("NotFoundError", "no microphone"),
        ("Odd", "can't be used"),
    ):
        page.evaluate(
            "(name) => { navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('', name)); }",
            name,
        )
        page.click("#record")
        expect(page.locator("#status")).to_contain_text(words)
        expect(page.locator("#record")).to_have_text("Record")


def _refusal(route: Route, status: int, message: str, **headers: str) -> None:
    error = {"message": message, "type": "server_error", "param": None, "code": "some_code"}
    route.fulfill(status=status, json={"error": error}, headers=headers)


def test_a_busy_service_is_asked_again(watched: Watched) -> None:
    watched.refused += [503]
    page = watched.open()
    asked: list[int] = []

    def busy_once(route: Route) -> None:
        asked.append(1)
        if len(asked) > 1:
            route.continue_()
        else:
            _refusal(route, 503, "too many wait", **{"Retry-After": "2"})

    page.route("**/v1/audio/transcriptions", busy_once)
    page.set_input_files("#files", SPOKEN)
    expect(page.locator(".head .title")).to_have_text("Busy; tries again in 2 s…")
    expect(page.locator(DONE)).to_be_visible()
    assert len(asked) == 2


def test_other_refusals_are_shown_as_the_service_says_them(watched: Watched) -> None:
    watched.refused += [413]
    page = watched.open()
    page.route("**/v1/audio/transcriptions", lambda route: _refusal(route, 413, "<i>just</i> no"))
    page.set_input_files("#files", SPOKEN)
    expect(page.locator(".fault")).to_have_text("<i>just</i> no")


def test_a_refusal_that_is_no_json_and_a_service_that_is_gone(watched: Watched) -> None:
    watched.refused += [413]
    page = watched.open()
    page.route("**/v1/audio/transcriptions", lambda route: route.fulfill(status=413, body="<html>nginx</html>"))
    page.set_input_files("#files", SPOKEN)
    expect(page.locator(".fault")).to_have_text("The service takes no file as large as this.")
    page.route("**/v1/audio/transcriptions", lambda route: route.abort())
    page.get_by_role("button", name="Listen again").click()
    expect(page.locator(".fault")).to_contain_text("can't be reached")
    assert watched.faults.pop() == "error: Failed to load resource: net::ERR_FAILED"


def test_a_key_is_asked_for_kept_and_sent(watched: Watched) -> None:
    page = watched.open()
    sent: list[str | None] = []

    def guarded(route: Route) -> None:
        sent.append(route.request.headers.get("authorization"))
        if sent[-1] == "Bearer right":
            route.continue_()
        else:
            _refusal(route, 401, "no valid API key")

    page.route("**/v1/**", guarded)
    watched.refused += [401, 401]
    page.goto(watched.base, wait_until="commit")
    key = page.get_by_label("Key", exact=True)
    key.fill("wrong")
    watched.refused += [401, 401]  # both the models and the phrase sets are asked for
    key.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("no valid API key")
    page.get_by_label("Key", exact=True).fill("right")
    page.get_by_role("button", name="Go on").click()
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate("() => sessionStorage.getItem('cepstra.key')") == "right"
    page.set_input_files("#files", SPOKEN)
    expect(page.locator(DONE)).to_be_visible()
    assert sent[:2] == [None, None]
    assert sent.count("Bearer wrong") == 2
    assert sent[-1] == "Bearer right"


def test_the_policy_holds(watched: Watched) -> None:
    """Code in an attribute, an inline style and another origin: none of them works, and this is noticed."""
    page = watched.open()
    page.evaluate(
        """async () => {
            const node = document.createElement("img");
            node.setAttribute("onerror", "window.broken = true");
            node.setAttribute("style", "color: red");
            node.src = "/page/none.png";
            document.body.append(node);
            await new Promise((done) => node.addEventListener("error", done));
            await fetch("http://localhost:9/").catch(() => {});
        }"""
    )
    assert page.evaluate("() => window.broken") is None
    page.wait_for_timeout(100)
    blocked = [fault for fault in watched.faults if fault.startswith("error: policy: ")]
    assert [fault.removeprefix("error: policy: ") for fault in blocked] == ["inline", "inline", "http://localhost:9/"]
    watched.faults.clear()
