"""Commands of real people, with the model that ships: how many are understood, and what else is taken for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from asr.manifest import read_manifest
from asr.recognizer import DEFAULT_BUNDLE, Recognizer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DEFAULT_BUNDLE.exists(), reason="no model ships with this checkout"),
]
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer(phrases=DIGITS)


def test_most_digits_are_understood_and_hardly_any_is_another(recognizer: Recognizer, corpus: Path) -> None:
    rows = read_manifest(corpus / "digits.test.jsonl")[::10]
    results = recognizer.transcribe(rows)
    right = sum(result.text == row.text for row, result in zip(rows, results, strict=True))
    wrong = sum(result.text not in ("", row.text) for row, result in zip(rows, results, strict=True))
    assert right >= 0.8 * len(rows)
    assert wrong <= 0.05 * len(rows)


def test_other_speech_is_seldom_taken_for_a_digit(recognizer: Recognizer, corpus: Path) -> None:
    rows = [
        row
        for other in ("accents", "books", "home", "wake_phrases")
        for row in read_manifest(corpus / f"{other}.test.jsonl")[:40]
        if row.text not in DIGITS
    ]
    taken = [result.text for result in recognizer.transcribe(rows) if result.text]
    assert len(taken) <= 0.05 * len(rows), taken
