"""What may follow which context, smoothed: one order of an n-gram model, or the pairs of a model with skips.

Discounts are those of modified Kneser-Ney smoothing in its interpolated form (Chen & Goodman 1999, "An empirical study
of smoothing techniques for language modeling", section 2.5 and equation 17):

    p(w | h) = (c(h w) - D(c(h w))) / c(h) + rest(h) p_lower(w),    rest(h) = sum over w of D(c(h w)) / c(h)

with c(h) the sum of c(h w) over w, and D one of three discounts, for counts of one, two, and more: with n_i the number
of entries whose count is i, and Y = n_1 / (n_1 + 2 n_2),

    D_1 = 1 - 2 Y n_2 / n_1,    D_2 = 2 - 3 Y n_3 / n_2,    D_3+ = 3 - 4 Y n_4 / n_3.

Texts so few or so alike that an n_i is 0, or a discount no share of its count, get 0.5, 1 and 1.5 (as in KenLM).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from numpy.typing import NDArray

from asr.search.hypothesis import EOS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.search.backend import Floats

Ids = NDArray[np.uint16]
Counts = NDArray[np.int64]

BITS: Final = 16  # of a token within a context's key, which has 64
LONGEST_CONTEXT: Final = 64 // BITS
_FALLBACK: Final = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Table:
    """M contexts of the same length, and the N tokens that were seen after them."""

    keys: NDArray[np.uint64]  # (M,) contexts as numbers, ascending
    offsets: NDArray[np.uint32]  # (M + 1,) where each context's tokens begin
    tokens: Ids  # (N,) ascending within a context
    shares: Floats  # (N,) the part of their probability that is theirs alone
    rest: Floats  # (M,) the weight of the lower order's distribution

    @classmethod
    def smoothed(cls, entries: Ids, counts: Counts) -> Self:
        """entries: (N, K + 1) different contexts of K tokens with what follows them; counts: (N,), at least 1."""
        order = np.lexsort(entries.T[::-1])
        entries, counts = entries[order], counts[order]
        keys, starts = np.unique(packed(entries[:, :-1]), return_index=True)
        taken = np.array(discounts(counts))[np.minimum(counts, 3) - 1]  # (N,)
        if len(keys):
            totals = np.add.reduceat(counts, starts)
            rest = np.add.reduceat(taken, starts) / totals
        else:
            totals, rest = np.zeros(0, np.int64), np.zeros(0)
        ends = np.append(starts, len(entries))
        shares = (counts - taken) / np.repeat(totals, np.diff(ends))
        return cls(
            keys, ends.astype(np.uint32), entries[:, -1].copy(), shares.astype(np.float32), rest.astype(np.float32)
        )

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {int(key): row for row, key in enumerate(self.keys)}

    def row(self, context: Sequence[int]) -> int | None:
        """Where a context's tokens are; None if it was never seen."""
        key = 0
        for token in context:
            key = key << BITS | token
        return self._rows.get(key)

    def refine(self, row: int, lower: Floats) -> Floats:
        """The distribution (V,) after a context, from that of the lower order."""
        whole: Floats = lower * self.rest[row]
        here = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
        whole[self.tokens[here]] += self.shares[here]
        return whole

    def fault(self, vocabulary: int) -> str | None:
        """What makes it no distribution over V tokens and the end; None if it is one."""
        offsets, tokens = self.offsets.astype(np.int64), self.tokens.astype(np.int64)
        if (
            len(offsets) != len(self.keys) + 1
            or len(self.rest) != len(self.keys)
            or len(self.shares) != len(tokens)
            or (offsets[0], offsets[-1]) != (0, len(tokens))
            or (np.diff(offsets) < 1).any()
            or (self.keys[1:] <= self.keys[:-1]).any()
        ):
            return "its contexts don't divide its tokens"
        within = np.ones(max(0, len(tokens) - 1), bool)
        within[offsets[1:-1] - 1] = False  # from one context to the next
        if (np.diff(tokens)[within] <= 0).any() or ((tokens < EOS) | (tokens >= vocabulary)).any():
            return "its tokens aren't those of the vocabulary, in order"
        sums = np.add.reduceat(self.shares, offsets[:-1], dtype=np.float64) if len(self.keys) else np.zeros(0)
        is_share = all(((part >= 0) & (part <= 1)).all() for part in (self.shares, self.rest))
        return None if is_share and np.allclose(sums + self.rest, 1, atol=1e-4) else "its shares don't add up to 1"


def packed(contexts: Ids) -> NDArray[np.uint64]:
    """Contexts (N, K) of at most four tokens as numbers (N,), in the same order."""
    keys = np.zeros(len(contexts), np.uint64)
    for column in contexts.T:
        keys = keys << np.uint64(BITS) | column.astype(np.uint64)
    return keys


def discounts(counts: Counts) -> tuple[float, float, float]:
    """What is taken from a count of one, of two, and of three or more."""
    one, two, three, four = (int((counts == i).sum()) for i in range(1, 5))
    if not (one and two and three and four):
        return _FALLBACK
    y = one / (one + 2 * two)
    found = (1 - 2 * y * two / one, 2 - 3 * y * three / two, 3 - 4 * y * four / three)
    return found if all(0 <= d <= i for i, d in enumerate(found, 1)) else _FALLBACK


def counted(entries: Ids) -> tuple[Ids, Counts]:
    """Different rows of (N, K) in order, and how often each is there."""
    if not len(entries):
        return entries, np.zeros(0, np.int64)
    entries = entries[np.lexsort(entries.T[::-1])]  # np.unique takes ten times as long
    starts = np.flatnonzero(np.append(True, (entries[1:] != entries[:-1]).any(axis=1)))
    return entries[starts], np.diff(starts, append=len(entries))
