"""Sentences of a phrase file that leave nothing out: every template, alternative and list entry as soon as may be."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from asr.phrases.nodes import Choice, Permutation, Rule, Sequence, Slot, drawn_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as Items

    from asr.phrases.nodes import Node
    from asr.phrases.phrase_set import PhraseSet

Part = TypeVar("Part")

_TRIES: Final = 1000  # one after the other that give nothing new: then what is left is looked up


def covering(phrases: PhraseSet, n: int, seed: int = 0) -> list[str]:
    """Up to n different sentences; all of them, sorted, if there are no more.

    At every choice (of intent, template, alternative, list entry) what has not been said yet comes first, and then
    everything as often as anything else. So n sentences cover more than n drawn by chance do. The same seed gives the
    same sentences. Raises PhrasesError where there are too many to tell.
    """
    if phrases.sentences <= n:
        return phrases.samples(n)
    drawing = _Drawing(random.Random(seed))  # noqa: S311  no secret
    intents = [[sentence.node for sentence in sentences] for sentences in phrases.grammar.intents.values()]
    found: dict[str, None] = {}
    in_vain = 0
    while len(found) < n and in_vain < _TRIES:
        before = len(found)
        found.setdefault(" ".join(drawing.sentence(intents)))
        in_vain = 0 if len(found) > before else in_vain + 1
    languages, _, root = phrases.automaton
    rest = (" ".join(said) for said in languages.sentences(root))
    return [*found, *islice((said for said in rest if said not in found), n - len(found))]


@dataclass
class _Turns:
    """Whose turn it is among the parts of a choice."""

    waiting: list[int] = field(default_factory=list)
    done: bool = False  # nothing in any part is unsaid
    said: set[int] = field(default_factory=set)


class _Drawing:
    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._turns: dict[int, _Turns] = {}  # by the identity of its parts
        self._done: set[int] = set()  # identities of nodes of which nothing is unsaid

    def sentence(self, intents: list[list[Node]]) -> list[str]:
        """Words of the next one."""
        sentences = self._next(intents, lambda one: any(map(self._is_open, one)))
        sentence = self._next(sentences, self._is_open)
        return drawn_words(sentence, self._draw, lambda items: self._next(items, self._is_open))

    def _next(self, parts: Items[Part], is_open: Callable[[Part], bool]) -> Part:
        """The part of a choice that is to be said. is_open: whether something in one is still unsaid."""
        turns = self._turns.setdefault(id(parts), _Turns())
        while True:
            if not turns.waiting:
                everything = range(len(parts))
                wanted = [] if turns.done else [i for i in everything if i not in turns.said or is_open(parts[i])]
                turns.done = not wanted
                turns.waiting = wanted or list(everything)
                self._draw.shuffle(turns.waiting)
            number = turns.waiting.pop()
            if turns.done or number not in turns.said or is_open(parts[number]):
                turns.said.add(number)
                return parts[number]

    def _is_open(self, node: Node) -> bool:
        """Whether something in it is still unsaid."""
        if id(node) in self._done:
            return False
        match node:
            case Sequence() | Permutation():
                still = any(map(self._is_open, node.items))
            case Choice():
                turns = self._turns.get(id(node.items))
                still = turns is None or len(turns.said) < len(node.items) or any(map(self._is_open, node.items))
            case Slot() | Rule():
                still = self._is_open(node.body)
            case _:
                still = False
        if not still:
            self._done.add(id(node))
        return still
