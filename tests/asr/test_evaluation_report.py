"""The web page: well formed, alone in the world, everything escaped, readable without colours; and the plain table."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.evaluation import Confusion, Counts, Evaluation, Failure, GroupScore, Run, UtteranceScore, html_report, score
from asr.evaluation import summary_text as text_of

VOID = {"meta", "br", "hr"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; a tag closed out of turn is an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def text(self) -> str:
        return " ".join(data for tag, data in self.texts if tag != "style")


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return score(
        ["turn the light on", "five", "five", "stop", ""],
        ["turn light on please", "nine", "nine", "stop", "you"],
        names=["a.wav", "b.wav", "c.wav", "d.wav", "e.wav"],
        groups=["home", "digits", "digits", "home", "noise"],
        seconds=[2.0, 0.5, 0.5, 1.0, 3.0],
    )


RUN = Run(
    model="toy.cepstra",
    manifests=("one.jsonl", "two.jsonl"),
    by="source",
    settings={"beam": 4},
    audio_seconds=7.0,
    wall_seconds=0.7,
    failures=(Failure("bad.wav", "bad.wav: is not sound"),),
)


def test_page_needs_nothing_else(evaluation: Evaluation) -> None:
    text = html_report(evaluation, RUN)
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert "://" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert not [name for _, attributes in page.tags for name in attributes if name in {"src", "href"}]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert "default-src 'none'" in str(page.all("meta"))


def test_page_is_accessible(evaluation: Evaluation) -> None:
    text = html_report(evaluation, RUN)
    page = Page(text)
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("main")) == len(page.all("h1")) == len(page.all("title")) - 1 == 1  # the other is the picture's
    assert len(page.all("caption")) == len(page.all("table")) == 3
    assert all(attributes.get("scope") in {"col", "row"} for attributes in page.all("th"))
    picture = page.all("svg")[0]
    named = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert picture["role"] == "img"
    assert set((picture["aria-labelledby"] or "").split()) <= named
    assert "color-scheme: light dark" in text
    assert "prefers-color-scheme: dark" in text


def relative_luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    levels = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (level / 12.92 if level <= 0.04045 else ((level + 0.055) / 1.055) ** 2.4 for level in levels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(relative_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_have_contrast_in_light_and_dark(evaluation: Evaluation) -> None:
    """WCAG 2.2: 4.5 to 1 for text, 3 to 1 for bars."""
    light, dark = re.findall(r":root \{(.*?)\}", html_report(evaluation), re.DOTALL)
    for palette in (light, dark):
        colours = dict(re.findall(r"--([\w-]+): (#\w+)", palette))
        assert contrast(colours["text"], colours["page"]) >= 7
        assert contrast(colours["quiet"], colours["page"]) >= 4.5
        assert contrast(colours["bar"], colours["page"]) >= 3
        for kind in ("sub", "del", "ins"):
            assert contrast(colours[kind], colours[f"{kind}-ground"]) >= 4.5


def test_page_says_what_was_measured(evaluation: Evaluation) -> None:
    said = Page(html_report(evaluation, RUN)).text()
    assert "Model: toy.cepstra (beam 4)" in said
    assert "real-time factor 0.100" in said
    assert "Manifests: one.jsonl, two.jsonl" in said
    assert "Not transcribed, and in no figure: 1" in said
    assert "bad.wav: is not sound" in said
    assert re.search(r"digits 2 1\.0 2 100\.0", said)
    assert re.search(r"noise 1 3\.0 0 - - 0 0 1 - 100\.0", said)
    assert re.search(r"total 5 7\.0 7 71\.4", said)
    assert "five nine ≠ substituted 2" in said


def test_errors_have_symbols_and_words_beside_colours(evaluation: Evaluation) -> None:
    page = Page(html_report(evaluation))
    said = page.text()
    assert "deleted: said the" in said
    assert "inserted: heard please" in said
    assert "substituted: said five, heard nine" in said
    assert {"≠", "−", "+"} <= {data for _, data in page.texts}  # noqa: RUF001 (the minus sign of the legend)
    assert {"sub", "del", "ins"} <= {attributes.get("class") for attributes in page.all("li")}


def test_histogram_counts_every_utterance_once(evaluation: Evaluation) -> None:
    page = Page(html_report(evaluation))
    (spread,) = [data for tag, data in page.texts if tag == "desc"]
    # 0/1; 2/4; 1/1 twice; one insertion into silence
    assert spread.endswith("0 %: 1, 41–50 %: 1, 91–100 %: 2, >100 %: 1")  # noqa: RUF001 (a range)
    assert len([attributes for attributes in page.all("rect") if attributes["class"] == "bar"]) == 12


def test_nothing_wrong_and_nothing_at_all() -> None:
    right = Page(html_report(score(["yes"], ["yes"]))).text()
    assert "None: every word was heard as it was said." in right
    assert "most errors" not in right
    nothing = Page(html_report(score([], []))).text()
    assert "total 0 0.0 0 - -" in nothing


def test_long_lists_are_cut_and_say_so() -> None:
    evaluation = score([f"word{chr(97 + n)}" for n in range(20)], [f"other{chr(97 + n)}" for n in range(20)])
    page = Page(html_report(evaluation, worst=3, confusions=5))
    assert "5 of 20 different ones" in page.text()
    assert len(page.all("h3")) == 3


@settings(derandomize=True, max_examples=60)
@given(st.text(max_size=20), st.sampled_from(["<script>alert(1)</script>", '" onload="x', "</table>", "&lt;", "'"]))
def test_everything_is_escaped(noise: str, attack: str) -> None:
    """Also where texts come from elsewhere and were never normalised."""

    def page_about(word: str) -> str:
        one = UtteranceScore(word, word, word, word + " " + word, Counts(0, 1, 1, 1), Counts(), 1.0)
        total = GroupScore(word, 1, 1, Counts(0, 1, 1, 1), Counts(), 1.0, None)
        confusions = (Confusion("substitution", word, word, 1), Confusion("deletion", word, None, 1))
        run = Run(word, (word,), word, {word: word}, 1.0, 1.0, (Failure(word, word),))
        return html_report(Evaluation(total, (total, total), confusions, (one,)), run)

    text = page_about(noise + attack)
    page = Page(text)
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in Page(page_about("harmless")).tags}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert text.encode()


def test_file_names_that_are_not_unicode_become_question_marks() -> None:
    name = b"caf\xe9.wav".decode("utf-8", "surrogateescape")
    assert b"caf?.wav" in html_report(score(["a"], ["b"], names=[name])).encode()


def test_plain_table(evaluation: Evaluation) -> None:
    text = text_of(evaluation, RUN, width=80)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert [word for word in ("home", "digits", "noise", "total") if word in text] == [
        "home",
        "digits",
        "noise",
        "total",
    ]
    assert "Most frequent confusions: five → nine (2)" in text


def test_plain_table_takes_brackets_for_what_they_are() -> None:
    evaluation = score(["a", "b"], ["a", "c"], groups=["[red]x[/red]", "[/]"])
    assert "[red]x[/red]" in text_of(evaluation)
    assert "[/]" in text_of(evaluation)


def test_long_words_and_names_are_cut_on_the_terminal() -> None:
    page = text_of(score(["x" * 200_000, "a"], ["y" * 200_000, "a"], names=["a", "b"], groups=["g" * 5000, "h"]))
    assert len(page) < 3000
    assert "xxx… →" in page
    assert page.count("g") < 100
