"""Greedy search: the likeliest token each time, a batch of utterances together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asr.search.hypothesis import BLANK, BOS, EOS, Hypothesis, SearchOptions, repeats

if TYPE_CHECKING:
    from asr.search.backend import Backend, Floats, Memory
    from asr.search.guide import Guide


def greedy(
    backend: Backend, memory: Memory, seconds: list[float], options: SearchOptions, guide: Guide[Any] | None = None
) -> list[Hypothesis]:
    """One hypothesis per utterance. Finished ones leave the batch: a short command makes no step for a long one.

    guide: added to the model's log-probabilities in the choice of each token.
    """
    size = len(seconds)
    limits = [options.max_tokens(s) for s in seconds]
    tokens: list[list[int]] = [[] for _ in range(size)]
    log_probs: list[list[float]] = [[] for _ in range(size)]
    bonus = [0.0] * size  # the guide's
    states = [] if guide is None else [guide.start()] * size  # of the utterances still going on
    rows = np.arange(size)  # the utterances still going on
    cache = memory.cache
    latest = np.full(size, BOS, np.int64)
    while len(rows):
        scores, cache = backend.step(latest, cache)  # (rows, V)
        forbid(scores)
        thought = None if guide is None else np.stack([guide.scores(state) for state in states])
        ranking = scores if thought is None else scores + thought
        chosen = ranking.argmax(axis=1)
        going = np.ones(len(rows), bool)
        for i, row in enumerate(rows):
            token = int(chosen[i])
            if len(tokens[row]) >= limits[row]:
                token = EOS
            while token != EOS and repeats(tuple(tokens[row]), token, options.repeat_limit):
                ranking[i, token] = -np.inf
                token = int(ranking[i].argmax())
            log_probs[row].append(float(scores[i, token]))
            if thought is not None:
                bonus[row] += float(thought[i, token])
            if token == EOS:
                going[i] = False
            else:
                tokens[row].append(token)
                chosen[i] = token
        kept = np.flatnonzero(going)
        rows, latest, cache = rows[kept], chosen[kept], cache.select(kept)
        if guide is not None:
            states = [guide.advance(states[i], int(chosen[i])) for i in kept]
    return [
        Hypothesis(tuple(t), tuple(p), options.score(tuple(p), guide=b))
        for t, p, b in zip(tokens, log_probs, bonus, strict=True)
    ]


def forbid(scores: Floats) -> None:
    """Blank belongs to CTC and BOS to the start: neither is ever written. Changes scores (B, V) in place."""
    scores[:, [BLANK, BOS]] = -np.inf
