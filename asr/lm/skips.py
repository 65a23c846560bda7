"""A second-order model with skips: every earlier token, together with the latest one, has a say in what comes next.

A trigram knows what follows two neighbours. Here the latest token b is paired with each earlier token a of a window,
however far back, so "set … to" can tell what follows although what is set stands between. Of each pair it is counted
what came next, once for each place where the pair stood, and smoothed as in `asr.lm.table`, with the bigram model as
its lower order:

    p(w | a, b) = (c(a … b w) - D(c(a … b w))) / c(a … b) + rest(a, b) p_bigram(w | b).

The pairs that were seen vote:

    p(w | a_1 … a_m b) = sum over i of v_i p(w | a_i, b) / sum over i of v_i,
    v_i = DECAY ** (d_i - 1) * exp(-CERTAINTY * H_i)

where d_i is how far a_i stands before b (1 is next to it) and H_i the entropy of p(· | a_i, b) in nats: who stands
near, and who knows what comes next, counts more than who would let anything follow. Where no pair was seen, the bigram
model answers. A token that occurs twice in the window votes once, from its latest place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from asr.lm.ngram import NGram, State, joined, remembered, windows, within
from asr.lm.table import BITS, Table, counted
from asr.search.hypothesis import BOS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from asr.lm.table import Counts, Ids
    from asr.search.backend import Floats

WINDOW: Final = 8  # earlier tokens that have a vote
DECAY: Final = 0.3
CERTAINTY: Final = 2.0


@dataclass(frozen=True, eq=False)
class Skips:
    """A model with skips over V tokens; a guide of the search."""

    bigram: NGram
    pairs: Table  # of contexts (earlier token, latest token)
    window: int = WINDOW

    @classmethod
    def train(cls, texts: Sequence[Sequence[int]], vocabulary: int) -> Self:
        """texts: tokens of each, without BOS and EOS; vocabulary: V, specials included."""
        return cls(NGram.train(texts, vocabulary, 2), Table.smoothed(*_pairs(texts, WINDOW)))

    def start(self) -> State:
        """Before the first token."""
        return (BOS,)

    def advance(self, state: State, token: int) -> State:
        """After one token more: the window and the latest token."""
        return (*state, token)[-self.window - 1 :]

    def probabilities(self, state: State) -> Floats:
        """(V,) of what comes next."""
        *earlier, latest = state
        lower = self.bigram.probabilities(self.bigram.advance((), latest))
        votes: list[Floats] = []
        weights: list[float] = []
        latest_places = {token: place for place, token in enumerate(earlier)}
        for token, place in latest_places.items():
            row = self.pairs.row((token, latest))
            if row is not None:
                votes.append(self.pairs.refine(row, lower))
                weights.append(DECAY ** (len(earlier) - 1 - place))
        if not votes:
            return lower
        every = np.stack(votes)  # (pairs, V)
        entropy = -(every * np.log(np.maximum(every, np.finfo(np.float32).tiny))).sum(axis=1)
        weight = np.array(weights) * np.exp(-CERTAINTY * entropy)
        found: Floats = (weight / weight.sum()).astype(np.float32) @ every
        return found

    def scores(self, state: State) -> Floats:
        """Log-probabilities (V,) of what comes next, the end included; read-only."""
        return self._remembered(state)

    @cached_property
    def _remembered(self) -> Callable[[State], Floats]:
        return remembered(self.probabilities, len(self.bigram.unigram))


def _pairs(texts: Sequence[Sequence[int]], window: int) -> tuple[Ids, Counts]:
    """(earlier token, latest token, next token), and at how many places they stood."""
    whole, owner = joined(texts)
    places: list[NDArray[np.int64]] = []
    triples: list[Ids] = []
    for distance in range(1, window + 1):
        length = distance + 2
        places.append(np.flatnonzero(within(owner, length)) + length)
        triples.append(windows(whole, owner, length)[:, [0, -2, -1]])
    place, triple = np.concatenate(places), np.concatenate(triples)
    _, once = np.unique(place << BITS | triple[:, 0], return_index=True)
    return counted(triple[once])
