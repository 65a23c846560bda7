"""The page in use: a microphone, files, words to hear, keyboard and phone."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile as sf
from playwright.sync_api import expect

from asr.recognizer import Recognizer
from asr.service.page_routes import FOLDER

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from asr.results import Result
    from tests.asr.service.page.conftest import Watched

SAMPLES = Path(__file__).resolve().parents[4] / "data_manifests" / "samples"
SPOKEN = SAMPLES / "computer_speed_up.wav"
PLAYED = """
window.played = [];
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...given) { window.played.push(given); start.apply(this, given); };
"""
SEEN = """
window.seen = [];
new MutationObserver((changes) => {
    for (const { target } of changes) {
        if (target.matches(".cursor")) window.seen.push(["cursor", Number(target.dataset.time)]);
        if (target.matches(".word")) {
            window.seen.push([target.querySelector(".said").textContent, target.matches(".playing")]);
        }
    }
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["class", "data-time"] });
"""
SENT = """
const append = FormData.prototype.append;
FormData.prototype.append = function (name, value, ...more) {
    if (value instanceof Blob) window.sent = value;
    append.call(this, name, value, ...more);
};
"""
DONE = ".result[data-state='done']"


@pytest.fixture(scope="module")
def spoken() -> Result:
    """What is said in SPOKEN, without a page and a service."""
    return Recognizer(beam=4).transcribe(SPOKEN)


def _drop(page: Page, *files: tuple[str, bytes]) -> None:
    """As from a file manager."""
    given = [[name, base64.b64encode(data).decode()] for name, data in files]
    transfer = page.evaluate_handle(
        """(files) => {
            const transfer = new DataTransfer();
            for (const [name, data] of files) {
                const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
                transfer.items.add(new File([bytes], name));
            }
            return transfer;
        }""",
        given,
    )
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event("main", event, {"dataTransfer": transfer})


def _sent(page: Page) -> tuple[np.ndarray[Any, Any], sf.SoundFile]:
    """The samples of the last file that was sent, and the file."""
    address = page.evaluate(
        """() => new Promise((done) => {
            const reader = new FileReader();
            reader.onload = () => done(reader.result);
            reader.readAsDataURL(window.sent);
        })"""
    )
    file = sf.SoundFile(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    return file.read(), file


def test_what_the_microphone_hears_becomes_text(watched: Watched) -> None:
    page = watched.open(script=SENT)
    page.click("#record")
    expect(page.locator("#record")).to_have_text("Stop")
    page.wait_for_function("() => Number(document.querySelector('#level').getAttribute('aria-valuenow')) > -30")
    expect(page.locator("#time")).to_contain_text("0:02")
    wave = page.locator("#live-wave").evaluate(
        """(canvas) => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return data.filter(Boolean).length;
        }"""
    )
    assert wave > 1000
    page.click("#record")
    expect(page.locator(DONE)).to_be_visible()
    samples, file = _sent(page)
    assert (file.channels, file.subtype) == (1, "PCM_16")
    assert file.samplerate >= 16000
    assert 1.9 < len(samples) / file.samplerate < 15
    assert np.abs(samples).max() > 0.1
    words = page.locator(f"{DONE} .word .said")
    expect(words.first).to_be_visible()
    assert {"computer", "speed", "up"} & set(words.all_text_contents())
    expect(page.locator("#record")).to_have_text("Record")


def test_a_recording_ends_by_itself(watched: Watched) -> None:
    page = watched.open("/docs", script=SENT)  # of the same origin, before the script that is changed
    source = (FOLDER / "app.js").read_text(encoding="utf-8")
    assert "const LIMIT = 30;" in source
    changed = source.replace("const LIMIT = 30;", "const LIMIT = 1;")
    page.route("**/page/app.js", lambda route: route.fulfill(body=changed, content_type="text/javascript"))
    page.goto(watched.base)
    page.wait_for_selector("body[data-ready]")
    page.click("#record")
    expect(page.locator(DONE)).to_be_visible()
    samples, file = _sent(page)
    assert 1.0 <= len(samples) / file.samplerate < 8.0


def test_a_recording_can_be_thrown_away(watched: Watched) -> None:
    page = watched.open()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.click("#record")
    expect(page.locator("#record")).to_have_text("Stop")
    page.keyboard.press("Escape")
    expect(page.locator("#status")).to_have_text("The recording was thrown away.")
    assert not [url for url in asked if url.endswith("transcriptions")]
    assert page.locator(".result").count() == 0


def test_a_dropped_file_becomes_words_with_times_and_confidences(watched: Watched, spoken: Result) -> None:
    page = watched.open()
    _drop(page, (SPOKEN.name, SPOKEN.read_bytes()))
    expect(page.locator(f"{DONE} .word")).to_have_count(len(spoken.words))
    assert page.locator(".word .said").all_text_contents() == [word.word for word in spoken.words]
    for shown, word in zip(page.locator(".word .facts").all_text_contents(), spoken.words, strict=True):
        start, end, percent = (float(number) for number in re.findall(r"[\d.]+", shown))
        assert (start, end) == pytest.approx((word.start, word.end), abs=0.006)
        assert percent == pytest.approx(100 * word.confidence, abs=0.6)
    expect(page.locator(".head .name")).to_have_text(f"{SPOKEN.name} · 1.3 s · free text")
    # Above the picture, each word stands over its own stretch
    stack = page.locator(".stack").bounding_box()
    assert stack
    for label, word in zip(page.locator(".strip span").all(), spoken.words, strict=True):
        box = label.bounding_box()
        assert box
        assert (box["x"] - stack["x"]) / stack["width"] == pytest.approx(word.start / spoken.duration, abs=0.01)


def test_the_picture_is_dark_in_silence_and_bright_in_sound(watched: Watched, tmp_path: Path) -> None:
    """Half a second of each, a tone of 1 kHz, which lies 35 % up the mel scale."""
    tone = 0.5 * np.sin(2 * np.pi * 1000 / 16000 * np.arange(16000)) * (np.arange(16000) >= 8000)
    sf.write(tmp_path / "tone.wav", tone, 16000)
    page = watched.open()
    page.set_input_files("#files", tmp_path / "tone.wav")
    expect(page.locator(f"{DONE} .spectrum")).to_be_visible()
    silence, sound = np.array(
        page.locator(".spectrum").evaluate(
            """(canvas) => {
                const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                const column = (x) => Array.from({ length: height }, (_, y) => data[4 * (y * width + x) + 1]);
                return [column(Math.round(0.25 * width)), column(Math.round(0.75 * width))];
            }"""
        )
    )  # how green the pixels of two columns are, from the top
    assert silence.max() < 40
    assert sound.max() > 180
    mel_share = np.log1p(1000 / 700) / np.log1p(8000 / 700)
    assert sound.argmax() == pytest.approx((1 - mel_share) * len(sound), abs=0.04 * len(sound))


def test_a_word_that_is_clicked_is_heard_alone(watched: Watched, spoken: Result) -> None:
    page = watched.open(script=PLAYED + SEEN)
    page.set_input_files("#files", SPOKEN)
    word = page.locator(".word").nth(1)
    word.click()
    page.wait_for_function("() => window.seen.some(([what, playing]) => what !== 'cursor' && !playing)")
    seen = page.evaluate("window.seen")
    assert [[what, playing] for what, playing in seen if what != "cursor"] == [
        [spoken.words[1].word, True],
        [spoken.words[1].word, False],
    ]
    times = [time for what, time in seen if what == "cursor"]
    assert times
    assert min(times) >= spoken.words[1].start - 0.01
    assert max(times) <= spoken.words[1].end + 0.01
    ((when, offset, duration),) = page.evaluate("window.played")
    assert when == 0
    assert offset == pytest.approx(spoken.words[1].start, abs=0.002)
    assert duration == pytest.approx(spoken.words[1].end - spoken.words[1].start, abs=0.002)
    expect(page.locator(".cursor")).to_be_hidden()


def test_all_of_it_is_played_and_stopped(watched: Watched, tmp_path: Path) -> None:
    samples, rate = sf.read(SPOKEN)
    sf.write(tmp_path / "long.wav", np.concatenate([samples, np.zeros(20 * rate - len(samples))]), rate)
    page = watched.open(script=PLAYED)
    page.set_input_files("#files", tmp_path / "long.wav")
    page.get_by_role("button", name="Play", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    ((_, offset, duration),) = page.evaluate("window.played")
    assert (offset, duration) == (0, pytest.approx(20, abs=0.01))


def test_what_is_no_sound_is_refused_in_words(watched: Watched) -> None:
    watched.refused += [400]
    page = watched.open()
    _drop(page, ("<b>notes</b>.wav", b"Dear diary, today nobody spoke.\n" * 20))
    fault = page.locator(".result[data-state='failed'] .fault")
    expect(fault).to_contain_text("not sound but text")
    expect(page.locator(".head .name")).to_have_text("<b>notes</b>.wav")
    expect(page.locator("#status")).to_contain_text("didn't work")
    expect(page.get_by_role("button", name="Listen again")).to_be_visible()


def test_an_empty_file_is_refused_without_asking(watched: Watched) -> None:
    page = watched.open()
    _drop(page, ("empty.wav", b""))
    expect(page.locator(".fault")).to_have_text("empty.wav is empty; choose a file with sound in it.")


def test_several_files_are_a_list_of_which_each_opens(watched: Watched) -> None:
    watched.refused += [400]
    page = watched.open()
    names = ["computer_speed_up.wav", "turn_the_speaker_down.wav", "please_save_the_file.wav"]
    _drop(page, *((name, (SAMPLES / name).read_bytes()) for name in names), ("notes.txt", b"not a sound " * 50))
    expect(page.locator("#status")).to_contain_text("Done: 4 files, of which 1 couldn't be transcribed")
    assert [text.partition(" · ")[0] for text in page.locator(".head .name").all_text_contents()] == [
        *names,
        "notes.txt",
    ]
    assert page.locator(".result .body:visible").count() == 0
    for number in range(4):
        head = page.locator(".head").nth(number)
        head.click()
        expect(head).to_have_attribute("aria-expanded", "true")
    assert page.locator(".result .body:visible").count() == 4
    assert page.locator(".timeline:visible").count() == 3
    page.get_by_role("button", name="Clear all").click()
    assert page.locator(".result").count() == 0


def test_what_the_browser_cannot_decode_gets_its_text_nevertheless(watched: Watched, tmp_path: Path) -> None:
    samples, rate = sf.read(SPOKEN)
    sf.write(tmp_path / "old.au", samples, rate)
    page = watched.open()
    page.set_input_files("#files", tmp_path / "old.au")
    expect(page.locator(f"{DONE} .body")).to_contain_text("can't decode this kind of file")
    assert page.locator(".word:disabled").count() == page.locator(".word").count() > 0
    assert page.locator("canvas.spectrum").count() == 0


def test_a_long_recording_is_looked_at_in_parts(watched: Watched, tmp_path: Path) -> None:
    samples, rate = sf.read(SPOKEN)
    sf.write(tmp_path / "long.wav", np.concatenate([samples, np.zeros(14 * rate), samples]), rate)
    page = watched.open()
    page.set_input_files("#files", tmp_path / "long.wav")
    expect(page.locator(f"{DONE} .segment")).to_have_count(2)
    shown = page.locator(".strip span").count()
    assert 0 < shown < page.locator(".word").count()
    page.locator(".word").last.click()
    expect(page.locator(".spectrum")).not_to_have_attribute("aria-label", re.compile("spectrogram, 0.00 s"))
    slider = page.get_by_role("slider")
    assert float(slider.input_value()) > 5
    expect(page.locator("[data-playing]")).to_have_count(0)  # the picture follows what is heard
    slider.fill("0")
    expect(page.locator(".spectrum")).to_have_attribute("aria-label", re.compile("0.00 s to 10.00 s"))


def _focus_on(page: Page, selector: str) -> None:
    """By the Tab key alone."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            assert page.evaluate("() => document.activeElement.matches(':focus-visible')")
            return
    pytest.fail(f"{selector} can't be reached by the keyboard")


def test_everything_works_by_keyboard(watched: Watched) -> None:
    page = watched.open(script=PLAYED)
    page.on("filechooser", lambda _chooser: None)  # caught from now on: Playwright asks for it without waiting
    _focus_on(page, "#record")
    page.keyboard.press("Enter")
    expect(page.locator("#time")).to_contain_text("0:02")
    page.keyboard.press("Space")
    expect(page.locator(DONE)).to_be_visible()
    _focus_on(page, "#choose")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(SPOKEN)
    expect(page.locator(f"{DONE} .head .name").first).to_contain_text(SPOKEN.name)
    _focus_on(page, ".word")
    page.keyboard.press("Enter")
    page.wait_for_function("() => window.played.length === 1")
    expect(page.locator(".result[data-playing]")).to_have_count(0)
    _focus_on(page, ".play")
    page.keyboard.press("Space")
    page.wait_for_function("() => window.played.length === 2")
    page.keyboard.press("Escape")
    expect(page.locator(".result[data-playing]")).to_have_count(0)
    page.keyboard.press("Shift+Tab")
    # Wherever the focus is, a recording is ended by the space bar
    page.click("#record")
    expect(page.locator("#record")).to_have_text("Stop")
    page.focus("#clear")
    page.keyboard.press("Space")
    expect(page.locator("#record")).to_have_text("Record")
    expect(page.locator(DONE)).to_have_count(3)


def _is_as_wide_as_its_window(page: Page) -> None:
    widths = page.evaluate("() => [document.documentElement.scrollWidth, window.innerWidth]")
    assert widths == [360, 360]


def test_a_phone_needs_no_sideways_scrolling(watched: Watched) -> None:
    page = watched.open(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True, color_scheme="dark")
    _is_as_wide_as_its_window(page)
    page.tap("#record")
    expect(page.locator("#time")).to_contain_text("0:01")
    _is_as_wide_as_its_window(page)
    page.tap("#record")
    expect(page.locator(DONE)).to_be_visible()
    page.set_input_files("#files", [SAMPLES / "set_a_timer_for_seven_hours_and_forty_nine_minutes.wav"])
    expect(page.locator(DONE)).to_have_count(2)
    page.locator(".word").first.tap()
    _is_as_wide_as_its_window(page)
    page.get_by_role("button", name="New set").tap()
    _is_as_wide_as_its_window(page)
    small = page.evaluate(
        "() => [...document.querySelectorAll('button, select, input')].filter((node) => node.offsetHeight"
        " && node.offsetHeight < 44).map((node) => node.outerHTML)"
    )
    assert small == []
    page.goto(watched.base + "/docs")
    page.wait_for_selector("body[data-ready]")
    _is_as_wide_as_its_window(page)
