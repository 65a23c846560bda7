"""Boosted phrases: what a text earns is what stands in it, whatever was advanced on the way."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.boost import WEIGHT, Boost, read_boost
from asr.errors import GuidanceError
from asr.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("on", "one", "no", "non", "noon", "o", "onno")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([*["on no one noon"] * 3, "turn on the lights", "living room", "living"], vocab_size=44)


def earned(boost: Boost, tokens: list[int]) -> list[float]:
    """What each token and, last, the end bring."""
    state, found = boost.start(), []
    for token in tokens:
        found.append(float(boost.scores(state)[token]))
        state = boost.advance(state, token)
    return [*found, float(boost.scores(state)[Tokenizer.eos_id])]


def deserved(phrases: dict[str, float], text: str, tokenizer: Tokenizer) -> float:
    """Every place where a phrase stands as whole words, counted by a regular expression."""
    return sum(
        weight * len(tokenizer.encode(phrase)) * len(re.findall(rf"(?=(?<!\S){re.escape(phrase)}(?!\S))", text))
        for phrase, weight in phrases.items()
    )


some_phrases = st.dictionaries(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
    st.sampled_from([-2.0, -0.5, 0.5, 1.0, 3.0]),
    min_size=1,
    max_size=6,
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(phrases=some_phrases, words=st.lists(st.sampled_from(WORDS), max_size=9))
def test_a_text_earns_what_its_phrases_weigh(tokenizer: Tokenizer, phrases: dict[str, float], words: list[str]) -> None:
    text = " ".join(words)
    total = sum(earned(Boost(phrases, tokenizer), tokenizer.encode(text)))
    assert total == pytest.approx(deserved(phrases, text, tokenizer), abs=1e-4)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(phrases=some_phrases, tokens=st.lists(st.integers(3, 43), max_size=12))
def test_texts_in_tokens_of_any_cut_end_with_nothing_in_advance(
    tokenizer: Tokenizer, phrases: dict[str, float], tokens: list[int]
) -> None:
    """A decoder may cut words into other tokens than the tokenizer; those count as no phrase, or as what they are."""
    tokens = [token % tokenizer.vocab_size for token in tokens]
    boost = Boost(phrases, tokenizer)
    starts = [i for i, t in enumerate(tokens) if tokenizer.token(t).startswith("▁")] + [len(tokens)]
    expected = 0.0
    for phrase, weight in phrases.items():
        cut = tokenizer.encode(phrase)
        expected += weight * len(cut) * sum(tokens[i : i + len(cut)] == cut and i + len(cut) in starts for i in starts)
    assert sum(earned(boost, tokens)) == pytest.approx(expected, abs=1e-4)


def test_each_token_brings_its_share_in_advance_and_an_unfinished_phrase_gives_it_back(tokenizer: Tokenizer) -> None:
    boost = Boost({"turn on": 2.0}, tokenizer)
    phrase = tokenizer.encode("turn on")
    assert len(phrase) >= 3
    assert earned(boost, phrase) == [2.0] * len(phrase) + [0.0]
    assert earned(boost, phrase[:-1]) == [2.0] * (len(phrase) - 1) + [-2.0 * (len(phrase) - 1)]
    assert sum(earned(boost, tokenizer.encode("turn one"))) == 0
    assert sum(earned(boost, tokenizer.encode("no turn no"))) == 0


def test_a_phrase_within_a_phrase_that_fails_keeps_its_bonus(tokenizer: Tokenizer) -> None:
    boost = Boost({"turn no one on": 1.0, "no one": 1.0}, tokenizer)
    tokens = tokenizer.encode("turn no one noon")
    assert sum(earned(boost, tokens)) == len(tokenizer.encode("no one"))


def test_a_discouraged_word_costs_where_it_ends_and_longer_words_go_free(tokenizer: Tokenizer) -> None:
    boost = Boost({"on": -3.0}, tokenizer)
    on = tokenizer.encode("on")
    whole = earned(boost, on)
    assert whole[:-1] == [0.0] * (len(on) - 1) + [-3.0 * len(on)]
    assert whole[-1] == 0
    assert sum(earned(boost, tokenizer.encode("onno"))) == 0


def test_words_count_only_from_their_start(tokenizer: Tokenizer) -> None:
    boost = Boost({"no": 1.0}, tokenizer)
    no = tokenizer.encode("no")
    assert sum(earned(boost, tokenizer.encode("no"))) == len(no)
    assert not any(earned(boost, [t for t in tokenizer.encode("on") if t not in no]))


def test_phrases_are_normalised(tokenizer: Tokenizer) -> None:
    one, other = Boost({"Living ROOM!": 1.0}, tokenizer), Boost({"living room": 1.0}, tokenizer)
    tokens = tokenizer.encode("living room")
    assert earned(one, tokens) == earned(other, tokens)
    assert sum(earned(one, tokens)) == len(tokens)


def test_scores_are_one_vector_of_the_vocabulary(tokenizer: Tokenizer) -> None:
    boost = Boost({"on": 1.0}, tokenizer)
    scores = boost.scores(boost.start())
    assert scores.shape == (tokenizer.vocab_size,)
    assert scores.dtype == np.float32
    assert np.flatnonzero(scores).tolist() == tokenizer.encode("on")[:1]
    with pytest.raises(ValueError, match="read-only"):
        scores[0] = 1
    assert not Boost({}, tokenizer).scores(0).any()


@pytest.mark.parametrize(("phrase", "weight"), [("", 1.0), ("?!", 1.0), ("語", 1.0), ("on", 0.0), ("on", 21.0)])
def test_what_cannot_be_boosted_is_refused(tokenizer: Tokenizer, phrase: str, weight: float) -> None:
    with pytest.raises(GuidanceError, match="; write"):
        Boost({phrase: weight}, tokenizer)


@pytest.mark.parametrize(
    "phrases",
    [
        {"a" * 201: 1.0},
        {"1" * 200: 1.0},  # "one one …" is longer
        {"on " * 70_000: 1.0},
        {5: 1.0},
        {None: 1.0},
        {b"on": 1.0},
        {"on": "2"},
        {"on": None},
        {"on": True},
        {"on": [1]},
        {"on": 1j},
        {"on": 10**400},
        {"on": 10**5000},
        {"on": -(10**400)},
        {"on": "2" * 10_000},
    ],
)
def test_phrases_and_weights_of_any_other_kind_are_refused_in_short(
    tokenizer: Tokenizer, phrases: dict[Any, Any]
) -> None:
    with pytest.raises(GuidanceError, match=r"^boost: .*; write ") as caught:
        Boost(phrases, tokenizer)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("weight", [2, np.float32(2), np.int64(2), Fraction(2)])
def test_weights_are_numbers_of_any_type(tokenizer: Tokenizer, weight: Any) -> None:
    tokens = tokenizer.encode("on")
    assert sum(earned(Boost({"on": weight}, tokenizer), tokens)) == 2 * len(tokens)


def test_the_same_phrase_in_two_spellings_is_refused(tokenizer: Tokenizer) -> None:
    """Otherwise its weight could go beyond the largest."""
    with pytest.raises(GuidanceError, match=r"^boost: 'on!': 'on' is there already, as 'ON'; take one"):
        Boost({"ON": 20.0, "on!": 20.0}, tokenizer)


def test_lists_are_bounded(tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "boost.txt"
    path.write_text("# rooms\non\nno\none\n")
    phrases = {"on": 1.0, "no": 1.0, "one": 1.0}
    monkeypatch.setattr("asr.boost.MAX_PHRASES", 3)
    assert len(read_boost(path, tokenizer)) == 3
    Boost(phrases, tokenizer)
    for bound, reason in (("MAX_PHRASES", "more than 2 phrases"), ("_MAX_TOKENS", "2 tokens of phrases or more")):
        with monkeypatch.context() as patch:
            patch.setattr(f"asr.boost.{bound}", 2)
            with pytest.raises(GuidanceError, match=rf"boost.txt:\d:1: .*{reason}; leave"):
                read_boost(path, tokenizer)
            with pytest.raises(GuidanceError, match=rf"^boost: '\w+': .*{reason}; leave"):
                Boost(phrases, tokenizer)


@pytest.mark.parametrize("line", ["1" * 200_000, "on " * 200_000, "a" * 201])
def test_long_lines_are_refused_before_they_are_worked_on(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    path = tmp_path / "boost.txt"
    path.write_text(f"# {'long comments are none of them ' * 10}\n{line} * 2\n")
    monkeypatch.setattr("asr.boost.normalise", pytest.fail)
    length = len(line.strip())
    with pytest.raises(GuidanceError, match=rf"boost.txt:2:1: a phrase of {length:,} characters, more than 200; write"):
        read_boost(path, tokenizer)


@pytest.mark.parametrize("line", ["on * " + "x" * 5000, "語" * 199, "?" * 199])
def test_messages_show_little_of_what_is_long(tokenizer: Tokenizer, tmp_path: Path, line: str) -> None:
    path = tmp_path / "boost.txt"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(GuidanceError) as caught:
        read_boost(path, tokenizer)
    assert len(str(caught.value)) < len(str(path)) + 150
    assert "…" in str(caught.value)


def test_what_a_file_holds_can_be_given_as_it_was_read(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "boost.txt"
    path.write_text(f"{'on ' * 66}on\n{'1' * 50}\n")
    found = read_boost(path, tokenizer)
    assert sorted(map(len, found)) == [199, 200]
    Boost(found, tokenizer)


# Files


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_file_has_phrases_comments_and_weights(tokenizer: Tokenizer, tmp_path: Path, ending: str) -> None:
    lines = ["# rooms", "", "Living Room", "  turn on * 2.5  # often", "no one  *   -1", "one\t*\t3", "noon * .5"]
    path = tmp_path / "boost.txt"
    path.write_bytes(b"\xef\xbb\xbf" + ending.join(lines).encode())
    expected = {"living room": WEIGHT, "turn on": 2.5, "no one": -1.0, "one": 3.0, "noon": 0.5}
    assert read_boost(path, tokenizer) == expected


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (b"on\nno * x", "2:6", "'x' is no weight; write a number"),
        (b"on *", "1:5", "'' is no weight"),
        (b"on * 2 * 3", "1:6", "'2 * 3' is no weight"),
        (b"on * nan", "1:6", "nan"),
        (b"on * inf", "1:6", "inf"),
        (b"on * 0", "1:6", "0 is 0 or beyond"),
        (b"on  *   -99", "1:9", "-99"),
        (b"on\n  On! * 2", "2:3", "'on' is there already, on line 1; take"),
        (b"\n  ...", "2:3", "'...' holds no word; write"),
        (b"* 2", "1:1", "'' holds no word"),
        ("on\n 語".encode(), "2:2", "no letters for it"),
        (b"on\nn\xff", "2:2", "not UTF-8"),
        (b"", "1:1", "no phrase"),
        (b"# nothing\n", "1:1", "no phrase"),
    ],
)
def test_faults_of_a_file_are_named_by_line_and_column(
    tokenizer: Tokenizer, tmp_path: Path, content: bytes, place: str, reason: str
) -> None:
    path = tmp_path / "boost.txt"
    path.write_bytes(content)
    with pytest.raises(GuidanceError) as caught:
        read_boost(path, tokenizer)
    message = str(caught.value)
    assert message.startswith(f"{path}:{place}: ")
    assert reason in message
    assert "\n" not in message


def test_a_phrase_file_is_told_from_a_list_of_words(tokenizer: Tokenizer, tmp_path: Path) -> None:
    for name in ("lights.yaml", "lights.YML", "lights.jsgf"):
        (tmp_path / name).write_text("lights on\n")
        with pytest.raises(GuidanceError, match=rf"{name}: a phrase file by its name; .*--phrases"):
            read_boost(tmp_path / name, tokenizer)


def test_files_that_cannot_be_read_are_named(tokenizer: Tokenizer, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.txt", tmp_path / "a\0b"):
        with pytest.raises(GuidanceError, match="can't be read"):
            read_boost(path, tokenizer)
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate((1 << 22) + 1)
    with pytest.raises(GuidanceError, match="more than 4 MB"):
        read_boost(large, tokenizer)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    content=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
)
def test_any_file_is_read_or_refused(
    tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(content)
    try:
        found = read_boost(path, tokenizer)
    except GuidanceError as error:
        assert str(error).startswith(f"{path}:")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        Boost(found, tokenizer)
