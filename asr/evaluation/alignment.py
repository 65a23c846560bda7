"""Which word became which: the shortest edit between two sequences, and its counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from asr.edits import edits

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["equal", "substitution", "deletion", "insertion"]


@dataclass(frozen=True, slots=True)
class Step:
    """One place of an alignment: a reference word, a hypothesis word, or one of each."""

    kind: Kind
    reference: str | None  # None: inserted, nobody said it
    hypothesis: str | None  # None: deleted, it wasn't heard


@dataclass(frozen=True, slots=True)
class Counts:
    """Edit counts of one utterance, or of many added up: a corpus rate is a quotient of sums, not a mean of rates."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions: the Levenshtein distance."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference(self) -> int:
        """Length of the reference: what was hit, substituted or deleted."""
        return self.hits + self.substitutions + self.deletions

    @property
    def rate(self) -> float | None:
        """Errors per reference word (or character), above 1 with many insertions; None for an empty reference."""
        return self.errors / self.reference if self.reference else None

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.hits + other.hits,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it, with the rate and the reference's length."""
        return {
            "rate": None if self.rate is None else round(self.rate, 6),
            "reference": self.reference,
            "errors": self.errors,
            "substitutions": self.substitutions,
            "deletions": self.deletions,
            "insertions": self.insertions,
        }


def count(reference: Sequence[str], hypothesis: Sequence[str]) -> Counts:
    """Edit counts between two sequences of words, or two strings of characters.

    Where several shortest edits exist, they may share out substitutions, deletions and insertions differently; their
    sum is always the same. This takes the edit that `align` takes.
    """
    substitutions = deletions = insertions = 0
    for edit in edits(reference, hypothesis):
        substitutions += edit.kind == "replace"
        deletions += edit.kind == "delete"
        insertions += edit.kind == "insert"
    return Counts(len(reference) - substitutions - deletions, substitutions, deletions, insertions)


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[Step, ...]:
    """The two sequences side by side, from first to last."""
    steps: list[Step] = []
    said = 0
    for kind, i, j in edits(reference, hypothesis):
        steps += [Step("equal", word, word) for word in reference[said:i]]
        said = i
        if kind == "insert":
            steps.append(Step("insertion", None, hypothesis[j]))
            continue
        heard = hypothesis[j] if kind == "replace" else None
        steps.append(Step("deletion" if heard is None else "substitution", reference[i], heard))
        said += 1
    return (*steps, *(Step("equal", word, word) for word in reference[said:]))
