"""CTC on the encoder's log-probabilities: prefix scores for the beam, the best path, and when each token was said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asr.search.backend import Floats, Ints
from asr.search.hypothesis import BLANK, EOS

NEVER = np.float64(-1e30)  # log of zero that can be added to

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
        self.log_probs = log_probs.astype(np.float64)
        self.total_blank = np.cumsum(self.log_probs[:, BLANK])

    def start(self) -> PrefixState:
        """The empty prefix."""
        return PrefixState(np.full(len(self.log_probs), NEVER), self.total_blank, 0.0)

    def extend(self, state: PrefixState, last: int, candidates: Ints) -> tuple[Doubles, Doubles, Doubles]:
        """All candidates at once: scores (C,) of the prefixes one token longer, and their forward variables (T, C) twice.

        last: the prefix' last token, or -1. The end of the text scores as the whole prefix' probability.
        """
        x = self.log_probs[:, candidates]  # (T, C)
        size = len(x)
        either = np.logaddexp(state.non_blank, state.blank)  # (T,)
        # Before a repeated token there must be a blank
        before = np.where((candidates == last)[None], state.blank[:, None], either[:, None])  # (T, C)
        non_blank = np.full(x.shape, NEVER)
        blank = np.full(x.shape, NEVER)
        if last < 0:
            non_blank[0] = x[0]
        for t in range(1, size):
            non_blank[t] = np.logaddexp(non_blank[t - 1], before[t - 1]) + x[t]
            blank[t] = np.logaddexp(non_blank[t - 1], blank[t - 1]) + self.log_probs[t, BLANK]
        scores = np.logaddexp.reduce(before[:-1] + x[1:], axis=0, initial=NEVER)  # (C,)
        if last < 0:
            scores = np.logaddexp(scores, x[0])
        scores[candidates == EOS] = either[-1]
        return scores, non_blank, blank


def best_path(log_probs: Floats) -> tuple[int, ...]:
    """The likeliest token of each position, repeats and blanks dropped. (T, V) -> tokens."""
    best = log_probs.argmax(axis=1)
    changed = np.concatenate([[True], best[1:] != best[:-1]])
    return tuple(int(t) for t in best[changed & (best != BLANK)])


def align(log_probs: Floats, tokens: tuple[int, ...]) -> tuple[list[tuple[int, int]], float] | None:
    """The likeliest way in which the tokens lie on the positions (Viterbi through CTC's lattice).

    log_probs: (T, V). Returns for each token its first and last position, both included, and the path's
    log-probability; or None where the positions are too few for the tokens.
    """
    repeated = sum(a == b for a, b in zip(tokens, tokens[1:], strict=False))
    size = len(log_probs)
    if not tokens or size < len(tokens) + repeated:
        return None
    states = np.full(2 * len(tokens) + 1, BLANK)  # blank, token, blank, token, …, blank
    states[1::2] = tokens
    emissions = log_probs[:, states].astype(np.float64)  # (T, S)
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
        state -= origin[t, state]
    spans = []
    for i in range(len(tokens)):
        where = np.flatnonzero(path == 2 * i + 1)
        spans.append((int(where[0]), int(where[-1])))
    return spans, total
