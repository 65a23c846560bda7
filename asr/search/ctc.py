"""CTC on the encoder's log-probabilities: prefix scores for the beam, the best path, and when each token was said."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asr.search.hypothesis import BLANK, EOS

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        # A token's positions side by side, since all of them are asked for at once
        self.log_probs = np.maximum(log_probs.T, UNLIKELY, dtype=np.float64, order="C")  # (V, T)
        self.total_blank = np.cumsum(self.log_probs[BLANK])  # (T,)

    def start(self) -> PrefixState:
        """The empty prefix."""
        return PrefixState(np.full(len(self.total_blank), NEVER), self.total_blank, 0.0)

    def scores(self, state: PrefixState, last: int, candidates: Ints) -> Doubles:
        """Log-probabilities (C,) that the text begins with the prefix and each of these tokens.

        last: the prefix' last token, or -1. The end of the text scores as the whole prefix' probability.
        """
        scores: Doubles = self.scores_of_each([state], [last], candidates[None])[0]
        return scores

    def scores_of_each(self, states: Sequence[PrefixState], last: Sequence[int], candidates: Ints) -> Doubles:
        """The same of several prefixes: for each its last token and candidates (S, C) -> (S, C)."""
        blank = np.array([state.blank for state in states])  # (S, T)
        either = np.logaddexp([state.non_blank for state in states], blank)
        paths = self.log_probs[candidates]  # (S, C, T)
        first = np.where(np.array(last) < 0, 0.0, NEVER)
        entries = paths + _entry(either, first)[:, None]
        again = candidates == np.array(last)[:, None]
        if again.any():  # before a repeated token there must be a blank
            entries[again] = paths[again] + _entry(blank, first)[again.nonzero()[0]]
        most = entries.max(axis=2)
        scores: Doubles = most + np.log(np.exp(entries - most[:, :, None]).sum(axis=2))
        return np.where(candidates == EOS, either[:, -1:], scores)

    def extend(self, state: PrefixState, last: int, token: int, score: float | None = None) -> PrefixState:
        """The prefix with one token more, not the end. score: what `scores` gave for it, where it is known."""
        if score is None:
            score = float(self.scores(state, last, np.array([token]))[0])
        before = state.blank if token == last else np.logaddexp(state.non_blank, state.blank)
        stay = self.log_probs[token]
        non_blank = _recur(_entry(before, 0.0 if last < 0 else NEVER), stay, np.cumsum(stay))
        blank = _recur(_entry(non_blank, NEVER), self.log_probs[BLANK], self.total_blank)
        return PrefixState(non_blank, blank, score)


def _entry(before: Doubles, first: Doubles | float) -> Doubles:
    """A token's first position is one after the prefix, (…, T), or the very first: by `first`, 0 without a prefix."""
    entry = np.empty_like(before)
    entry[..., 0] = first
    entry[..., 1:] = before[..., :-1]
    return entry


def _recur(entry: Doubles, stay: Doubles, total: Doubles) -> Doubles:
    """Solves y[t] = log(exp(y[t-1]) + exp(entry[t])) + stay[t], y[-1] = log 0, as a sum relative to total, all of stay
    up to t.
    """
    solved: Doubles = np.logaddexp.accumulate(entry - (total - stay)) + total
    return solved


def best_path(log_probs: Floats) -> tuple[int, ...]:
    """The likeliest token of each position, repeats and blanks dropped. (T, V) -> tokens."""
    return collapse(log_probs.argmax(axis=1))


def collapse(path: Ints, last: int = BLANK) -> tuple[int, ...]:
    """What a path (T,) of tokens and blanks says, where it goes on from a token."""
    changed = np.concatenate([[last], path[:-1]]) != path
    return tuple(int(t) for t in path[changed & (path != BLANK)])


def log_probability(log_probs: Floats, tokens: tuple[int, ...]) -> float:
    """Of the tokens and no more, summed over all their alignments. log_probs: (T, V)."""
    scorer = PrefixScorer(log_probs)
    state = scorer.start()
    for last, token in pairwise((-1, *tokens)):
        state = scorer.extend(state, last, token, 0.0)  # the scores on the way are no matter
    return float(np.logaddexp(state.non_blank[-1], state.blank[-1]))


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
    skip = np.full(len(states), NEVER)  # over the blank before, where the two tokens around it differ
    skip[3::2][states[3::2] != states[1:-2:2]] = 0.0
    score = np.full(len(states) + 2, NEVER)  # two in front, from which nothing comes
    score[2:4] = emissions[0, :2]
    stepped, skipped = np.zeros((2, size, len(states)), bool)
    for t in range(1, size):  # each call costs a microsecond, so that there are few
        best = np.maximum(score[2:], score[1:-1])
        np.greater(best, score[2:], out=stepped[t])
        over = score[:-2] + skip
        np.greater(over, best, out=skipped[t])
        np.add(np.maximum(best, over), emissions[t], out=score[2:])
    state = len(states) - 1 if score[-1] >= score[-2] else len(states) - 2
    total = float(score[state + 2])
    path = np.empty(size, np.int64)
    for t in range(size - 1, -1, -1):
        path[t] = state
        state -= 2 if skipped[t, state] else int(stepped[t, state])
    spans = []
    for i in range(len(tokens)):
        where = np.flatnonzero(path == 2 * i + 1)
        spans.append((int(where[0]), int(where[-1])))
    return spans, total
