"""English digits to words by what stands around them: times, dates, money, measures, codes, years, quantities.

Works on lower-case text that is NFKC and has ASCII digits and single spaces. Each rule rewrites what it knows and
leaves the rest to the next, the most specific first; what a rule writes has no digits, so no other sees it. Every
pattern that begins with digits begins where they do: a text of a million digits takes time in proportion.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from asr.text_numbers import cardinal, decimal, digit_by_digit, fraction, integer, is_year, ordinal, plural, year

if TYPE_CHECKING:
    from collections.abc import Callable

_START = r"(?<!\d)(?<!\d[.,])"  # not inside a longer number
_INTEGER = r"(?:\d{1,3}(?:,\d{3})++(?!\d)|\d++)"
_NUMBER = rf"(?:{_INTEGER}(?:\.\d++)?|(?<![\w.])\.\d++)"
_END = r"(?![a-z0-9])"
_MERIDIEM = r"(?P<half>[ap])(?:\. ?m\.?| ?m)(?![a-z0-9'])"
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"

# Sign: (one, several, one hundredth, several hundredths). A yen and a rupee are seldom written in parts.
_MONEY: Final = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "", ""),
}
_SCALES: Final = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion"}

# Only what means one thing after a number: "m", "g", "s", "h", "l" and "in" don't, and stay letters.
_UNITS: Final = {
    "%": ("percent", "percent"),
    "°c": ("degree celsius", "degrees celsius"),
    "°f": ("degree fahrenheit", "degrees fahrenheit"),
    "°": ("degree", "degrees"),
    "¢": ("cent", "cents"),
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "ft": ("foot", "feet"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "ml": ("milliliter", "milliliters"),
    "mph": ("mile per hour", "miles per hour"),
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "kmh": ("kilometer per hour", "kilometers per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "ms": ("millisecond", "milliseconds"),
    "sec": ("second", "seconds"),
    "secs": ("second", "seconds"),
    "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "hz": ("hertz", "hertz"),
    "khz": ("kilohertz", "kilohertz"),
    "mhz": ("megahertz", "megahertz"),
    "ghz": ("gigahertz", "gigahertz"),
    "kb": ("kilobyte", "kilobytes"),
    "mb": ("megabyte", "megabytes"),
    "gb": ("gigabyte", "gigabytes"),
    "tb": ("terabyte", "terabytes"),
    "kw": ("kilowatt", "kilowatts"),
    "kwh": ("kilowatt hour", "kilowatt hours"),
    "db": ("decibel", "decibels"),
}
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))

# Before these a number counts, and "1500" is no year, nor "march 10" a date.
_COUNTED = (
    r"(?P<counted>(?= +(?:dollars|euros|pounds|cents|percent|degrees|meters|metres|kilometers|kilometres|miles|feet|"
    r"inches|yards|steps|people|times|points|grams|kilograms|liters|litres|calories|watts|volts|hertz|milliseconds|seconds|"
    r"minutes|hours|days|weeks|months|years|words|items|pages|rows|files|copies|plus|minus|divided)\b))?"
)
_SHORT_MONTHS = {month[:3]: month for month in _MONTHS.split("|") if month != "may"} | {"sept": "september"}


def _code(match: re.Match[str]) -> str:
    return f" {digit_by_digit(match[0])} "


def _date(match: re.Match[str]) -> str:
    """2024-01-15 to "january fifteenth twenty twenty four"; what isn't a date is a code."""
    month, day = int(match["month"]), int(match["day"])
    if not (is_year(match["year"]) and 1 <= month <= 12 and 1 <= day <= 31):
        return _code(match)
    return f" {_MONTHS.split('|')[month - 1]} {ordinal(match['day'])} {year(match['year'])} "


def _day_of_month(match: re.Match[str]) -> str:
    month = _SHORT_MONTHS.get(match["month"], match["month"])
    day = cardinal(match["day"]) if match["counted"] is not None else ordinal(match["day"])
    return f"{month} {day if 1 <= int(match['day']) <= 31 else match['day']} "


def _time(match: re.Match[str]) -> str:
    """12:05 to "twelve oh five", 7:00 to "seven o'clock", 7:00 pm to "seven p m", 19:00 to "nineteen hundred"."""
    hour, minute, half = int(match["hour"]), match["minute"], match["half"]
    if match["sign"] == "." and not half:  # 7.30 is a time before "p.m." only
        return match[0]
    if hour > 24:  # of a stopwatch
        return match[0].replace(":", " ")
    words = [cardinal(match["hour"])]
    if minute == "00" and not match["second"]:
        words += [] if half else ["o'clock" if 1 <= hour <= 12 else "hundred"]
    else:
        words += [_below_sixty(part) for part in (minute, match["second"]) if part]
    return f" {' '.join(words)} {half + ' m' if half else ''} "


def _below_sixty(minutes: str) -> str:
    return cardinal(minutes) if minutes == "00" or minutes[0] != "0" else f"oh {cardinal(minutes)}"


def _hour(match: re.Match[str]) -> str:
    return f" {cardinal(match['hour'])} {match['half']} m " if 1 <= int(match["hour"]) <= 12 else match[0]


def _money(match: re.Match[str]) -> str:
    """$5.50 to "five dollars fifty cents", $1.5m to "one point five million dollars", £0.01 to "one penny"."""
    one, many, one_part, many_parts = _MONEY[match["before"] or match["behind"]]
    amount = match["amount"] or match["amount_before"]
    scale = match["scale"]
    if scale:
        return f" {decimal(amount)} {_SCALES.get(scale, scale)} {many} "
    whole, _, parts = amount.replace(",", "").partition(".")
    whole = whole or "0"
    if parts and (len(parts) != 2 or not one_part):
        return f" {decimal(amount)} {many} "
    spoken = []
    if whole.strip("0") or not parts.strip("0"):
        spoken.append(f"{cardinal(whole)} {one if whole.lstrip('0') == '1' else many}")
    if parts.strip("0"):
        spoken.append(f"{cardinal(parts)} {one_part if parts == '01' else many_parts}")
    return f" {' '.join(spoken)} "


def _measure(match: re.Match[str]) -> str:
    one, many = _UNITS[match["unit"].replace(" ", "")]
    return f" {decimal(match['amount'])} {one if match['amount'] == '1' else many} "


def _fraction(match: re.Match[str]) -> str:
    if len(match["lower"]) > 2 or int(match["lower"]) < 2:
        return match[0].replace("\u2044", " ").replace("/", " ")
    return f" {fraction(match['upper'], match['lower'].lstrip('0'), match['whole'] or '')} "


def _several(match: re.Match[str]) -> str:
    """Decades ("the 1990s", "80s music") and seconds ("15s", "for 30s", "a 30s timer")."""
    number, before = match["number"], (match["before"] or match["lasting"] or "").rstrip("'-")
    if match["mark"] == "'" and not number.endswith("0"):
        return f"{before} {integer(number)}'s "
    if is_year(number):
        return f"{before} {plural(year(number))} "
    timer = match["timer"] is not None
    round_tens = len(number) == 2 and number[0] not in "01" and number[1] == "0"
    decade = round_tens and not timer and (match["era"] is not None or not match["lasting"])
    if decade or match["before"] or match["mark"] or len(number) > 2:
        return f"{before} {plural(integer(number))} "
    return f"{before} {cardinal(number)} {'second' if number == '1' or timer else 'seconds'} "


def _version(match: re.Match[str]) -> str:
    return " " + " point ".join(integer(part) for part in match[0].split(".")) + " "


def _plain(match: re.Match[str]) -> str:
    """A number with nothing around that says what it is: a code to dial, a decimal, a year, a quantity."""
    number, before = match["number"], match["dial"] or match["operation"] or ""
    if "." in number:
        words = decimal(number)
    elif match["dial"] and len(number) > 2 and number[1:] != "00" and "," not in number:
        words = digit_by_digit(number)
    elif is_year(number) and match["counted"] is None and not match["operation"]:
        words = year(number)
    else:
        words = integer(number)
    return f"{before} {words} "


_RULES: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (
        re.compile(
            r"(?:(?P<lasting>\b(?:for|in|after|every|another|wait) )"
            rf"|(?P<before>(?:\b(?:the|early|late|mid|his|her|my|their|our)[ -])?'?)){_START}"
            r"(?P<number>\d++)(?P<mark>'?)s(?![a-z0-9'])"
            r"(?P<timer>(?= (?:timer|countdown|delay|timeout|clip|pause|break)\b))?"
            r"(?P<era>(?= (?:music|songs?|hits|rock|pop|jazz|disco|playlist|mix|radio|movies?|films?|shows?|style)\b))?"
        ),
        _several,
    ),
    (re.compile(r"(?<=\d) (?=000(?!\d))"), ","),  # 12 000
    (re.compile(r"(?<![\w'])'(?=\d)"), ""),  # class of '95
    (re.compile(r"(?<![\d-])(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?![\d-])"), _date),
    (re.compile(r"(?<![\d-])\d++(?:-\d++){2,}(?!-)"), _code),  # 1-800-555-1234
    (re.compile(r"(?<![\d(])(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?!\d)"), _code),
    (re.compile(r"(?<![\d$£€¥₹.,-])\d{3}-\d{4}(?![\d-])"), _code),  # 555-1234
    (re.compile(rf"(?P<sign>[$£€¥₹])(?P<low>{_NUMBER})[-\u2013](?=\d)"), r"\g<low> to \g<sign>"),  # $5-10
    (re.compile(r"(?:(?<=[\d%°])|(?<=\d[ap]m))(?: ?\u2013 ?|-)(?=[$£€¥₹]?\d)"), " to "),  # 5-10, and with an en dash
    (re.compile(r"(?<=\d) - (?=\d)|(?<=[\d)]) ?\u2212 ?(?=\d)"), " minus "),
    (re.compile(r"(?<![^\s(=*/\[,;:])[-\u2013\u2212](?=[$£€¥₹]?\.?\d)"), " minus "),
    (
        re.compile(
            r"(?<![\d:.,/])(?P<hour>\d{1,2})(?P<sign>[:.])(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:])"
            rf"(?: ?{_MERIDIEM})?"
        ),
        _time,
    ),
    (re.compile(rf"(?<![\d:.,/$£€¥₹])(?P<hour>\d{{1,2}}) ?{_MERIDIEM}"), _hour),
    (re.compile(r"(?<=\d):(?=\d)"), " to "),  # 4:3
    (
        re.compile(
            rf"\b(?P<month>{_MONTHS}|{'|'.join(_SHORT_MONTHS)})\.? (?P<day>\d{{1,2}})"
            r"(?![\d:/\u2044%°']|[.,]\d|st\b|nd\b|rd\b|th\b)" + _COUNTED
        ),
        _day_of_month,
    ),
    (
        re.compile(
            rf"(?P<before>[$£€¥₹]) ?(?P<amount>{_NUMBER})"
            rf"(?: ?(?P<scale>thousand|million|billion|trillion|bn|[kmb]){_END})?"
            rf"|{_START}(?P<amount_before>{_NUMBER}) ?(?P<behind>[$£€¥₹])(?!\d)"
        ),
        _money,
    ),
    (re.compile(rf"{_START}({_INTEGER})(?:st|nd|rd|th){_END}"), lambda match: f" {ordinal(match[1])} "),
    (re.compile(r"(?<![\d/\u2044.,])(?:(?P<whole>\d++) )?(?P<upper>\d++)\u2044(?P<lower>\d++)"), _fraction),
    (re.compile(r"(?<![\d/\u2044.,])(?:(?P<whole>\d++) )?(?P<upper>[13])/(?P<lower>[24])(?![\d/])"), _fraction),
    (re.compile(r"(?<![\d/\u2044.,])(?:(?P<whole>\d++) )?(?P<upper>[12])/(?P<lower>3)(?![\d/])"), _fraction),
    (
        re.compile(rf"{_START}(?P<amount>{_NUMBER}) ?(?P<unit>° ?[cf]{_END}|[%°¢]|(?:{_UNIT}){_END})"),
        _measure,
    ),
    (re.compile(rf"{_START}\d++(?:\.\d++){{2,}}"), _version),
    (
        re.compile(
            r"(?:(?P<dial>\b(?:dial|redial|call|phone|extension|pin|code|passcode|password|zip|postcode)"
            r"(?: number| code| is)? )|(?P<operation>\b(?:plus|minus|times|divided by) +))?"
            rf"(?<!\d)(?P<number>{_NUMBER}){_COUNTED}"
        ),
        _plain,
    ),
)


def expand_digits(text: str) -> str:
    """Every digit to words; the words stand between spaces, other punctuation stays."""
    for pattern, reading in _RULES:
        text = pattern.sub(reading, text)
    return text
