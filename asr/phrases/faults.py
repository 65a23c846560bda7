"""How a phrase file's faults are said: file, line, column, fault; remedy."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from asr.errors import PhrasesError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from asr.phrases.nodes import Place


class FaultyError(Exception):
    """A fault at a place, before it is known in which file."""

    def __init__(self, place: Place, message: str) -> None:
        """message: fault; remedy."""
        super().__init__(message)
        self.place, self.message = place, message

    def of(self, name: str) -> PhrasesError:
        """The error that users see."""
        return PhrasesError(f"{name}:{self.place.line}:{self.place.column}: {self.message}")


def shown(text: str, length: int = 40) -> str:
    """A piece of the file, short and on one line."""
    text = " ".join(text.split())
    return repr(text if len(text) <= length else f"{text[: length - 1]}…")


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """A remedy for a name that isn't there: the one that was meant, perhaps."""
    near = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else otherwise
