"""What a search is told and what it answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from asr.errors import ConfigError

BLANK, BOS, EOS = 0, 1, 2  # as asr.tokenizer lays them
CTC_WEIGHT = 0.3  # CTC's share where nobody says how large
LONGEST_GROUP = 4  # tokens that may loop together


@dataclass(frozen=True)
class SearchOptions:
    """How to search; the defaults are greedy decoding."""

    beam: int = 1  # hypotheses kept
    length_bonus: float = 0.0  # added to a hypothesis' score per token, its end included: above 0 favours longer texts
    length_power: float = 1.0  # the rest of the score is divided by tokens ** this (Wu et al. 2016); 0 is off
    ctc_weight: float = 0.0  # share of CTC's prefix score in the joint score (Watanabe et al. 2017)
    tokens_per_second: float = 12.0  # a text may not have more than this per second of sound …
    min_tokens: int = 12  # … but always this many: short clips hold whole words
    repeat_limit: int = 4  # a group of 1 to 4 tokens may come this many times in a row, not more

    def __post_init__(self) -> None:
        if not isinstance(self.beam, int) or self.beam < 1:
            raise ConfigError(f"search: beam={self.beam!r} must be a whole number, at least 1")
        if not 0 <= self.ctc_weight <= 1:
            raise ConfigError(f"search: ctc_weight={self.ctc_weight} is not in [0, 1]")
        if self.repeat_limit < 1 or self.min_tokens < 1 or not 0 < self.tokens_per_second < math.inf:
            raise ConfigError("search: repeat_limit, min_tokens and tokens_per_second must be above 0, and finite")
        if not (math.isfinite(self.length_bonus) and math.isfinite(self.length_power)):
            raise ConfigError("search: length_bonus and length_power must be finite")

    def max_tokens(self, seconds: float) -> int:
        """How many tokens an utterance may have, the end not counted."""
        return max(self.min_tokens, math.ceil(self.tokens_per_second * seconds))

    def score(self, log_probs: tuple[float, ...], ctc: float = 0.0, guide: float = 0.0) -> float:
        """What hypotheses are ranked by: (1 - w) decoder + w CTC + guide, over length ** power, plus the bonus.

        log_probs: the decoder's, of each token so far; ctc: the log-probability of these tokens by CTC; guide: the sum
        of what a guide thinks of them. The bonus is per token.
        """
        length = max(1, len(log_probs))
        total = (1 - self.ctc_weight) * sum(log_probs) + self.ctc_weight * ctc + guide
        return float(total / length**self.length_power + self.length_bonus * length)


@dataclass(frozen=True)
class Hypothesis:
    """One possible text of an utterance."""

    tokens: tuple[int, ...]  # without BOS and EOS
    log_probs: tuple[float, ...]  # the decoder's, of each token and, last, of the end
    score: float  # what the search ranked by
    # How far each log-probability is below that of the token the decoder would rather have written there: 0 is its own
    # choice. Only where a graph held the search
    deviations: tuple[float, ...] = ()
    ctc: float | None = None  # the text's log-probability by CTC, where CTC had a share in the score


def repeats(tokens: tuple[int, ...], token: int, limit: int) -> bool:
    """Whether this token would complete a group of 1 to 4 tokens that then stands more than `limit` times in a row.

    Loops are how an autoregressive decoder fails on sound it doesn't know; people rarely say anything five times.
    """
    tail = (*tokens, token)
    for size in range(1, LONGEST_GROUP + 1):
        needed = size * (limit + 1)
        if len(tail) < needed:
            break
        last = tail[-needed:]
        if last == last[-size:] * (limit + 1):
            return True
    return False
