"""Which template a sentence is of, and what its slots hold: every part at every word once, whatever the templates.

Nothing is enumerated: for each node and each word that it may begin at, the chart holds where it may end. What was
said is then read off from the whole sentence down, the first way that fits, in the order of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asr.phrases.nodes import Choice, Fill, FirstWords, Node, Permutation, Rule, Scalar, Sequence, Slot, Words

if TYPE_CHECKING:
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
                return tuple(self._reached_in_any_order(node, begin)[-1])
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

    def _reached_in_any_order(self, node: Permutation, begin: int) -> list[dict[int, None]]:
        """Where a set of members may end, for every set: member i is its bit i."""
        reached: list[dict[int, None]] = [{} for _ in range(1 << len(node.items))]
        reached[0] = {begin: None}
        for said, starts in enumerate(reached):
            for i, item in enumerate(node.items):
                if not said >> i & 1:
                    for start in starts:
                        reached[said | 1 << i] |= dict.fromkeys(self.ends(item, start))
        return reached

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
        count = len(node.items)
        good = [set[int]() for _ in range(1 << count)]
        good[-1] = {end}
        for said in reversed(range((1 << count) - 1)):
            for i in (i for i in range(count) if not said >> i & 1):
                after = good[said | 1 << i]
                good[said] |= {start for start in reached[said] if after.intersection(self.ends(node.items[i], start))}
        said = 0
        while said + 1 < 1 << count:
            said, stop, i = next(
                (said | 1 << i, stop, i)
                for i in range(count)
                if not said >> i & 1
                for stop in self.ends(node.items[i], begin)
                if stop in good[said | 1 << i]
            )
            self._fill(node.items[i], begin, stop, found)
            begin = stop
