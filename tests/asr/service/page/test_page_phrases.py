"""Phrase sets and the API's page, in use."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.asr.service.page.conftest import Watched

SAMPLES = Path(__file__).resolve().parents[4] / "data_manifests" / "samples"
FASTER = "faster: computer speed up\n"
PHRASES = """lists:
  machine: [computer, drone]
intents:
  faster: "{machine} speed up"
  slower: "{machine} slow down"
"""


def _chosen(page: Page) -> str:
    return page.locator("#listen-for").input_value()


def test_a_set_is_made_tried_broken_mended_and_deleted(watched: Watched, sets: httpx.Client) -> None:
    watched.refused += [422]
    page = watched.open()
    # Made
    page.get_by_role("button", name="New set").click()
    page.get_by_label("Name").fill("machines")
    page.get_by_label("Sentences").fill(PHRASES)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#status")).to_contain_text("Saved “machines”: 4 sentences")
    assert sets.get("/v1/phrases/machines").json()["text"] == PHRASES
    assert _chosen(page) == "machines"
    said = page.locator(".samples li").all_text_contents()
    assert set(said) == {f"{machine} {what}" for machine in ("computer", "drone") for what in ("speed up", "slow down")}
    # Tried
    page.set_input_files("#files", SAMPLES / "computer_speed_up.wav")
    expect(page.locator(".intent")).to_have_text("faster")
    expect(page.locator(".slots")).to_have_text("machinecomputer")
    percent = int((page.locator(".command .sure .number").text_content() or "").removesuffix(" %"))
    width = page.evaluate("() => document.querySelector('.command .sure .fill').style.width")
    assert 0 < percent <= 100
    assert float(width.removesuffix("%")) == pytest.approx(percent, abs=0.6)
    assert "computer speed up" not in page.locator(".others").all_text_contents()
    # Broken
    page.get_by_role("button", name="Edit").click()
    box = page.get_by_label("Sentences")
    box.fill(PHRASES.replace("{machine} slow", "{machin} slow"))
    page.get_by_role("button", name="Save").click()
    fault = page.locator(".fault-box")
    expect(fault).to_contain_text("Line 5, column 12")
    expect(fault).to_contain_text("did you mean 'machine'?")
    excerpt, caret = (page.locator(".fault-box pre").text_content() or "").split("\n")
    assert excerpt[caret.index("^") :].startswith("{machin}")
    expect(box).to_be_focused()
    place = page.evaluate("() => document.querySelector('#set-text').selectionStart")
    assert box.input_value()[place:].startswith("{machin}")
    assert sets.get("/v1/phrases/machines").json()["text"] == PHRASES
    # Mended
    box.fill(FASTER)
    expect(fault).to_be_empty()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#status")).to_contain_text("1 sentence.")
    assert sets.get("/v1/phrases/machines").json()["text"] == FASTER
    # Deleted, on second thoughts
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Keep it").click()
    assert len(sets.get("/v1/phrases").json()["phrases"]) == 1
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#status")).to_have_text("Deleted “machines”.")
    assert sets.get("/v1/phrases").json()["phrases"] == []
    assert _chosen(page) == ""


def test_starters_are_offered_where_there_is_none_and_are_good(watched: Watched, sets: httpx.Client) -> None:
    page = watched.open()
    page.get_by_role("button", name="Lights of a house").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".samples li").first).to_be_visible()
    page.get_by_label("Listen for").select_option("")
    expect(page.locator("#phrase-set")).to_contain_text("Choose a phrase set above")
    assert page.get_by_role("button", name="Lights of a house").count() == 0
    sets.delete("/v1/phrases/lights")
    page.reload()
    page.get_by_role("button", name="Yes, no").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".samples li").first).to_be_visible()
    assert [each["name"] for each in sets.get("/v1/phrases").json()["phrases"]] == ["answers"]


def test_names_are_checked_and_no_set_is_replaced_unasked(watched: Watched, sets: httpx.Client) -> None:
    sets.put("/v1/phrases/taken", content="yes\n")
    page = watched.open()
    page.get_by_role("button", name="New set").click()
    page.get_by_label("Sentences").fill("no\n")
    name = page.get_by_label("Name")
    for wrong in ("", "Lights", "-a", "a b", "../a"):
        name.fill(wrong)
        page.get_by_role("button", name="Save").click()
        assert not page.evaluate("() => document.querySelector('#set-name').validity.valid")
    name.fill("taken")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".fault-box")).to_contain_text("There is a set “taken” already")
    assert [each["name"] for each in sets.get("/v1/phrases").json()["phrases"]] == ["taken"]
    assert sets.get("/v1/phrases/taken").json()["text"] == "yes\n"


def test_changes_are_not_lost_unasked(watched: Watched, sets: httpx.Client) -> None:
    sets.put("/v1/phrases/answers", content="yes\n")
    page = watched.open()
    page.get_by_label("Listen for").select_option("answers")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Sentences").fill("no\n")
    page.get_by_label("Listen for").select_option("")
    page.get_by_role("button", name="Go on editing").click()
    expect(page.get_by_label("Sentences")).to_have_value("no\n")
    assert _chosen(page) == "answers"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Don't save").click()
    expect(page.locator(".samples")).to_have_text("yes")


def test_sets_of_the_service_itself_are_only_copied(watched: Watched) -> None:
    def fixed(route: Route) -> None:
        one = {"name": "own", "sentences": 10**30, "intents": ["a"], "words": 1, "fixed": True}
        if route.request.url.endswith("/own"):
            one |= {"text": "yes", "samples": ["<b>yes</b>"]}
        else:
            one = {"phrases": [one]}
        route.fulfill(body=json.dumps(one), content_type="application/json")

    page = watched.open("/docs")
    page.route(re.compile("/v1/phrases"), fixed)
    page.goto(watched.base)
    page.get_by_label("Listen for").select_option("own")
    expect(page.locator("#phrase-set")).to_contain_text("1 \N{MULTIPLICATION SIGN} 10³⁰ sentences, 1 intent")
    expect(page.locator(".samples")).to_have_text("<b>yes</b>")
    assert page.get_by_role("button", name="Delete").count() == 0
    page.get_by_role("button", name="Edit a copy").click()
    expect(page.get_by_label("Sentences")).to_have_value("yes")
    expect(page.get_by_label("Name")).to_have_value("")


def test_why_there_is_no_command_is_said_in_plain_words(watched: Watched, sets: httpx.Client) -> None:
    sets.put("/v1/phrases/answers", content="yes\nno\n")
    page = watched.open()
    page.get_by_label("Listen for").select_option("answers")
    other = {"intent": "yes", "slots": {}, "sentence": "yes", "confidence": 0.25}
    answer = {"text": "", "duration": 1.0, "confidence": 0.25, "words": [], "command": None}
    reasons = {"no-speech": "Nobody spoke", "unknown-command": "No command of this set", "too-short": "Too short"}
    for rejected, words in reasons.items():
        others = [other] if rejected == "unknown-command" else []
        said = answer | {"rejected": rejected, "alternatives": others}
        page.unroute_all()
        page.route("**/v1/commands", lambda route, *, said=said: route.fulfill(json=said))
        page.set_input_files("#files", SAMPLES / "turn_the_speaker_down.wav")
        expect(page.locator(".result:first-child .intent")).to_contain_text(words)
        assert page.locator(".result:first-child .others .number").all_text_contents() == ["25 %"] * len(others)


def test_the_other_commands_of_a_long_recording_are_listed(watched: Watched, sets: httpx.Client) -> None:
    sets.put("/v1/phrases/answers", content="yes\nno\n")
    page = watched.open()
    page.get_by_label("Listen for").select_option("answers")
    first: dict[str, Any]
    other: dict[str, Any]
    first, other = ({"intent": name, "slots": {}, "sentence": name} for name in ("yes", "no"))
    sure = {"confidence": 0.75, "start": 1.0, "end": 2.0}
    said = {"text": "yes no", "duration": 12.0, "confidence": 0.75, "words": [], "command": first, "rejected": None}
    said |= {"alternatives": [first | sure], "commands": [first | sure, other | sure]}
    page.route("**/v1/commands", lambda route: route.fulfill(json=said))
    page.set_input_files("#files", SAMPLES / "turn_the_speaker_down.wav")
    expect(page.locator(".result:first-child .intent")).to_have_text("yes")
    assert page.locator(".result:first-child .later .sentence").all_text_contents() == ["nono"]  # and what it means


def test_the_apis_page_shows_every_route_with_a_line_for_curl(watched: Watched) -> None:
    page = watched.open("/docs")
    api = httpx.get(watched.base + "/openapi.json").json()
    routes = {
        f"{method.upper()} {path}" for path, item in api["paths"].items() for method in item if method != "parameters"
    }
    assert len(routes) >= 7
    cards = page.locator(".route:has(pre)")
    assert {re.sub("^([A-Z]+)", r"\1 ", text) for text in cards.locator("h3").all_text_contents()} == routes
    lines = {card.locator("h3").text_content(): card.locator("pre").text_content() or "" for card in cards.all()}
    assert all(line.startswith("curl") and watched.base in line for line in lines.values())
    upload = lines["POST/v1/audio/transcriptions"]
    assert "-F 'file=@lights.wav'" in upload
    assert "-X" not in upload
    assert "--data-binary @lights.yaml" in lines["PUT/v1/phrases/{name}"]
    assert "-X PUT" in lines["PUT/v1/phrases/{name}"]
    assert "-X DELETE" in lines["DELETE/v1/phrases/{name}"]


def test_what_schemas_say_is_shown(watched: Watched) -> None:
    page_schema = {
        "type": "object",
        "required": ["level"],
        "properties": {
            "level": {"type": "integer", "minimum": 0, "maximum": 9, "description": "How <b>loud</b>."},
            "words": {"type": "array", "items": {"$ref": "#/components/schemas/Word"}},
            "kind": {"enum": ["a", "b"], "default": "a"},
            "name": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Sent"}}}}
    api = {
        "info": {"title": "T", "version": "1"},
        "paths": {"/it's/{x}": {"post": {"requestBody": body, "responses": {"200": {"description": "Fine"}}}}},
        "components": {"schemas": {"Sent": page_schema, "Word": {"type": "object"}}},
    }
    page = watched.open()
    page.route("**/openapi.json", lambda route: route.fulfill(json=api))
    page.goto(watched.base + "/docs")
    expect(page.locator("#schema-Sent")).to_contain_text("levelrequiredintegerHow <b>loud</b>.at least 0; at most 9")
    expect(page.locator("#schema-Sent")).to_contain_text("list of Word")
    expect(page.locator("#schema-Sent")).to_contain_text('"a" or "b"')
    expect(page.locator("#schema-Sent")).to_contain_text("string or null")
    sent = """-H 'Content-Type: application/json' \\\n  -d '{"level":"LEVEL"}'"""
    expect(page.locator(".route pre").first).to_have_text(f"curl \\\n  '{watched.base}/it'\\''s/X' \\\n  {sent}")
