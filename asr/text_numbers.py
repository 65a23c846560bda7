"""English number words, in the convention of Cepstra's texts: no hyphens, no commas, no "and" ("one hundred five").

`num2words` spells; this module decides what a string of digits is: a quantity, a year, a code read digit by digit.
Every function takes ASCII digits as text, because "007" and "1,000" say more than 7 and 1000 do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

DIGIT_NAMES: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LONGEST_CARDINAL: Final = 15  # digits: up to 999 trillion; beyond that nobody says a number in words
SHORTEST_CODE: Final = 7  # digits without separators: a telephone number or an id
FIRST_YEAR: Final = 1100
LAST_YEAR: Final = 2099


def cardinal(number: str) -> str:
    """A quantity: "105" and "1,234" to words; digit by digit when it is too long to be said otherwise."""
    number = number.replace(",", "")
    return _words(int(number), "cardinal") if len(number) <= LONGEST_CARDINAL else digit_by_digit(number)


def ordinal(number: str) -> str:
    """A rank: "21" to "twenty first"."""
    number = number.replace(",", "")
    return _words(int(number), "ordinal") if len(number) <= LONGEST_CARDINAL else digit_by_digit(number)


def year(number: str) -> str:
    """A year: "1995" to "nineteen ninety five", "1905" to "nineteen oh five", "2007" to "two thousand seven"."""
    return _words(int(number), "year")


def digit_by_digit(number: str) -> str:
    """A code: "007" to "zero zero seven"; anything that isn't a digit is passed over."""
    return " ".join(DIGIT_NAMES[int(digit)] for digit in number if digit.isdigit())


def is_year(number: str) -> bool:
    """Whether four plain digits can be a year."""
    return len(number) == 4 and number.isdigit() and FIRST_YEAR <= int(number) <= LAST_YEAR


def integer(number: str) -> str:
    """Digits of unknown meaning: a code when they begin with zero or are long and not round, else a quantity."""
    code = (number[0] == "0" and len(number) > 1) or (len(number) >= SHORTEST_CODE and not number.endswith("000"))
    return digit_by_digit(number) if code and "," not in number else cardinal(number)


def decimal(number: str) -> str:
    """A quantity that may have a fraction: "3.14" to "three point one four", ".5" to "point five"."""
    whole, point, fraction = number.partition(".")
    words = [cardinal(whole)] if whole else []
    return " ".join(words + (["point", digit_by_digit(fraction)] if point else []))


def fraction(numerator: str, denominator: str, whole: str = "") -> str:
    """Parts of one: "1", "2" to "one half"; "3", "4" to "three quarters"; with a whole, "two and a half"."""
    names = {"2": ("half", "halves"), "4": ("quarter", "quarters")}
    one, many = names.get(denominator) or (ordinal(denominator), ordinal(denominator) + "s")
    if whole:
        part = f"a {one}" if numerator == "1" else f"{cardinal(numerator)} {many}"
        return f"{cardinal(whole)} and {part}"
    return f"{cardinal(numerator)} {one if numerator == '1' else many}"


def plural(words: str) -> str:
    """Several of a number: "nineteen ninety" to "nineteen nineties", "six" to "sixes"."""
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("x") else "s")


@lru_cache(maxsize=4096)
def _words(number: int, kind: Literal["cardinal", "ordinal", "year"]) -> str:
    # Imported at the first number: the library loads all its languages, a tenth of a second that most calls don't need.
    from num2words import num2words  # noqa: PLC0415

    spelt = str(num2words(number, lang="en", to=kind))
    return spelt.replace("-", " ").replace(",", "").replace(" and ", " ")
