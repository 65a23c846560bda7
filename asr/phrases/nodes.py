"""What a template says, as a tree: bound, with every list and rule in its place.

The tree knows its own facts (longest sentence, whether it may be left out, …), which are worked out from those of
its parts when it is made: nothing walks a tree to refuse it. Rules are shared, not copied: the tree is a graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as Items
    from collections.abc import Set as AbstractSet
    from random import Random

Scalar: TypeAlias = str | int | float | bool  # a slot's value


class Place(NamedTuple):
    """Where something stands in its file, both from 1 on."""

    line: int
    column: int


class Facts(NamedTuple):
    """What is known of a bound node."""

    longest: int  # words
    nullable: bool  # may say nothing at all
    depth: int  # nodes on top of each other
    after_number: bool  # its last word may be one of a number
    slots: dict[str, int]  # how often a sentence may fill each


@dataclass(frozen=True, eq=False, slots=True)
class Words:
    """These words."""

    words: tuple[str, ...]
    place: Place
    facts: Facts


@dataclass(frozen=True, eq=False, slots=True)
class Sequence:
    """Parts one after the other; without any, nothing."""

    items: tuple[Node, ...]
    facts: Facts


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """One of the parts."""

    items: tuple[Node, ...]
    facts: Facts


@dataclass(frozen=True, eq=False, slots=True)
class Permutation:
    """All the parts, in any order."""

    items: tuple[Node, ...]
    facts: Facts


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """One of a list's entries, whose value fills a slot."""

    name: str
    source: str  # the list's name
    body: Choice
    values: tuple[Scalar | None, ...]  # of the entries, in their order; None: the words that are said
    facts: Facts


@dataclass(frozen=True, eq=False, slots=True)
class Fill:
    """Says nothing, and fills a slot with a value."""

    name: str
    value: Scalar
    facts: Facts


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """A rule's body, with its name."""

    name: str
    body: Node
    facts: Facts


Node: TypeAlias = Words | Sequence | Choice | Permutation | Slot | Fill | Rule

# What "pm", "%" and "°" stand behind; a decade's digits too, and "oh" as in "seven oh five".
_NUMBER_WORDS = (
    " zero oh one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred "
    "thousand million billion o'clock half third quarter "
)


def words(said: Items[str], place: Place) -> Words:
    """Words in a row, which may be none."""
    numeric = bool(said) and f" {said[-1]} " in _NUMBER_WORDS
    return Words(tuple(said), place, Facts(len(said), not said, 1, numeric, {}))


def sequence(items: Items[Node]) -> Node:
    """Parts one after the other."""
    if len(items) == 1:
        return items[0]
    return Sequence(tuple(items), _all_of(items))


def choice(items: Items[Node]) -> Choice:
    """One of the parts: at least one."""
    slots: dict[str, int] = {}
    for item in items:
        for name, times in item.facts.slots.items():
            slots[name] = max(times, slots.get(name, 0))
    facts = Facts(
        max(item.facts.longest for item in items),
        any(item.facts.nullable for item in items),
        1 + max(item.facts.depth for item in items),
        any(item.facts.after_number for item in items),
        slots,
    )
    return Choice(tuple(items), facts)


def permutation(items: Items[Node]) -> Permutation:
    """All the parts in any order."""
    numeric = any(item.facts.after_number for item in items)
    return Permutation(tuple(items), _all_of(items)._replace(after_number=numeric))


def slot(name: str, source: str, entries: Choice, values: Items[Scalar | None]) -> Slot:
    """A list's entries, to fill a slot."""
    facts = entries.facts._replace(depth=1 + entries.facts.depth, slots={name: 1})
    return Slot(name, source, entries, tuple(values), facts)


def fill(name: str, value: Scalar) -> Fill:
    """A slot that gets a value without a word."""
    return Fill(name, value, Facts(0, nullable=True, depth=1, after_number=False, slots={name: 1}))


def rule(name: str, body: Node) -> Rule:
    """A rule's body under its name."""
    return Rule(name, body, body.facts._replace(depth=1 + body.facts.depth))


def _all_of(items: Items[Node]) -> Facts:
    slots: dict[str, int] = {}
    numeric = False
    for item in items:
        numeric = item.facts.after_number or (numeric and item.facts.nullable)
        for name, times in item.facts.slots.items():
            slots[name] = times + slots.get(name, 0)
    return Facts(
        sum(item.facts.longest for item in items),
        all(item.facts.nullable for item in items),
        1 + max((item.facts.depth for item in items), default=0),
        numeric,
        slots,
    )


class FirstWords:
    """Which parts of a choice may begin with a word: so that thousands of sentences cost what a few do."""

    def __init__(self) -> None:
        self._firsts: dict[int, frozenset[str]] = {}
        self._indices: dict[int, tuple[dict[str, list[int]], list[int]]] = {}

    def of(self, node: Node) -> AbstractSet[str]:
        """Every word that a node may begin with."""
        known = self._firsts.get(id(node))
        if known is None:
            known = self._firsts[id(node)] = frozenset(self._work_out(node))
        return known

    def alternatives(self, node: Choice, word: str | None) -> list[int]:
        """Numbers of the parts that may begin with a word or say nothing, in their order. None: nothing follows."""
        if id(node) not in self._indices:
            index: dict[str, list[int]] = {}
            empty = [i for i, item in enumerate(node.items) if item.facts.nullable]
            for i, item in enumerate(node.items):
                for first in self.of(item):
                    index.setdefault(first, []).append(i)
            if empty:
                index = {first: sorted({*numbers, *empty}) for first, numbers in index.items()}
            self._indices[id(node)] = index, empty
        index, empty = self._indices[id(node)]
        return empty if word is None else index.get(word, empty)

    def _work_out(self, node: Node) -> set[str]:
        match node:
            case Words():
                return set(node.words[:1])
            case Choice() | Permutation():
                return set().union(*map(self.of, node.items))
            case Sequence():
                found: set[str] = set()
                for item in node.items:
                    found |= self.of(item)
                    if not item.facts.nullable:
                        break
                return found
            case Slot() | Rule():
                return set(self.of(node.body))
            case Fill():
                return set()


def drawn_words(node: Node, draw: Random, choose: Callable[[Items[Node]], Node]) -> list[str]:
    """Words of one sentence of a node: `choose` says which part of a choice, `draw` the order of a permutation."""
    match node:
        case Words():
            return list(node.words)
        case Sequence() | Permutation():
            items = list(node.items)
            if isinstance(node, Permutation):
                draw.shuffle(items)
            return [word for item in items for word in drawn_words(item, draw, choose)]
        case Choice():
            return drawn_words(choose(node.items), draw, choose)
        case Slot() | Rule():
            return drawn_words(node.body, draw, choose)
        case _:
            return []
