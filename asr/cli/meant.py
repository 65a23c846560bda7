"""What commands were meant, or why none was, in words: for a person who sees only the sentence, or an empty line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from asr.cli.messages import complain
from asr.cli.phrases import to_slots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.results import Result

_REASONS = {"no-speech": "nobody speaks", "too-short": "too short for any of the sentences"}


def explain_to_watcher(result: Result, name: str = "") -> None:
    """On standard error, where standard output is a terminal: what is piped stays as it is. name: of the recording."""
    if sys.stdout is not None and sys.stdout.isatty():
        for line in in_words(result):
            complain(f"{name}: {line}" if name else line)


def in_words(result: Result) -> Iterator[str]:
    """A line for each command in a result, or one that says why there is none; of free text only that there is none."""
    meaning = result.meaning
    if meaning is None and result.no_speech:
        yield _REASONS["no-speech"]
    for said in result.commands:
        yield f"{said.command.intent} {to_slots(said.command.slots)}".rstrip() + f" (confidence {said.confidence:.2f})"
    if meaning is None or meaning.rejected is None:
        return
    reason = _REASONS.get(meaning.rejected, "most likely something else was said")
    if meaning.alternatives:
        nearest = meaning.alternatives[0]
        reason += f"; the nearest is {nearest.command.sentence!r} (confidence {nearest.confidence:.2f})"
    yield f"no command ({meaning.rejected}): {reason}"
