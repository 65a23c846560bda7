"""Edit distances against rapidfuzz, an independent implementation, of which the same shortest edit is asked too."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from asr.edits import Texts, edits

often = settings(derandomize=True, deadline=None, max_examples=1000)
texts = st.one_of(st.text("ab", max_size=12), st.text("abcde é語", max_size=150), st.text(max_size=20))
words = st.lists(st.sampled_from(["on", "off", "light", "the", "a", "o'clock"]), max_size=12)


def reference(one: list[str] | str, other: list[str] | str) -> list[tuple[str, int, int]]:
    return [(edit.tag, edit.src_pos, edit.dest_pos) for edit in Levenshtein.editops(one, other)]


@often
@given(texts, texts)
def test_the_same_edit_of_letters(one: str, other: str) -> None:
    assert [tuple(edit) for edit in edits(one, other)] == reference(one, other)


@often
@given(words, words)
def test_the_same_edit_of_words(one: list[str], other: list[str]) -> None:
    assert [tuple(edit) for edit in edits(one, other)] == reference(one, other)


@often
@given(texts, st.lists(texts, max_size=8))
def test_distances_from_many(text: str, others: list[str]) -> None:
    assert list(Texts(others).distances(text)) == [Levenshtein.distance(text, other) for other in others]


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 129, 200])
def test_distances_where_a_machine_word_ends(length: int) -> None:
    draw = random.Random(length)
    text = "".join(draw.choices("abc", k=length))
    others = ["".join(draw.choices("abc", k=max(0, length + more))) for more in range(-5, 70)]
    others += [text, text + "a", "b" + text, text[:-1]]
    assert list(Texts(others).distances(text)) == [Levenshtein.distance(text, other) for other in others]


def test_hand_counted() -> None:
    assert [tuple(edit) for edit in edits("kitten", "sitting")] == [
        ("replace", 0, 0), ("replace", 4, 4), ("insert", 6, 6),
    ]  # fmt: skip
    assert edits("", "") == []
    assert list(Texts(["kitten", "", "sitting"]).distances("sitting")) == [3, 7, 0]


@often
@given(texts, st.lists(texts, min_size=1, max_size=8), st.sampled_from([0.0, 0.2, 0.5]))
def test_what_is_near_enough_has_its_distance_and_nothing_else_seems_near(
    text: str, others: list[str], share: float
) -> None:
    for found, other in zip(Texts(others).distances(text, share=share), others, strict=True):
        true, longer = Levenshtein.distance(text, other), max(len(text), len(other))
        assert found == true or (found == longer and true > share * longer)
