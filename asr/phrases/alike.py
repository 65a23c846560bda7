"""Words and sentences that sound alike, by a simple measure: Levenshtein distance between keys of their sounds.

A key is made letter by letter, as in Metaphone, for English: letters that are spoken alike become one ("c" before "e"
is "s", otherwise "k"; "ph" is "f"; "v" is "f", "d" is "t", "b" is "p", "z" is "s"), silent ones go ("k" in "kn", "e" at
the end), doubled ones are one, and every run of vowels is one "a". So "fifteen" is "faftan" and "fifty" "fafta".
Two are alike if, without the words that both begin and end with, no more than one sound in five differs: "set fifteen
degrees" and "set fifty degrees" are as alike as "fifteen" and "fifty", and "set four degrees" is like neither.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from asr.edits import Texts

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT: Final = 0.2  # of the longer one's sounds that aren't in both
MAX_COMPARED: Final = 2000  # all against all

_IRREGULAR: Final = {"one": "wan", "once": "wans", "two": "ta"}
_SOUNDS: Final = tuple(
    (re.compile(pattern), sound)
    for pattern, sound in (
        (r"'", ""),
        (r"^(?:kn|gn|pn)", "n"),
        (r"^wr", "r"),
        (r"^wh(?=o)", "h"),
        (r"^wh", "w"),
        (r"^x", "s"),
        (r"mb$", "m"),
        (r"tch", "X"),
        (r"igh", "i"),
        (r"(?<=[aeou])ught", "t"),
        (r"gh$", "f"),
        (r"gh", "g"),
        (r"ph", "f"),
        (r"(?:sh|ch|ti(?=o)|si(?=o))", "X"),
        (r"th", "T"),
        (r"c(?=[eiy])", "s"),
        (r"(?:ck|[cqk])", "k"),
        (r"dg(?=[eiy])", "X"),
        (r"(?:g(?=[eiy])|j)", "X"),
        (r"g", "k"),
        (r"x", "ks"),
        (r"v", "f"),
        (r"d", "t"),
        (r"b", "p"),
        (r"z", "s"),
        (r"(?<=[^aeiouy])e$", ""),
        (r"(?<=[aeiouy])h", ""),
        (r"(?<=[aeiouy])w(?![aeiouy])", ""),
        (r"^y(?=[aeiou])", "j"),
        (r"[aeiouy]+", "a"),
        (r"(.)\1+", r"\1"),
    )
)


class Pair(NamedTuple):
    """Two that sound alike. distance: sounds that differ, of the longer one's that isn't in both; 0 is the same key."""

    one: str
    other: str
    distance: float


def sounds(text: str) -> str:
    """The key of a word's or a sentence's sounds."""
    return " ".join(map(_word, text.split()))


def _word(word: str) -> str:
    key = _IRREGULAR.get(word, word)
    for pattern, sound in _SOUNDS:
        key = pattern.sub(sound, key)
    return key or word


def pairs(texts: Sequence[str]) -> list[Pair]:
    """Those of normalised texts that sound alike, the nearest first. Compares the first MAX_COMPARED of them."""
    texts = list(dict.fromkeys(texts))[:MAX_COMPARED]
    words = [sounds(text).split() for text in texts]
    keys = ["".join(each) for each in words]
    if len(texts) < 2:
        return []
    lengths = np.array([len(key) for key in keys])
    compared = Texts(keys)
    found: list[Pair] = []
    for i, key in enumerate(keys):
        distances = compared.distances(key, share=LIMIT)
        for j in np.flatnonzero(distances <= LIMIT * np.maximum(lengths, len(key)) + 1e-6):
            if j > i:
                # What both begin and end with changes the distance by nothing
                share = int(distances[j]) / max(1, *_unshared(words[i], words[j]))
                if share <= LIMIT + 1e-6:
                    found.append(Pair(texts[i], texts[j], round(share, 3)))
    return sorted(found, key=lambda pair: pair.distance)


def _unshared(one: list[str], other: list[str]) -> tuple[int, int]:
    """Sounds of each without the words that both begin with, and then end with."""
    shorter = min(len(one), len(other))
    start = 0
    while start < shorter and one[start] == other[start]:
        start += 1
    end = 0
    while end < shorter - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return sum(map(len, one[start : len(one) - end])), sum(map(len, other[start : len(other) - end]))
