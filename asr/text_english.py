"""English: abbreviations, signs and digits to the words that a reader says for them."""

from __future__ import annotations

import re
from typing import Final

from asr.text_digits import expand_digits

_ABBREVIATIONS: Final = (
    (re.compile(r"\bmr\.", re.IGNORECASE), "mister "),
    (re.compile(r"\bmrs\.", re.IGNORECASE), "missus "),
    (re.compile(r"\b[Dd][Rr]\.(?= ?[A-Z])"), "doctor "),  # before a name; else it may be a drive
    (re.compile(r"\bvs\.", re.IGNORECASE), "versus "),
    (re.compile(r"\betc\.", re.IGNORECASE), "et cetera "),
    (re.compile(r"\bno\.(?= ?\d)", re.IGNORECASE), "number "),
)
_HAS_SIGN = re.compile(r"[\xd7*÷#&+=@.]")
_SIGNS: Final = (
    (re.compile(r"(?<=\d) ?[\xd7*] ?(?=\d)"), " times "),
    (re.compile("÷"), " divided by "),
    (re.compile(r"#(?=\d)"), " number "),
    (re.compile("&"), " and "),
    (re.compile(r"(?<!\+)\+(?!\+)"), " plus "),
    (re.compile(r"(?<!\+)\+\+(?!\+)"), " plus plus "),  # "C++"; more of them are a ruler
    (re.compile(r"(?<![=<>!])=(?![=>])"), " equals "),
    (re.compile(r"(?<=\w)\.(?=[\w.-]{0,64}@|(?:com|org|net|edu|gov|io)\b)"), " dot "),
    (re.compile("@"), " at "),
)
_HAS_DIGIT = re.compile(r"[0-9]")


def expand_english(text: str) -> str:
    """Abbreviations, signs and digits of English text to words, in lower case; other punctuation stays."""
    if "." in text:
        for pattern, words in _ABBREVIATIONS:
            text = pattern.sub(words, text)
    text = text.lower()
    if _HAS_SIGN.search(text):
        for pattern, words in _SIGNS:
            text = pattern.sub(words, text)
    if _HAS_DIGIT.search(text):
        text = expand_digits(text)
    return text.replace("%", " percent ")


_AFTER_HOUR = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    "nineteen|twenty|thirty|forty|fifty|o'clock"
)
_HALF_OF_DAY = re.compile(rf"\b(?:({_AFTER_HOUR}) am(?! i\b)|pm)\b(?!')")


def spell_halves_of_the_day(text: str) -> str:
    """Clean text: "pm" to "p m", "am" after an hour or a minute to "a m", as in "7 pm" ("which one am i" is a verb)."""
    return _HALF_OF_DAY.sub(lambda match: f"{match[1]} a m" if match[1] else "p m", text)
