"""An n-gram model: the next token by the few before it, with interpolated modified Kneser-Ney smoothing.

Every order has the form that `asr.lm.table` states. The highest order counts how often an n-gram was seen; the lower
ones in how many different tokens' company: c(g) of a shorter n-gram g is the number of tokens v for which v g was seen
(Kneser & Ney 1995), or how often g was seen where it begins a text, since nothing stands before that. Below the
unigrams lies the uniform distribution over all tokens that may be written, and the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from asr.lm.table import LONGEST_CONTEXT, Table, counted, discounts
from asr.search.hypothesis import BOS, EOS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from asr.lm.table import Counts, Ids
    from asr.search.backend import Floats

State = tuple[int, ...]  # the latest tokens, as many as bear on the next

HIGHEST_ORDER: Final = LONGEST_CONTEXT + 1
REMEMBERED_VALUES: Final = 1 << 22  # 16 MB of distributions


@dataclass(frozen=True, eq=False)
class NGram:
    """A model of order N over V tokens; a guide of the search."""

    unigram: Floats  # (V,) probabilities; 0 for blank and BOS
    tables: tuple[Table, ...]  # of contexts of 1 … N - 1 tokens

    @classmethod
    def train(cls, texts: Sequence[Sequence[int]], vocabulary: int, order: int) -> Self:
        """texts: tokens of each, without BOS and EOS; vocabulary: V, specials included; order: 1 … HIGHEST_ORDER."""
        whole, owner = joined(texts)
        grams = [windows(whole, owner, length) for length in range(1, order + 1)]
        adjusted = [_adjusted(grams, length) for length in range(1, order + 1)]
        tables = tuple(Table.smoothed(*entry) for entry in adjusted[1:])
        return cls(_unigram(*adjusted[0], vocabulary), tables)

    @property
    def order(self) -> int:
        """How many tokens an n-gram has at most."""
        return len(self.tables) + 1

    def start(self) -> State:
        """Before the first token."""
        return self._known((BOS,))

    def advance(self, state: State, token: int) -> State:
        """After one token more."""
        return self._known((*state, token))

    def _known(self, context: State) -> State:
        """Its longest end that was seen: only that bears on what follows, and short states are met more often."""
        context = context[-len(self.tables) :] if self.tables else ()
        while context and self.tables[len(context) - 1].row(context) is None:
            context = context[1:]
        return context

    def probabilities(self, state: State) -> Floats:
        """(V,) of what comes next."""
        found = self.unigram
        for length in range(1, len(state) + 1):
            table = self.tables[length - 1]
            row = table.row(state[-length:])
            if row is None:
                break
            found = table.refine(row, found)
        return found

    def scores(self, state: State) -> Floats:
        """Log-probabilities (V,) of what comes next, the end included; read-only."""
        return self._remembered(state)

    @cached_property
    def _remembered(self) -> Callable[[State], Floats]:
        return remembered(self.probabilities, len(self.unigram))


def remembered(probabilities: Callable[[State], Floats], vocabulary: int) -> Callable[[State], Floats]:
    """Their logarithms, minus infinity where a token can't be. The latest are kept, and so can't be written to."""

    def scores(state: State) -> Floats:
        with np.errstate(divide="ignore"):
            found: Floats = np.log(probabilities(state))
        found.flags.writeable = False
        return found

    return lru_cache(max(16, REMEMBERED_VALUES // vocabulary))(scores)


def joined(texts: Sequence[Sequence[int]]) -> tuple[Ids, Counts]:
    """All texts in one row, each between BOS and EOS, and to which text each token belongs. (N,), (N,)"""
    tokens = [token for text in texts for token in (BOS, *text, EOS)]
    owner = np.repeat(np.arange(len(texts)), [len(text) + 2 for text in texts])
    return np.array(tokens, np.uint16), owner


def windows(whole: Ids, owner: Counts, length: int) -> Ids:
    """Every stretch of so many tokens that lies within one text. (M, length)"""
    if len(whole) < length:
        return np.zeros((0, length), np.uint16)
    return np.lib.stride_tricks.sliding_window_view(whole, length)[within(owner, length)]


def within(owner: Counts, length: int) -> NDArray[np.bool_]:
    """Whether a stretch of so many tokens that begins here lies within one text."""
    same: NDArray[np.bool_] = owner[: max(0, len(owner) - length + 1)] == owner[length - 1 :]
    return same


def _adjusted(grams: Sequence[Ids], length: int) -> tuple[Ids, Counts]:
    """N-grams of a length with the counts that stand in the formula."""
    own, counts = counted(grams[length - 1])
    if length < len(grams):
        first = own[:, 0] == BOS
        longer, _ = counted(grams[length])
        found, continued = counted(longer[:, 1:])
        own, counts = np.concatenate([own[first], found]), np.concatenate([counts[first], continued])
    predicted = own[:, -1] != BOS
    return own[predicted], counts[predicted]


def _unigram(tokens: Ids, counts: Counts, vocabulary: int) -> Floats:
    taken = np.array(discounts(counts))[np.minimum(counts, 3) - 1]
    total = counts.sum()
    found = np.zeros(vocabulary)
    found[EOS:] = taken.sum() / total / (vocabulary - EOS)
    found[tokens[:, 0]] += (counts - taken) / total
    return found.astype(np.float32)
