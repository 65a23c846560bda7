"""Intents, lists and rules as they were read from a file: templates as trees, names that aren't looked for yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.phrases.nodes import Place, Scalar


@dataclass(frozen=True, eq=False, slots=True)
class Text:
    """Words as they were written, not normalised yet."""

    raw: str
    place: Place


@dataclass(frozen=True, eq=False, slots=True)
class ListRef:
    """{name} or {name:slot}; the name may be a range of numbers."""

    name: str
    slot: str
    place: Place


@dataclass(frozen=True, eq=False, slots=True)
class RuleRef:
    """<name>"""

    name: str
    place: Place


@dataclass(frozen=True, eq=False, slots=True)
class Mark:
    """Says nothing, and fills a slot."""

    slot: str
    value: Scalar


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """Parts one after the other, as written."""

    items: tuple[Draft, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Either:
    """One of the parts, as written."""

    items: tuple[Draft, ...]


@dataclass(frozen=True, eq=False, slots=True)
class AnyOrder:
    """All the parts, in any order, as written."""

    items: tuple[Draft, ...]


Draft: TypeAlias = Text | ListRef | RuleRef | Mark | Row | Either | AnyOrder


class Template(NamedTuple):
    """A sentence template, or one of a rule's."""

    draft: Draft
    written: str
    place: Place


class Entry(NamedTuple):
    """A list's entry: what is said and what it means. value None: the words that were said."""

    draft: Draft
    value: Scalar | None
    place: Place


class Numbers(NamedTuple):
    """A list's range of numbers."""

    numbers: range
    place: Place


@dataclass
class Definitions:
    """A phrase file as it was read, whatever its kind."""

    language: str
    list_remedy: str = "write it below lists:"  # where there is none
    rule_remedy: str = "write it below rules:"
    intents: dict[str, list[Template]] = field(default_factory=dict)
    lists: dict[str, list[Entry | Numbers]] = field(default_factory=dict)
    rules: dict[str, list[Template]] = field(default_factory=dict)
    around: list[Template] = field(default_factory=list)  # what may be said before and after every sentence


def walk(draft: Draft) -> Iterator[Draft]:
    """A draft and all its parts."""
    stack = [draft]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Row | Either | AnyOrder):
            stack += reversed(node.items)
