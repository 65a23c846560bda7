"""Phrase files that are plain text: one template per line, which is its own intent."""

from __future__ import annotations

import re
from typing import Final

from asr.phrases.definitions import Definitions, Template
from asr.phrases.faults import FaultyError, shown
from asr.phrases.nodes import Place
from asr.phrases.template import Written, read_template

_NEEDS_YAML: Final = "write a YAML file, which may have lists: and rules:, or {0..100:slot} for numbers"
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*")


def read_lines(text: str, language: str) -> Definitions:
    """Every line's template. Raises FaultyError."""
    found = Definitions(language, _NEEDS_YAML, _NEEDS_YAML)
    for number, line in enumerate(text.split("\n"), 1):
        kept = _COMMENT.sub("", line)
        name = kept.strip()
        if not name:
            continue
        place = Place(number, len(kept) - len(kept.lstrip()) + 1)
        if name in found.intents:
            first = found.intents[name][0].place.line
            raise FaultyError(place, f"{shown(name)} is there already, on line {first}; take one of them away")
        found.intents[name] = [Template(read_template(Written(name, place)), name, place)]
    if not found.intents:
        raise FaultyError(Place(1, 1), "no sentence in the file; write one per line")
    return found
