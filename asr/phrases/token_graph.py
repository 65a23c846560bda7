"""The graph of tokens that a search is held to: deterministic, without circles, and no smaller one says the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from asr.errors import PhrasesError
from asr.tokenizer import WORD_START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from asr.phrases.languages import Languages
    from asr.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class TokenGraph:
    """S states and A arcs. State 0 is the start; arcs offsets[s] to offsets[s + 1] leave state s.

    A path from the start to a final state is a sentence's tokens, and each sentence's tokens are one path.
    """

    offsets: NDArray[np.int32]  # (S + 1,)
    tokens: NDArray[np.int32]  # (A,), ascending within a state
    targets: NDArray[np.int32]  # (A,), states
    final: NDArray[np.bool_]  # (S,), whether a sentence may end here

    @property
    def num_states(self) -> int:
        """S."""
        return len(self.final)

    @property
    def num_arcs(self) -> int:
        """A."""
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return self.offsets.nbytes + self.tokens.nbytes + self.targets.nbytes + self.final.nbytes

    def arcs(self, state: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Tokens that may follow, ascending, and the states they lead to: both (arcs of the state,), views."""
        begin, end = self.offsets[state], self.offsets[state + 1]
        return self.tokens[begin:end], self.targets[begin:end]

    def next(self, state: int, token: int) -> int:
        """The state that a token leads to; -1 if it may not follow."""
        tokens, targets = self.arcs(state)
        place = int(np.searchsorted(tokens, token))
        return int(targets[place]) if place < len(tokens) and tokens[place] == token else -1

    def accepts(self, tokens: Iterable[int]) -> bool:
        """Whether they are a whole sentence."""
        state = 0
        for token in tokens:
            state = self.next(state, token)
            if state < 0:
                return False
        return bool(self.final[state])


class _Automaton:
    """States as (final, arcs), equal ones once."""

    def __init__(self) -> None:
        self.states: list[tuple[bool, tuple[tuple[int, int], ...]]] = []
        self._register: dict[tuple[bool, tuple[tuple[int, int], ...]], int] = {}

    def state(self, *, final: bool, arcs: Iterable[tuple[int, int]]) -> int:
        key = final, tuple(sorted(arcs))
        found = self._register.setdefault(key, len(self.states))
        if found == len(self.states):
            self.states.append(key)
        return found


def compile_graph(
    languages: Languages, root: int, tokenizer: Tokenizer, unknown: Callable[[str], PhrasesError]
) -> TokenGraph:
    """The graph of a set of sentences.

    A word's tokens don't depend on its neighbours, and only its first one carries the mark of a word's start. So where
    a word ends, what may follow in a longer word and what begins the next one are different tokens: putting the words'
    spellings into the graph of words leaves it deterministic, without a subset construction.
    unknown: the error for a word that the tokenizer can't spell.
    """
    spell = _Speller(tokenizer, unknown)
    automaton = _Automaton()
    made: dict[int, int] = {}
    for state in languages.reachable(root):
        spelt = {spell(word): made[target] for word, target in languages.arcs[state]}
        made[state] = _spelt_out(automaton, spelt, final=languages.final[state])
    return _arrays(automaton, made[root])


class _Speller:
    def __init__(self, tokenizer: Tokenizer, unknown: Callable[[str], PhrasesError]) -> None:
        self._tokenizer, self._unknown = tokenizer, unknown
        self._known: dict[str, tuple[int, ...]] = {}
        self._starts = [tokenizer.token(i).startswith(WORD_START) for i in range(tokenizer.vocab_size)]

    def __call__(self, word: str) -> tuple[int, ...]:
        if word not in self._known:
            tokens = tuple(self._tokenizer.encode(word))
            if self._tokenizer.unk_id in tokens:
                raise self._unknown(word)
            if not tokens or [self._starts[token] for token in tokens] != [True] + [False] * (len(tokens) - 1):
                raise PhrasesError(
                    f"tokenizer: the pieces of {word!r} don't show where a word starts; use one that Cepstra trained"
                )
            self._known[word] = tokens
        return self._known[word]


def _spelt_out(automaton: _Automaton, spelt: Mapping[tuple[int, ...], int], *, final: bool) -> int:
    """The state from which words' tokens lead to their targets: a tree of beginnings, made from its leaves on."""
    children: list[dict[int, int]] = [{}]
    ends: dict[int, int] = {}
    for tokens, target in spelt.items():
        node = 0
        for token in tokens:
            if token not in children[node]:
                children[node][token] = len(children)
                children.append({})
            node = children[node][token]
        ends[node] = target
    made = [0] * len(children)
    for node in reversed(range(len(children))):
        arcs = [(token, made[child]) for token, child in children[node].items()]
        ending = final if node == 0 else False
        if node in ends:
            ending, following = automaton.states[ends[node]]
            arcs += following
        made[node] = automaton.state(final=ending, arcs=arcs)
    return made[0]


def _arrays(automaton: _Automaton, root: int) -> TokenGraph:
    """Numbered as they are first met, level by level: the same sentences give the same arrays."""
    numbers = {root: 0}
    order = [root]
    for state in order:
        for _, target in automaton.states[state][1]:
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
    states = [automaton.states[state] for state in order]
    offsets = np.zeros(len(order) + 1, np.int32)
    np.cumsum([len(arcs) for _, arcs in states], out=offsets[1:])
    return TokenGraph(
        offsets,
        np.array([token for _, arcs in states for token, _ in arcs], np.int32),
        np.array([numbers[target] for _, arcs in states for _, target in arcs], np.int32),
        np.array([final for final, _ in states], np.bool_),
    )
