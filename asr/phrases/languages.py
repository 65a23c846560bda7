"""Sets of sentences as states of one automaton: equal sets are the same state, so what is built is always minimal.

A state is a set of word sequences: whether the empty one is in it, and for each first word the state of what follows.
All sets are finite, so states are made from their ends on, and one that is there already is taken again (the register
of Daciuk et al. 2000). A union is the subset construction, remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from asr.phrases.nodes import Choice, Fill, Permutation, Rule, Sequence, Slot, Words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from asr.phrases.nodes import Node

MAX_STATES: Final = 200_000
END: Final = 0  # nothing more is said

Arcs: TypeAlias = tuple[tuple[str, int], ...]  # sorted by word


class TooManyStatesError(Exception):
    """The subset construction got out of hand."""

    def __init__(self, rule: str | None) -> None:
        """rule: where that was."""
        super().__init__(rule)
        self.rule = rule


class Languages:
    """States, and what is known of them."""

    def __init__(self, *, lists_as_words: bool = False) -> None:
        """lists_as_words: a list's slot counts as one word, such as "{room}", to be drawn."""
        self.arcs: list[Arcs] = []
        self.final: list[bool] = []
        self._as_words = lists_as_words
        self._register: dict[tuple[bool, Arcs], int] = {}
        self._unions: dict[frozenset[int], int] = {}
        self._built: dict[tuple[int, int], int] = {}
        self._counts: dict[int, int] = {}
        self._rules: list[str] = []
        self.state(final=True, arcs=())

    def state(self, *, final: bool, arcs: Arcs) -> int:
        """The state of these; raises TooManyStatesError."""
        found = self._register.setdefault((final, arcs), len(self.arcs))
        if found == len(self.arcs):
            if found >= MAX_STATES:
                raise TooManyStatesError(self._rules[-1] if self._rules else None)
            self.arcs.append(arcs)
            self.final.append(final)
        return found

    def union(self, states: Iterable[int]) -> int:
        """What is in any of them."""
        members = frozenset(states)
        if len(members) == 1:
            return next(iter(members))
        known = self._unions.get(members)
        if known is not None:
            return known
        targets: dict[str, set[int]] = {}
        for member in members:
            for word, target in self.arcs[member]:
                targets.setdefault(word, set()).add(target)
        arcs: list[tuple[str, int]] = []
        for word in sorted(targets):  # a loop: a frame less for each word of a sentence
            arcs.append((word, self.union(targets[word])))  # noqa: PERF401
        united = self.state(final=any(self.final[member] for member in members), arcs=tuple(arcs))
        self._unions[members] = united
        return united

    def before(self, node: Node, then: int = END) -> int:
        """What a node says, and behind it what `then` says."""
        if self._as_words and isinstance(node, Slot):
            return self.state(final=False, arcs=((f"{{{node.source}}}", then),))
        key = id(node), then  # nodes outlive this
        if key not in self._built:
            self._built[key] = self._build(node, then)
        return self._built[key]

    def _build(self, node: Node, then: int) -> int:
        match node:
            case Words():
                for word in reversed(node.words):
                    then = self.state(final=False, arcs=((word, then),))
            case Sequence():
                for item in reversed(node.items):
                    then = self.before(item, then)
            case Choice():
                then = self.union(self._each_before(node.items, then))
            case Permutation():
                then = self._in_any_order(node, then)
            case Slot():
                then = self.before(node.body, then)
            case Rule():
                self._rules.append(node.name)
                then = self.before(node.body, then)
                self._rules.pop()
            case Fill():
                pass
        return then

    def _each_before(self, items: Iterable[Node], then: int) -> list[int]:
        return [self.before(item, then) for item in items]

    def _in_any_order(self, node: Permutation, then: int) -> int:
        """States for every set of members that is still to come, smaller sets first."""
        count = len(node.items)
        left = [then] * (1 << count)
        for waiting in range(1, 1 << count):
            members = [i for i in range(count) if waiting >> i & 1]
            left[waiting] = self.union([self.before(node.items[i], left[waiting & ~(1 << i)]) for i in members])
        return left[-1]

    def reachable(self, root: int) -> list[int]:
        """States that a root leads to, itself included, every one behind those it leads to."""
        seen = {root}
        stack = [root]
        while stack:
            for _, target in self.arcs[stack.pop()]:
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return sorted(seen)  # a state is made after those it leads to

    def count(self, root: int) -> int:
        """How many sentences there are, exactly."""
        for state in self.reachable(root):
            if state not in self._counts:
                self._counts[state] = self.final[state] + sum(self._counts[target] for _, target in self.arcs[state])
        return self._counts[root]

    def sentences(self, root: int) -> Iterator[tuple[str, ...]]:
        """All of them, in alphabetical order."""
        stack: list[tuple[tuple[str, ...], int]] = [((), root)]
        while stack:
            said, state = stack.pop()
            if self.final[state]:
                yield said
            stack += [((*said, word), target) for word, target in reversed(self.arcs[state])]
