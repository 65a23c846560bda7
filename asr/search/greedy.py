"""Greedy search: the likeliest token each time, a batch of utterances together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asr.search.hypothesis import BLANK, BOS, EOS, Hypothesis, SearchOptions, repeats

if TYPE_CHECKING:
    from asr.search.backend import Backend, Floats, Memory


def greedy(backend: Backend, memory: Memory, seconds: list[float], options: SearchOptions) -> list[Hypothesis]:
    """One hypothesis per utterance. Finished ones leave the batch: a short command makes no step for a long one."""
    size = len(seconds)
    limits = [options.max_tokens(s) for s in seconds]
    tokens: list[list[int]] = [[] for _ in range(size)]
    log_probs: list[list[float]] = [[] for _ in range(size)]
    rows = np.arange(size)  # the utterances still going on
    cache = memory.cache
    latest = np.full(size, BOS, np.int64)
    while len(rows):
        scores, cache = backend.step(latest, cache)  # (rows, V)
        forbid(scores)
        chosen = scores.argmax(axis=1)
        going = np.ones(len(rows), bool)
        for i, row in enumerate(rows):
            token = int(chosen[i])
            if len(tokens[row]) >= limits[row]:
                token = EOS
            while token != EOS and repeats(tuple(tokens[row]), token, options.repeat_limit):
                scores[i, token] = -np.inf
                token = int(scores[i].argmax())
            log_probs[row].append(float(scores[i, token]))
            if token == EOS:
                going[i] = False
            else:
                tokens[row].append(token)
                chosen[i] = token
        kept = np.flatnonzero(going)
        rows, latest, cache = rows[kept], chosen[kept], cache.select(kept)
    return [Hypothesis(tuple(t), tuple(p), options.score(tuple(p))) for t, p in zip(tokens, log_probs, strict=True)]


def forbid(scores: Floats) -> None:
    """Blank belongs to CTC and BOS to the start: neither is ever written. Changes scores (B, V) in place."""
    scores[:, [BLANK, BOS]] = -np.inf
