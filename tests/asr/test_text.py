"""The normaliser from outside: a table made by hand, an independent speller of numbers, properties over any text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.text import normalise

if TYPE_CHECKING:
    from pathlib import Path

ANY_TEXT = settings(derandomize=True, deadline=None, max_examples=500)
SHAPE = re.compile(r"|\S+( \S+)*")
LANGUAGES = ["en", "fr", "tr", "hi"]

TABLE = [
    # cardinals
    ("0", "zero"),
    ("5 apples", "five apples"),
    ("21", "twenty one"),
    ("105", "one hundred five"),
    ("1,000", "one thousand"),
    ("1,234,567", "one million two hundred thirty four thousand five hundred sixty seven"),
    ("12 000", "twelve thousand"),
    ("1000000", "one million"),
    ("999,000,000,000,001", "nine hundred ninety nine trillion one"),
    ("1,2,3", "one two three"),
    ("set the volume to 15", "set the volume to fifteen"),
    # negative numbers, ranges, sums
    ("-5", "minus five"),
    ("it is \u22125 outside", "it is minus five outside"),
    ("5 - 3", "five minus three"),
    ("5-10 minutes", "five to ten minutes"),
    ("1914\u20131918", "nineteen fourteen to nineteen eighteen"),
    ("what is 1250 + 300", "what is one thousand two hundred fifty plus three hundred"),
    ("5 * 3 = 15", "five times three equals fifteen"),
    ("10 \u00f7 2", "ten divided by two"),
    ("16:9", "sixteen to nine"),
    # ordinals
    ("1st", "first"),
    ("the 2nd door", "the second door"),
    ("21st", "twenty first"),
    ("12TH", "twelfth"),
    ("101st", "one hundred first"),
    ("1,000th", "one thousandth"),
    # times
    ("7:30", "seven thirty"),
    ("7:30 pm", "seven thirty p m"),
    ("7:30 P.M.", "seven thirty p m"),
    ("7.30 p.m.", "seven thirty p m"),
    ("12:05", "twelve oh five"),
    ("1:05 a.m. today", "one oh five a m today"),
    ("7:00", "seven o'clock"),
    ("7:00pm", "seven p m"),
    ("7 pm", "seven p m"),
    ("7 o'clock", "seven o'clock"),
    ("19:00", "nineteen hundred"),
    ("0:15", "zero fifteen"),
    ("7pm-8pm", "seven p m to eight p m"),
    ("11:59:03", "eleven fifty nine oh three"),
    ("45:30", "forty five thirty"),
    ("seven pm", "seven p m"),
    ("seven am", "seven a m"),
    ("which one am i", "which one am i"),
    ("24/7", "twenty four seven"),
    # dates and years
    ("1995", "nineteen ninety five"),
    ("2007", "two thousand seven"),
    ("1905", "nineteen oh five"),
    ("1900", "nineteen hundred"),
    ("in 2024", "in twenty twenty four"),
    ("1500 meters", "one thousand five hundred meters"),
    ("1,995", "one thousand nine hundred ninety five"),
    ("2500", "two thousand five hundred"),
    ("the 1990s", "the nineteen nineties"),
    ("the '90s", "the nineties"),
    ("play 80s music", "play eighties music"),
    ("two 7's", "two seven's"),
    ("1990's", "nineteen nineties"),
    ("class of '95", "class of ninety five"),
    ("June 5, 2007", "june fifth two thousand seven"),
    ("Dec. 25", "december twenty fifth"),
    ("march 10 steps", "march ten steps"),
    ("2024-01-15", "january fifteenth twenty twenty four"),
    ("2024-13-15", "two zero two four one three one five"),
    # percents, units
    ("50%", "fifty percent"),
    ("3.5 %", "three point five percent"),
    ("5-10%", "five to ten percent"),
    ("2000%", "two thousand percent"),
    ("20°C", "twenty degrees celsius"),
    ("-1°F", "minus one degree fahrenheit"),
    ("20℃", "twenty degrees celsius"),
    ("turn 90°", "turn ninety degrees"),
    ("5km", "five kilometers"),
    ("1 km", "one kilometer"),
    ("60 mph", "sixty miles per hour"),
    ("3\u20134 kg", "three to four kilograms"),
    ("for 30s", "for thirty seconds"),
    ("search for 80s music", "search for eighties music"),
    ("wait 15s", "wait fifteen seconds"),
    ("a 30s timer", "a thirty second timer"),
    ("5g", "five g"),
    # money
    ("$5.50", "five dollars fifty cents"),
    ("£3", "three pounds"),
    ("€20", "twenty euros"),
    ("20 €", "twenty euros"),
    ("$1.00", "one dollar"),
    ("$0.05", "five cents"),
    ("£0.01", "one penny"),
    ("$1,234", "one thousand two hundred thirty four dollars"),
    ("$1.5 million", "one point five million dollars"),
    ("$5k", "five thousand dollars"),
    ("$5-10", "five to ten dollars"),
    ("$.50", "fifty cents"),
    ("$1.5", "one point five dollars"),
    ("-$5", "minus five dollars"),
    ("¥100", "one hundred yen"),
    ("₹1", "one rupee"),
    # decimals, fractions, versions
    ("3.5", "three point five"),
    ("3.14", "three point one four"),
    ("0.50", "zero point five zero"),
    (".5", "point five"),
    ("1.2.3", "one point two point three"),
    ("2½", "two and a half"),
    ("3/4", "three quarters"),
    ("1 2/3 cups", "one and two thirds cups"),
    ("⅛", "one eighth"),
    ("1\u20441", "one one"),
    # read digit by digit
    ("007", "zero zero seven"),
    ("555-1234", "five five five one two three four"),
    ("(555) 123-4567", "five five five one two three four five six seven"),
    ("1-800-555-1234", "one eight zero zero five five five one two three four"),
    ("12345678", "one two three four five six seven eight"),
    ("call 911", "call nine one one"),
    ("dial 500", "dial five hundred"),
    ("my pin is 4242", "my pin is four two four two"),
    ("9" * 16 + ",000", " ".join(["nine"] * 16 + ["zero"] * 3)),
    # digits in words, digits of other scripts
    ("mp3", "mp three"),
    ("R2D2", "r two d two"),
    ("COVID-19", "covid nineteen"),
    ("5-year-old", "five year old"),
    ("CO₂", "co two"),
    ("٣", "three"),
    ("①②", "one two"),
    # signs
    ("R&D", "r and d"),
    ("C++", "c plus plus"),
    ("joe.smith@example.com", "joe dot smith at example dot com"),
    ("#1 hit", "number one hit"),
    ("#hashtag", "hashtag"),
    # abbreviations
    ("Mr. Smith", "mister smith"),
    ("Mrs. Jones", "missus jones"),
    ("Dr. Watson", "doctor watson"),
    ("Elm Dr.", "elm dr"),
    ("cats vs. dogs", "cats versus dogs"),
    ("No. 5", "number five"),
    ("no. I won't", "no i won't"),
    ("St. Louis", "st louis"),
    ("U.S.A.", "u s a"),
    # punctuation and apostrophes
    ("", ""),
    ("?!… — “”", ""),
    ("Turn on the LIGHT, please!", "turn on the light please"),
    ("  turn\ton\nthe\u00a0light ", "turn on the light"),
    ("don\u2019t", "don't"),
    ("O`Brien\u02bcs", "o'brien's"),
    ("'hello' he said", "hello he said"),
    ("\u2018hello,\u2019 he said", "hello he said"),
    ("the dogs' bowl", "the dogs' bowl"),
    ("'tis the dogs' bowl", "tis the dogs' bowl"),
    ("rock 'n' roll", "rock n roll"),
    ("well-known", "well known"),
    ("a_b/c", "a b c"),
    ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
    # letters
    ("café naïve Zoë", "cafe naive zoe"),
    ("cafe\u0301", "cafe"),
    ("straße Ørsted Łódź", "strasse orsted lodz"),
    ("\uff26\uff35\uff2c\uff2c ﬁne", "full fine"),
    ("İstanbul", "istanbul"),
    ("Привет", "привет"),
    ("नमस्ते", "नमस्ते"),
    ("Windows™ 10", "windows ten"),
]


@pytest.mark.parametrize(("written", "spoken"), TABLE)
def test_table(written: str, spoken: str) -> None:
    assert normalise(written) == spoken
    assert normalise(f"Say {written} now") == " ".join(f"say {spoken} now".split())


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Élan, l\u2019homme: peut-être 5!", "fr", "élan l'homme peut être 5"),
        ("e\u0301t\u00e9", "fr", "été"),
        ("ÜBER die Straße", "de-DE", "über die straße"),
        ("IŞIK İstanbul", "tr", "\u0131ş\u0131k istanbul"),
        ("ΟΔΟΣ", "el", "οδος"),
        ("नमस्ते, दुनिया!", "hi", "नमस्ते दुनिया"),
        ("日本語。テスト", "ja", "日本語 テスト"),
        ("ｶﾞ", "ja", "ガ"),
        ("Hello 5", "", "hello 5"),
        ("Hello 5", "EN_us", "hello five"),
    ],
)
def test_languages(text: str, language: str, expected: str) -> None:
    assert normalise(text, language) == expected


FRAGMENTS = st.sampled_from(
    [
        *"ab159 ',.-:/$%°+=@&#s\u2013\u2212½²№\"\u2019\u2018\u0301\u200d\u0338İßŉ\t\n",
        "pm",
        "am",
        "one ",
        "Dr.",
        "No.",
        "june ",
        "km",
        "th",
        "000",
        "the ",
        "dial ",
        "\u1100",
        "\u1161",
        "\u017f",
        "€",
        "minus ",
    ]
)


@ANY_TEXT
@given(
    st.one_of(st.text(), st.text(st.characters()), st.lists(FRAGMENTS, max_size=20).map("".join)),
    st.sampled_from(LANGUAGES),
)
def test_any_text(text: str, language: str) -> None:
    once = normalise(text, language)
    assert normalise(once, language) == once
    assert SHAPE.fullmatch(once)
    assert unicodedata.normalize("NFKC", once) == once
    assert not any(unicodedata.category(c)[0] in "SPC" for c in once if c != "'")
    assert not re.search("(^| )'|''", once)
    if language == "en":
        assert not re.search(r"\d|[A-Z]", once)


def test_all_over_unicode() -> None:
    for code in range(0, sys.maxunicode + 1, 19):
        once = normalise(f"a{chr(code)}b {chr(code)}")
        assert normalise(once) == once
        assert SHAPE.fullmatch(once)


@ANY_TEXT
@given(
    st.lists(st.sampled_from(["turn", "the", "i'm", "dogs'", "o'clock", "mr", "a", "p", "m", "one", "oh", "no", "etc"]))
)
def test_plain_words_stay(words: list[str]) -> None:
    assert normalise(" ".join(words)) == " ".join(words)


@pytest.mark.parametrize(
    "piece", ["1", ",1", "1,111", "1.", "1-", "1:", "'", "a.", "$1", "e\u0301", "½", "@a.", "1s ", "000 "]
)
def test_a_long_text_ends(piece: str) -> None:
    assert SHAPE.fullmatch(normalise(piece * 5000))


def test_plain_text_does_not_load_the_speller() -> None:
    program = "import sys; from asr.text import normalise; normalise('Turn on!'); print('num2words' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )


# An independent speller of numbers below a million, to hold num2words to.
ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
RANKS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def spell(number: int) -> str:
    for size, name in [(1000, " thousand"), (100, " hundred")]:
        if number >= size:
            rest = number % size
            return spell(number // size) + name + (f" {spell(rest)}" if rest else "")
    if number < 20:
        return ONES[number]
    return TENS[number // 10] + (f" {ONES[number % 10]}" if number % 10 else "")


def spell_rank(number: int) -> str:
    *head, last = spell(number).split()
    rank = RANKS.get(last) or (last[:-1] + "ieth" if last.endswith("y") else last + "th")
    return " ".join([*head, rank])


def spell_year(number: int) -> str:
    century, rest = divmod(number, 100)
    if 2000 <= number < 2010:
        return spell(number)
    if rest == 0:
        return f"{spell(century)} hundred"
    return f"{spell(century)} {'oh ' if rest < 10 else ''}{spell(rest)}"


def test_cardinals_are_spelt_right() -> None:
    for number in [*range(10_000), *range(10_000, 1_000_000, 997)]:
        assert normalise(f"{number:,}") == spell(number)


def test_ordinals_are_spelt_right() -> None:
    for number in [*range(1, 1200), *range(1200, 1_000_000, 997)]:
        assert normalise(f"{number:,}th") == spell_rank(number)


def test_years_are_spelt_right() -> None:
    for number in range(1100, 2100):
        assert normalise(f"in {number}.") == f"in {spell_year(number)}"


@pytest.mark.real
def test_the_corpus_is_normalised(corpus: Path) -> None:
    files = sorted(corpus.glob("*.jsonl"))
    assert files
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            text = json.loads(line).get("text", "")
            assert normalise(text) == text
