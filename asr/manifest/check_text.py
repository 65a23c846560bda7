"""What can be wrong with the words of a row."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from asr.text import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.manifest.faults import Severity
    from asr.manifest.records import Utterance

POSITION = 0.030  # seconds between the places where CTC can write a token, at least; one of 60 ms holds two letters


class Finding(NamedTuple):
    """A fault that doesn't know yet in which row it is."""

    key: str
    code: str
    problem: str
    remedy: str
    severity: Severity = "error"


def check_text(utterance: Utterance, text: str, language: str, max_characters_per_second: float) -> Iterator[Finding]:
    """Faults of the words and of their length against the sound's. text: the utterance's, normalised."""
    if not utterance.text.strip():
        yield Finding("text", "empty-text", "is empty", "write the words, or keep sounds without speech as noise")
        return
    if not text:
        problem = f"nothing is left of {utterance.text!r} that can be spoken"
        yield Finding("text", "unspeakable-text", problem, "write the words that are heard, or take the row out")
        return
    if odd := unspeakable(utterance.text, text, language):
        problem = f"{' '.join(odd)} can't be spoken"
        remedy = "write it as words, or nothing if nothing is heard"
        yield Finding("text", "unspeakable-characters", problem, remedy, "warning")
    yield from _length(text, utterance.duration, max_characters_per_second)


def unspeakable(text: str, normalised: str, language: str) -> list[str]:
    """Signs that the normaliser leaves as they are, or drops without a word for them (punctuation apart)."""
    left = {sign for sign in normalised if not (unicodedata.category(sign)[0] in "LM" or sign in " '")}
    # punctuation and spaces may go unspoken; that anything else goes is seen by taking it out first
    others = {sign for sign in text if unicodedata.category(sign)[0] not in "PZ" and not sign.isspace()}
    rare = {sign for sign in others if not (sign.isascii() and sign.isalnum())}
    dropped = {sign for sign in rare if normalise(text.replace(sign, " "), language) == normalised}
    return [_shown(sign) for sign in sorted(left | dropped)]


def _length(text: str, duration: float, max_characters_per_second: float) -> Iterator[Finding]:
    """Text too long for its sound.

    CTC writes at most one token per position, and needs one more between equal ones. How many tokens a text has is the
    tokenizer's to say (training counts them, and skips what doesn't fit). Here the bound is one character per position,
    spaces free: that is 33 a second, which nobody speaks, and beyond it a tokenizer of short pieces can't be trained.
    """
    characters = text.replace(" ", "")
    needed = len(characters) + sum(one == other for one, other in pairwise(text))
    positions = max(1, int(duration / POSITION))
    rate = len(characters) / duration if duration > 0 else float("inf")
    remedy = "mend the text or the duration"
    if needed > positions:
        problem = (
            f"{len(characters)} characters in {duration:.3g} s need {needed} CTC positions of 30 ms, not {positions}"
        )
        yield Finding("text", "text-too-long", problem, remedy)
    elif rate > max_characters_per_second:
        problem = f"{len(characters)} characters in {duration:.3g} s is faster than speech"
        yield Finding("text", "text-too-fast", problem, remedy, "warning")


def _shown(sign: str) -> str:
    name = unicodedata.name(sign, "")
    return f"{sign!r} ({name.lower()})" if name else f"U+{ord(sign):04X}"
