"""Which word became which: the shortest edit between two sequences, and its counts (rapidfuzz does the search)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rapidfuzz.distance import Levenshtein

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
    sum is always the same. This takes rapidfuzz's edit, as `align` does.
    """
    substitutions = deletions = insertions = 0
    for edit in Levenshtein.editops(reference, hypothesis):
        substitutions += edit.tag == "replace"
        deletions += edit.tag == "delete"
        insertions += edit.tag == "insert"
    return Counts(len(reference) - substitutions - deletions, substitutions, deletions, insertions)


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[Step, ...]:
    """The two sequences side by side, from first to last."""
    steps: list[Step] = []
    for block in Levenshtein.opcodes(reference, hypothesis):
        said = reference[block.src_start : block.src_end]
        heard = hypothesis[block.dest_start : block.dest_end]
        match block.tag:
            case "equal":
                steps += [Step("equal", word, other) for word, other in zip(said, heard, strict=True)]
            case "replace":
                steps += [Step("substitution", word, other) for word, other in zip(said, heard, strict=True)]
            case "delete":
                steps += [Step("deletion", word, None) for word in said]
            case _:
                steps += [Step("insertion", None, word) for word in heard]
    return tuple(steps)
