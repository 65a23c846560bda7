"""CTC on the encoder's log-probabilities: prefix scores for the beam, the best path, and when each token was said."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asr.search.hypothesis import BLANK, EOS

if TYPE_CHECKING:
    from asr.search.backend import Floats, Ints

NEVER = np.float64(-1e30)  # log of zero that can be added to
UNLIKELY = np.float64(-1e4)  # the least log-probability that a model may state: a path of them is above NEVER

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class PrefixState:
    """Forward variables of one prefix (Watanabe et al. 2017, algorithm 2)."""

    non_blank: Doubles  # (T,) log-probability of the prefix up to t, ending in its last token
    blank: Doubles  # (T,) the same, ending in blank
    score: float  # log-probability that the text begins with this prefix


class PrefixScorer:
    """Scores prefixes of one utterance; states are data, so beams can share and drop them."""

    def __init__(self, log_probs: Floats) -> None:
        """log_probs: (T, V) of the utterance, without padding."""
        self.log_probs = np.maximum(log_probs, UNLIKELY, dtype=np.float64)
        self.total_blank = np.cumsum(self.log_probs[:, BLANK])  # (T,)

    def start(self) -> PrefixState:
        """The empty prefix."""
        return PrefixState(np.full(len(self.log_probs), NEVER), self.total_blank, 0.0)

    def extend(self, state: PrefixState, last: int, candidates: Ints) -> tuple[Doubles, Doubles, Doubles]:
        """All candidates at once: scores (C,) of the prefixes one token longer, and their forward variables (T, C).

        last: the prefix' last token, or -1. The end of the text scores as the whole prefix' probability.
        """
        x = self.log_probs[:, candidates]  # (T, C)
        either = np.logaddexp(state.non_blank, state.blank)  # (T,)
        # Before a repeated token there must be a blank
        before = np.where((candidates == last)[None], state.blank[:, None], either[:, None])  # (T, C)
        # The candidate's first position is one after the prefix, or the very first
        entry = np.concatenate([np.full_like(x[:1], NEVER if last >= 0 else 0.0), before[:-1]])  # (T, C)
        non_blank = _recur(entry, x)
        blank = _recur(np.concatenate([np.full_like(x[:1], NEVER), non_blank[:-1]]), self.log_probs[:, [BLANK]])
        scores = np.logaddexp.reduce(entry + x, axis=0)  # (C,)
        scores[candidates == EOS] = either[-1]
        return scores, non_blank, blank


def _recur(entry: Doubles, stay: Doubles) -> Doubles:
    """Solves y[t] = log(exp(y[t-1]) + exp(entry[t])) + stay[t], y[-1] = log 0, as a sum relative to all of stay."""
    total = np.cumsum(stay, axis=0)
    before = total - stay
    return np.logaddexp.accumulate(entry - before, axis=0) + total


def best_path(log_probs: Floats) -> tuple[int, ...]:
    """The likeliest token of each position, repeats and blanks dropped. (T, V) -> tokens."""
    best = log_probs.argmax(axis=1)
    changed = np.concatenate([[True], best[1:] != best[:-1]])
    return tuple(int(t) for t in best[changed & (best != BLANK)])


def log_probability(log_probs: Floats, tokens: tuple[int, ...]) -> float:
    """Of the tokens and no more, summed over all their alignments. log_probs: (T, V)."""
    scorer = PrefixScorer(log_probs)
    state = scorer.start()
    for i, token in enumerate((*tokens, EOS)):
        scores, non_blank, blank = scorer.extend(state, tokens[i - 1] if i else -1, np.array([token]))
        state = PrefixState(non_blank[:, 0], blank[:, 0], float(scores[0]))
    return state.score


def align(log_probs: Floats, tokens: tuple[int, ...]) -> tuple[list[tuple[int, int]], float] | None:
    """The likeliest way in which the tokens lie on the positions (Viterbi through CTC's lattice).

    log_probs: (T, V). Returns for each token its first and last position, both included, and the path's
    log-probability; or None where the positions are too few for the tokens.
    """
    repeated = sum(a == b for a, b in pairwise(tokens))
    size = len(log_probs)
    if not tokens or size < len(tokens) + repeated:
        return None
    states = np.full(2 * len(tokens) + 1, BLANK)  # blank, token, blank, token, …, blank
    states[1::2] = tokens
    emissions = np.maximum(log_probs[:, states], UNLIKELY, dtype=np.float64)  # (T, S)
    may_skip = np.zeros(len(states), bool)  # over the blank before, where the two tokens around it differ
    may_skip[3::2] = states[3::2] != states[1:-2:2]
    score = np.full(len(states), NEVER)
    score[:2] = emissions[0, :2]
    origin = np.zeros((size, len(states)), np.int8)
    for t in range(1, size):
        options = np.stack([score, np.roll(score, 1), np.where(may_skip, np.roll(score, 2), NEVER)])
        options[1, 0] = NEVER
        origin[t] = options.argmax(axis=0)
        score = options.max(axis=0) + emissions[t]
    state = len(states) - 1 if score[-1] >= score[-2] else len(states) - 2
    total = float(score[state])
    path = np.empty(size, np.int64)
    for t in range(size - 1, -1, -1):
        path[t] = state
        state -= int(origin[t, state])  # an int8 would make one of the state, which may be larger
    spans = []
    for i in range(len(tokens)):
        where = np.flatnonzero(path == 2 * i + 1)
        spans.append((int(where[0]), int(where[-1])))
    return spans, total
