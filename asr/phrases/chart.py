"""Which template a sentence is of, and what its slots hold: every part at every word once, whatever the templates.

Nothing is enumerated: for each node and each word that it may begin at, the chart holds where it may end. What was
said is then read off from the whole sentence down, the first way that fits, in the order of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asr.phrases.nodes import Choice, Fill, FirstWords, Node, Permutation, Rule, Scalar, Sequence, Slot, Words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Sequence as Items


class Chart:
    """A sentence's words under templates."""

    def __init__(self, said: Items[str], firsts: FirstWords) -> None:
        """firsts: kept from one sentence to the next."""
        self._said = tuple(said)
        self._firsts = firsts
        self._ends: dict[tuple[int, int], tuple[int, ...]] = {}

    def slots(self, node: Node) -> dict[str, Scalar] | None:
        """Slots and values if the node says all of the words, in the order said; None if it doesn't."""
        if len(self._said) not in self.ends(node, 0):
            return None
        found: dict[str, Scalar] = {}
        self._fill(node, 0, len(self._said), found)
        return found

    def ends(self, node: Node, begin: int) -> tuple[int, ...]:
        """Where a node that begins at a word may end."""
        key = id(node), begin
        known = self._ends.get(key)
        if known is None:
            known = self._ends[key] = self._work_out(node, begin)
        return known

    def _work_out(self, node: Node, begin: int) -> tuple[int, ...]:
        match node:
            case Words():
                end = begin + len(node.words)
                return (end,) if self._said[begin:end] == node.words else ()
            case Sequence():
                return tuple(self._reached(node, begin)[-1])
            case Choice():
                ends: dict[int, None] = {}
                for number in self._fitting(node, begin):
                    ends |= dict.fromkeys(self.ends(node.items[number], begin))
                return tuple(ends)
            case Permutation():
                return self._ends_in_any_order(node, begin)
            case Slot() | Rule():
                return self.ends(node.body, begin)
            case Fill():
                return (begin,)

    def _fitting(self, node: Choice, begin: int) -> list[int]:
        return self._firsts.alternatives(node, self._said[begin] if begin < len(self._said) else None)

    def _reached(self, node: Sequence, begin: int) -> list[dict[int, None]]:
        """Where the first k parts may end, for every k."""
        reached: list[dict[int, None]] = [{begin: None}]
        for item in node.items:
            reached.append({end: None for start in reached[-1] for end in self.ends(item, start)})
        return reached

    def _ends_in_any_order(self, node: Permutation, begin: int) -> tuple[int, ...]:
        ends: dict[int, None] = {}
        for said, reached in enumerate(self._reached_in_any_order(node, begin)):
            if reached and _may_end(node, said):
                ends |= reached
        return tuple(ends)

    def _reached_in_any_order(self, node: Permutation, begin: int) -> list[dict[int, None]]:
        """Where a set of members that say something may end, for every set: member i is its bit i."""
        reached: list[dict[int, None]] = [{} for _ in range(1 << len(node.items))]
        reached[0] = {begin: None}
        for said, starts in enumerate(reached):
            for start in starts:
                for i, end in self._next_members(node, said, start):
                    reached[said | 1 << i][end] = None
        return reached

    def _next_members(self, node: Permutation, said: int, start: int) -> Iterator[tuple[int, int]]:
        """Members that aren't said yet and may say something here, with where they may end."""
        for i, item in enumerate(node.items):
            if not said >> i & 1:
                for end in self.ends(item, start):
                    if end > start:
                        yield i, end

    def _fill(self, node: Node, begin: int, end: int, found: dict[str, Scalar]) -> None:
        """Write down the slots of a node that says the words from begin to end."""
        match node:
            case Sequence():
                self._fill_sequence(node, begin, end, found)
            case Choice():
                self._fill(node.items[self._first(node, begin, end)], begin, end, found)
            case Permutation():
                self._fill_permutation(node, begin, end, found)
            case Slot():
                value = node.values[self._first(node.body, begin, end)]
                found[node.name] = " ".join(self._said[begin:end]) if value is None else value
            case Rule():
                self._fill(node.body, begin, end, found)
            case Fill():
                found[node.name] = node.value
            case Words():
                pass

    def _first(self, node: Choice, begin: int, end: int) -> int:
        return next(i for i in self._fitting(node, begin) if end in self.ends(node.items[i], begin))

    def _fill_sequence(self, node: Sequence, begin: int, end: int, found: dict[str, Scalar]) -> None:
        reached = self._reached(node, begin)
        good = [set[int]() for _ in node.items] + [{end}]  # where part k may begin so that the last ends at the end
        for k in reversed(range(len(node.items))):
            good[k] = {start for start in reached[k] if good[k + 1].intersection(self.ends(node.items[k], start))}
        for k, item in enumerate(node.items):
            stop = next(stop for stop in self.ends(item, begin) if stop in good[k + 1])
            self._fill(item, begin, stop, found)
            begin = stop

    def _fill_permutation(self, node: Permutation, begin: int, end: int, found: dict[str, Scalar]) -> None:
        reached = self._reached_in_any_order(node, begin)
        good: list[set[int]] = [
            set() for _ in reached
        ]  # where a set of members may end so that the last ends at the end
        for said in reversed(range(len(reached))):
            for start in reached[said]:
                if (start == end and _may_end(node, said)) or any(
                    stop in good[said | 1 << i] for i, stop in self._next_members(node, said, start)
                ):
                    good[said].add(start)
        said = 0
        while begin < end:
            i, stop = next(
                (i, stop) for i, stop in self._next_members(node, said, begin) if stop in good[said | 1 << i]
            )
            self._fill(node.items[i], begin, stop, found)
            said, begin = said | 1 << i, stop
        for i, item in enumerate(node.items):
            if not said >> i & 1:
                self._fill(item, end, end, found)


def _may_end(node: Permutation, said: int) -> bool:
    """Whether all members that aren't said yet may say nothing."""
    return all(said >> i & 1 or item.facts.nullable for i, item in enumerate(node.items))
