"""What a search needs of a model, torch or ONNX: encode, then step by step with the cache as data.

Letters: B utterances, T positions of memory, V tokens, L decoder layers, H heads, K width of a head, U tokens so far,
S tokens of a step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

AT_ONCE = 24  # tokens, for which a step takes two to three times as long as for one


@dataclass(frozen=True)
class Cache:
    """Keys and values of the tokens so far and of the memory; arrays of the back end's own kind.

    past_k, past_v: (L, B, H, U, K); memory_k, memory_v: (L, B, H, T, K); lengths: (B,) of the memory.
    """

    past_k: Any
    past_v: Any
    memory_k: Any
    memory_v: Any
    lengths: Any

    def select(self, rows: Ints) -> Cache:
        """The cache for these rows, in this order; a row may come more than once (beams) or not at all (finished)."""
        if len(rows) == len(self.lengths) and (rows == np.arange(len(rows))).all():
            return self
        return Cache(
            self.past_k[:, rows],
            self.past_v[:, rows],
            self.memory_k[:, rows],
            self.memory_v[:, rows],
            self.lengths[rows],
        )

    def alone(self, row: int, size: int) -> Cache:
        """The cache of one row, with a memory of so many positions; the rest was padding."""
        here = slice(row, row + 1)
        return Cache(
            self.past_k[:, here],
            self.past_v[:, here],
            self.memory_k[:, here, :, :size],
            self.memory_v[:, here, :, :size],
            self.lengths[here],
        )

    def until(self, count: int) -> Cache:
        """The cache as it was after so many tokens."""
        if self.past_k.shape[3] == count:
            return self
        return replace(self, past_k=self.past_k[:, :, :, :count], past_v=self.past_v[:, :, :, :count])


@dataclass(frozen=True)
class Memory:
    """What the encoder says of a batch of utterances."""

    cache: Cache  # with no token yet
    ctc: Floats  # (B, T, V) CTC log-probabilities
    lengths: Ints  # (B,) positions that count


class Backend(Protocol):
    """A model that can be searched."""

    at_once: int  # tokens of one utterance that a step had better have, at most: more cost more than they may save

    def encode(self, samples: Sequence[Floats]) -> Memory:
        """Clips of any lengths, (N,) each, full scale ±1."""

    def step(self, tokens: Ints, cache: Cache) -> tuple[Floats, Cache]:
        """The latest tokens (B, S), each of which sees those before it -> log-probabilities of what comes after each
        of them (B, S, V), and the cache S tokens longer.
        """


def pad(samples: Sequence[Floats]) -> tuple[Floats, Ints]:
    """Clips side by side: (B, N) with zeros after each, and their lengths (B,)."""
    lengths = np.array([len(clip) for clip in samples], np.int64)
    batch = np.zeros((len(samples), max(1, lengths.max(initial=1))), np.float32)
    for row, clip in zip(batch, samples, strict=True):
        row[: len(clip)] = clip
    return batch, lengths
