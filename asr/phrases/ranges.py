"""Ranges of numbers, "0..100 step 5", and how their numbers are said."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from asr.phrases.faults import FaultyError, shown
from asr.text import normalise

if TYPE_CHECKING:
    from asr.phrases.nodes import Place

MAX_VALUES: Final = 10_001  # 0..10000
_RANGE: Final = re.compile(r"\s*(-?\d{1,15})\s*\.\.\s*(-?\d{1,15})\s*(?:(?:step\s|/)\s*(\d{1,15})\s*)?")
_LIKE_A_RANGE: Final = re.compile(r"\s*[-+]?[\d.,]*\d\s*\.\.(?!\.)")


def is_range(text: str) -> bool:
    """Whether it is meant as a range, faulty or not."""
    return _LIKE_A_RANGE.match(text) is not None


def parse_range(text: str, place: Place) -> range:
    """The numbers of "from..to", "from..to step n" or "from..to/n", both ends included. Raises FaultyError."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise FaultyError(place, f"{shown(text)} is no range of whole numbers; write it as 0..100 or 0..100 step 5")
    return numbers(int(found[1]), int(found[2]), int(found[3] or 1), place)


def numbers(first: int, last: int, step: int, place: Place) -> range:
    """The numbers from first to last, both included. Raises FaultyError."""
    if first > last:
        raise FaultyError(place, f"the range {first}..{last} is empty; write {last}..{first}")
    if step < 1:
        raise FaultyError(place, f"a step of {step} leads nowhere; give one of 1 or more")
    found = range(first, last + 1, step)
    if len(found) > MAX_VALUES:
        raise FaultyError(
            place, f"{len(found)} numbers in the range {first}..{last}; at most {MAX_VALUES} can be: use a wider step"
        )
    return found


def spoken(number: int, language: str) -> str:
    """A quantity in words. The comma says that 1500 isn't a year."""
    return normalise(f"{number:,}" if language.startswith("en") else str(number), language)
