"""A back end so small that all its texts can be tried one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from asr.search import Cache, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from asr.search.backend import Floats, Ints

BLANK, BOS, EOS = 0, 1, 2
VOCAB = 6  # and 3, 4, 5, which may be written
POSITIONS = 5
Text = tuple[int, ...]


def log_softmax(logits: NDArray[np.floating]) -> Floats:
    """(V,) to log-probabilities."""
    logits = logits - logits.max()
    scores: Floats = (logits - np.log(np.exp(logits).sum())).astype(np.float32)
    return scores


def chance(seed: int, tokens: Text) -> Floats:
    """Log-probabilities (V,) after these tokens, at random but always the same."""
    return log_softmax(np.random.default_rng([seed, *tokens]).normal(scale=1.5, size=VOCAB))


class Tables:
    """A back end whose every probability is a function of the utterance's number and the tokens so far.

    The cache holds the tokens themselves, so a search that mixes up its rows gets other answers.
    """

    def __init__(self, say: Callable[[int, Text], Floats] = chance, at_once: int = 8) -> None:
        self.say = say
        self.at_once = at_once
        self.sizes: list[tuple[int, int]] = []  # of each step

    def encode(self, samples: Sequence[Floats]) -> Memory:
        """Each clip's first sample is its number."""
        numbers = np.array([int(clip[0]) for clip in samples]).reshape(1, -1, 1, 1, 1)
        size = numbers.shape[1]
        rng = (np.random.default_rng([int(n), 99]) for n in numbers.flat)
        ctc = np.stack([[log_softmax(r.normal(scale=2.0, size=VOCAB)) for _ in range(POSITIONS)] for r in rng])
        past = np.zeros((1, size, 1, 0, 1), np.int64)
        lengths = np.array([POSITIONS - int(n) % 2 for n in numbers.flat])
        return Memory(Cache(past, past, numbers, numbers, lengths), ctc, lengths)

    def step(self, tokens: Ints, cache: Cache) -> tuple[Floats, Cache]:
        """Ask the table."""
        rows, count = tokens.shape
        past = np.concatenate([cache.past_k, tokens.reshape(1, rows, 1, count, 1)], axis=3)
        self.sizes.append((rows, count))
        assert rows == len(cache.lengths) == cache.memory_k.shape[1]
        assert 1 <= count <= self.at_once
        assert (past[0, :, 0, 0, 0] == BOS).all()
        before = cache.past_k.shape[3]
        scores = [
            [
                self.say(
                    int(cache.memory_k[0, b, 0, 0, 0]), tuple(int(t) for t in past[0, b, 0, 1 : before + s + 1, 0])
                )
                for s in range(count)
            ]
            for b in range(rows)
        ]
        return np.array(scores), replace(cache, past_k=past, past_v=past)


def memory_of(numbers: Sequence[int], backend: Tables | None = None) -> Memory:
    """What the back end makes of utterances of these numbers."""
    return (backend or Tables()).encode([np.array([n], np.float32) for n in numbers])
