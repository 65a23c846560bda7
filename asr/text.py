"""The one normaliser: training texts, references, hypotheses and phrase lists all pass through it.

What comes out is what is said, in one spelling: lower-case words with one space between them, no punctuation but
apostrophes. In English, digits and signs become words ("$5.50" is "five dollars fifty cents") and diacritics go
("café" is "cafe"), because who writes them is a matter of taste and scoring must not punish it. Letters of other
alphabets stay. The rules for numbers are in `asr.text_digits`.

The decisions that a reader may doubt:

- No "and" inside numbers ("one hundred five"); no hyphens ("twenty one").
- Four bare digits from 1100 to 2099 are read as a year ("1995" is "nineteen ninety five", "2007" "two thousand seven")
  unless what follows is counted ("1500 meters") or they are part of a sum; "1,500" is always a quantity.
- Leading zeros, seven digits or more that are not round, telephone numbers ("555-1234"), and what follows "dial" or
  "pin": digit by digit. Zero is "zero", but "oh" in times and years ("12:05", "1905").
- "7 pm" is "seven p m", "7:00" "seven o'clock", "5-10" "five to ten", "June 5" "june fifth".
- An apostrophe inside a word or at its end stays ("don't", "the dogs' bowl"); at the start it goes, and with it the
  closing one that makes a pair of quotation marks. "St." stays "st": saint or street.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from asr.text_english import expand_english, spell_halves_of_the_day

if TYPE_CHECKING:
    from collections.abc import Callable

_ENGLISH_WORD = r"[a-z]++(?:'[a-z]++)*+'?"
_PLAIN_ENGLISH = re.compile(rf"{_ENGLISH_WORD}(?: {_ENGLISH_WORD})*+")

# Quotation marks, modifier letters (Unicode's own advice for some languages), backtick and prime, as people type them.
_ONE_APOSTROPHE: Final = dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bb\u02bc\u0060\u2032"), "'")
_BEFORE_NFKC: Final = {"\u00b4": "'", "º": "°", "™": " ", "℠": " ", "№": " no."}  # the first is a spacing acute
_DIACRITICS: Final = (
    ("\u0300", "\u036f"),
    ("\u1ab0", "\u1aff"),
    ("\u1dc0", "\u1dff"),
    ("\u20d0", "\u20ff"),
    ("\ufe20", "\ufe2f"),
)
# Latin letters whose stroke or ligature Unicode doesn't take apart; capitals are not lower case yet at the first pass.
_FOLDED: Final = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "\u0131": "i"}
)
# Words that lose their beginning, not quotations that begin.
_CLIPPED: Final = {"'em", "'n", "'til", "'tis", "'twas", "'twill", "'cause", "'bout", "'round", "'neath"}


def normalise(text: str, language: str = "en") -> str:
    """Any text to the one form that Cepstra compares, learns and writes.

    language: a code such as "en" or "pt-BR". Other languages than English keep diacritics and digits.
    Returns words with single spaces between them, or "" when nothing in the text can be said. Never raises on a str,
    and normalise(normalise(x)) == normalise(x).

        >>> normalise("Wake me at 7:30 p.m. — don't forget!")
        "wake me at seven thirty p m don't forget"
    """
    language = language.replace("_", "-").split("-")[0].lower()
    if language == "en":
        return _english(text)
    text = _unified(text)
    if language in {"tr", "az"}:  # dotted and dotless i are two letters there
        text = text.replace("I", "\u0131").replace("İ", "i")
    return _words(unicodedata.normalize("NFKC", text.lower()))


def _english(text: str) -> str:
    if _PLAIN_ENGLISH.fullmatch(text):  # most texts: nothing to do but the one rule about plain words
        return spell_halves_of_the_day(text)
    if not text.isascii():
        text = _unified(text.replace("²", " squared ").replace("³", " cubed ")).translate(_ASCII_DIGITS)
    text = expand_english(" ".join(_folded(text).split()))
    return spell_halves_of_the_day(_words(_folded(text)))


def _unified(text: str) -> str:
    """NFKC with one apostrophe and without what can't be seen."""
    return unicodedata.normalize("NFKC", text.translate(_VISIBLE)).translate(_ONE_APOSTROPHE)


def _folded(text: str) -> str:
    """Diacritics off, ligatures apart; other letters that are not Latin stay. NFKC in, NFKC out."""
    if text.isascii():
        return text
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if not _is_diacritic(c))
    return unicodedata.normalize("NFKC", bare).translate(_FOLDED)


def _is_diacritic(character: str) -> bool:
    """A combining mark that any alphabet may use; the vowel signs of an alphabet are not among them."""
    return any(first <= character <= last for first, last in _DIACRITICS)


def _words(text: str) -> str:
    """Letters, marks, digits and apostrophes that belong to words; everything else parts them."""
    words: list[str] = []
    open_quotes = 0
    for token in text.translate(_SPOKEN).replace("''", " ").split():
        word = token if token.isascii() else _without_stray_marks(token)
        if word.startswith("'") and word not in _CLIPPED:
            # Alone it closes what is open; before a word it opens, until a word that ends with one.
            open_quotes = max(0, open_quotes - 1) if word == "'" else open_quotes + 1
        word = word.lstrip("'")
        if word.endswith("'") and open_quotes:
            open_quotes -= 1
            word = word[:-1]
        if word:
            words.append(word)
    return " ".join(words)


def _without_stray_marks(token: str) -> str:
    """Marks only after letters, and never two apostrophes together, which a mark may have kept apart."""
    kept: list[str] = []
    for character in token:
        after_letter = bool(kept) and kept[-1] != "'"
        if unicodedata.category(character)[0] == "M" and not after_letter:
            continue
        if character != "'" or after_letter or not kept:
            kept.append(character)
    return "".join(kept)


class _Table(dict[int, str | None]):
    """A table for str.translate that works a code point out when it first meets it: there are over a million."""

    def __init__(self, replacement: Callable[[str, str], str | None]) -> None:
        super().__init__()
        self._replacement = replacement

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        self[code] = self._replacement(character, unicodedata.category(character))
        return self[code]


def _visible(character: str, category: str) -> str | None:
    """Before NFKC, which would make "5" and "½" one number, and letters of a trade mark."""
    if character in _BEFORE_NFKC:
        return _BEFORE_NFKC[character]
    if category in {"Cf", "Me"} or "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        return None  # soft hyphens, joiners, direction marks; keycaps; variants of a glyph
    return f" {character} " if category == "No" else character


def _spoken(character: str, category: str) -> str:
    return character if character == "'" or category[0] in "LM" or category in {"Nd", "Nl"} else " "


_VISIBLE = _Table(_visible)
_SPOKEN = _Table(_spoken)
_ASCII_DIGITS = _Table(
    lambda character, category: str(unicodedata.decimal(character)) if category == "Nd" else character
)
