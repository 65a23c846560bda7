"""How far a measured error rate can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_DRAWS_AT_ONCE = 1_000_000  # indices held in memory together: 8 MB


def rate_interval(
    errors: Sequence[int], lengths: Sequence[int], *, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """Bootstrap confidence interval of sum(errors) / sum(lengths), drawing utterances with replacement.

    errors, lengths: (N,) per utterance. Percentiles of `resamples` draws; the same seed gives the same interval.
    None with fewer than two utterances, without reference words, or without resamples.
    Follows Bisani & Ney (2004). Utterances count as independent; many of one speaker make it too narrow.
    """
    wrong, length = np.asarray(errors, np.int64), np.asarray(lengths, np.int64)  # (N,)
    if len(wrong) < 2 or not length.any() or resamples < 1:
        return None
    generator = np.random.default_rng(seed)
    rates: list[float] = []
    rows = max(1, _DRAWS_AT_ONCE // len(wrong))
    while len(rates) < resamples:
        drawn = generator.integers(len(wrong), size=(min(rows, resamples - len(rates)), len(wrong)))  # (B, N)
        sums = length[drawn].sum(axis=1)  # (B,)
        spoken = sums > 0  # a draw of empty references only has no rate; another is drawn
        rates += (wrong[drawn].sum(axis=1)[spoken] / sums[spoken]).tolist()
    low, high = np.quantile(rates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
