"""Prompts to speak, `domain<TAB>text` on each line: commands, words, digits, numbers, spelling, dates, general English.

  python prompts.py COUNT SEED [CLAUSES.txt] > prompts.tsv

COUNT lines, drawn by SEED; the same seed gives the same lines. CLAUSES: short pieces of general English, one on each
line, of which a quarter of the prompts are then. What it draws from stands in prompts.yaml.
"""

from __future__ import annotations

import argparse
import random
import re
from pathlib import Path

import yaml
from num2words import num2words

STATED = yaml.safe_load(Path(__file__).with_name("prompts.yaml").read_text(encoding="utf-8"))
LISTS = {name: [entry.strip() for entry in entries.split(";")] for name, entries in STATED["lists"].items()}
DIGITS = [num2words(digit) for digit in range(10)]
SHARES = {"command": 0.50, "word": 0.10, "digits": 0.06, "number": 0.03, "spelling": 0.03, "date": 0.03, "clause": 0.25}
NUMBERS = {  # of templates
    "pct": lambda draw: draw.choice([0, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 100, draw.randint(1, 99)]),
    "temp": lambda draw: draw.randint(12, 85),
    "small": lambda draw: draw.choice([*range(1, 16), 20, 25, 30, 45]),
    "secs": lambda draw: draw.choice([5, 10, 15, 20, 30, 40, 45, 50, 60, 90]),
    "mins": lambda draw: draw.randint(1, 59),
    "hours": lambda draw: draw.randint(2, 12),
    "num": lambda draw: draw.choice([draw.randint(1, 100), draw.randint(1, 999)]),
    "deg": lambda draw: draw.choice([30, 45, 60, 90, 120, 180, 270, 360]),
    "oven": lambda draw: draw.randrange(150, 500, 25),
}


class Prompts:
    """Draws them."""

    def __init__(self, seed: int, clauses: list[str]) -> None:
        self.draw = random.Random(seed)  # noqa: S311  reproducible, not secret
        self.clauses = clauses
        self.kinds = [kind for kind in SHARES if kind != "clause" or clauses]

    def line(self) -> str:
        """One prompt behind its domain."""
        (kind,) = self.draw.choices(self.kinds, [SHARES[kind] for kind in self.kinds])
        return f"{kind}\t{getattr(self, kind)()}"

    def command(self) -> str:
        """A template with its lists filled in, now and then politely."""
        text = re.sub(r"\{(\w+)\}", lambda found: self._filled(found[1]), self.draw.choice(STATED["templates"]))
        chance = self.draw.random()
        if chance < 0.06:
            return f"please {text}"
        if chance < 0.12:
            return f"{text} please"
        calls = ("hey computer", "okay computer", "computer", "can you", "could you please", "i want you to")
        return f"{self.draw.choice(calls)} {text}" if chance < 0.16 else text

    def word(self) -> str:
        """One to four words that are commands by themselves."""
        return " ".join(self.draw.choice(LISTS["word"]) for _ in range(self.draw.choice([1, 1, 1, 2, 3, 4])))

    def digits(self) -> str:
        """One to six digits."""
        return " ".join(self.draw.choice(DIGITS) for _ in range(self.draw.choice([1, 1, 2, 3, 4, 5, 6])))

    def number(self) -> str:
        """Up to four digits as one number."""
        return self._said(self.draw.choice([self.draw.randint(0, 100), self.draw.randint(0, 9999)]))

    def spelling(self) -> str:
        """One to five letters."""
        return " ".join(self.draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(self.draw.randint(1, 5)))

    def date(self) -> str:
        """A day of the year, in three ways."""
        month, weekday = self.draw.choice(LISTS["month"]), self.draw.choice(LISTS["day"][:7])
        day = num2words(self.draw.randint(1, 31), to="ordinal").replace("-", " ")
        return self.draw.choice([f"{month} {day}", f"the {day} of {month}", f"{weekday} {month} {day}"])

    def clause(self) -> str:
        """General English."""
        return self.draw.choice(self.clauses)

    def _filled(self, name: str) -> str:
        if name == "clock":
            return self._clock()
        if name == "digits":
            return " ".join(self.draw.choice([*DIGITS, "oh"]) for _ in range(self.draw.randint(3, 8)))
        return self._said(NUMBERS[name](self.draw)) if name in NUMBERS else self.draw.choice(LISTS[name])

    def _said(self, number: int) -> str:
        text = num2words(number).replace("-", " ").replace(",", "")
        return text if self.draw.random() < 0.5 else text.replace(" and ", " ")

    def _clock(self) -> str:
        hour, minute = self.draw.randint(1, 12), self.draw.choice([0, 0, 5, 10, 15, 20, 30, 30, 40, 45, 50])
        if minute == 30 and self.draw.random() < 0.3:
            return f"half past {num2words(hour)}"
        said = num2words(hour) + {0: "", 5: " oh five"}.get(minute, f" {num2words(minute)}".replace("-", " "))
        if minute == 0 and self.draw.random() < 0.3:
            return f"{said} o'clock"
        return said + self.draw.choice(["", "", " a m", " p m", " in the morning", " in the evening"])


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("clauses", type=Path, nargs="?")
    arguments = parser.parse_args()
    clauses = arguments.clauses.read_text(encoding="utf-8").split("\n") if arguments.clauses else []
    prompts = Prompts(arguments.seed, [line.strip() for line in clauses if line.strip()])
    print("\n".join(prompts.line() for _ in range(arguments.count)))


if __name__ == "__main__":
    main()
