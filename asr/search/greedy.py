"""Greedy search: the best token each time, judged by the decoder and CTC together.

What CTC's best path says comes first as a draft, whose tokens the decoder reads all at once and judges one by one, as
if it had written them (speculative decoding, Leviathan et al. 2023). The text is the one that steps of one token would
give; a clear command needs one step in place of one for each token.
"""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.search.ctc import UNLIKELY, PrefixScorer, collapse
from asr.search.hypothesis import BLANK, BOS, EOS, LONGEST_GROUP, Hypothesis, SearchOptions, repeats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.search.backend import Backend, Cache, Floats, Ints, Memory
    from asr.search.guide import Guide

WARY = 4  # tokens, that a step reads at least: it takes a fifth longer than for one


def greedy(
    backend: Backend, memory: Memory, seconds: list[float], options: SearchOptions, guide: Guide[Any] | None = None
) -> list[Hypothesis]:
    """One hypothesis per utterance, each searched alone: what is beside it in the batch doesn't matter to it.

    guide: added to the model's log-probabilities in the choice of each token.
    """
    found = []
    for row, length in enumerate(seconds):
        size = int(memory.lengths[row])
        cache = memory.cache.alone(row, size)
        text = _Text(memory.ctc[row, :size], options, options.max_tokens(length), guide)
        most = backend.at_once
        while not text.over:
            before = len(text.tokens)
            cache = _read(backend, cache, text, most - 1)
            # Where CTC was wrong it may well be so again
            most = min(backend.at_once, max(WARY, 2 * (len(text.tokens) - before)))
        found.append(text.hypothesis())
    return found


def candidates(scores: Floats, options: SearchOptions) -> Ints:
    """The likeliest tokens of each row (S, V), -inf for what can't come, and the end: (S, C), ascending.

    The end comes twice where it is one of the likeliest. Some are to spare: CTC may prefer others than the decoder
    does, and a loop forbids one token per group size.
    """
    count = min(scores.shape[1], 2 * options.beam + LONGEST_GROUP)
    possible = np.full((len(scores), count + 1), EOS)
    possible[:, :count] = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    possible.sort(axis=1)
    return possible


def forbid(scores: Floats) -> None:
    """Blank belongs to CTC and BOS to the start: neither is ever written. Changes scores (..., V) in place."""
    scores[..., BLANK] = scores[..., BOS] = -np.inf


def _read(backend: Backend, cache: Cache, text: _Text, most: int) -> Cache:
    """The decoder reads the latest token and a draft of at most so many; as much is written as is its own choice."""
    draft = text.draft(most)
    latest = text.tokens[-1] if text.tokens else BOS
    scores, longer = backend.step(np.array([[latest, *draft]], np.int64), cache)
    forbid(scores)
    text.write(draft, scores[0])
    own = 0 if text.over else 1  # the token that wasn't in the draft, unless it was the end
    return longer.until(1 + len(text.tokens) - own)


class _Text:
    """What has been written of one utterance."""

    def __init__(self, ctc: Floats, options: SearchOptions, limit: int, guide: Guide[Any] | None) -> None:
        """ctc: (T, V) log-probabilities; limit: of tokens."""
        self.tokens: list[int] = []
        self.over = False
        self._log_probs: list[float] = []
        self._score = self._bonus = 0.0  # by CTC, of the text so far; the sum of what the guide thought
        self._options, self._limit = options, limit
        self._guide, self._thoughts = guide, None if guide is None else guide.start()
        self._best = ctc.argmax(axis=1)  # (T,)
        self._scorer = PrefixScorer(ctc)
        self._ctc = self._scorer.start()

    def draft(self, most: int) -> list[int]:
        """What CTC's best path says behind the position at which the text so far most likely ends."""
        most = min(most, self._limit - len(self.tokens))
        if most <= 0:
            return []
        last, start = BLANK, 0
        if self.tokens:
            last, start = self.tokens[-1], int(self._ctc.non_blank.argmax()) + 1
        return list(takewhile(lambda token: token > EOS, collapse(self._best[start:], last)[:most]))

    def write(self, draft: Sequence[int], log_probs: Floats) -> None:
        """Choose token after token, as long as the draft had it; the first that it hadn't is the last.

        log_probs: (S, V) the decoder's, for each token of the draft and what comes behind it.
        """
        own = log_probs.argmax(axis=1)
        start, agreed = 0, True
        while agreed and start < len(log_probs) and not self.over:
            stop = start  # where the decoder alone would write something else: hardly more of the draft will be written
            while stop < len(draft) and own[stop] == draft[stop]:
                stop += 1
            agreed = self._write(draft[start : stop + 1], log_probs[start : stop + 1])
            start = stop + 1

    def hypothesis(self) -> Hypothesis:
        """The text, once it is over."""
        weighs = bool(self._options.ctc_weight)
        log_probs = tuple(self._log_probs)
        score = self._options.score(log_probs, self._score, self._bonus)
        return Hypothesis(tuple(self.tokens), log_probs, score, ctc=self._score if weighs else None)

    def _write(self, draft: Sequence[int], log_probs: Floats) -> bool:
        """The same for tokens that are judged together; the last may have nothing in the draft. Says if all had."""
        before = [self.tokens[-1] if self.tokens else -1, *draft][: len(log_probs)]
        states, thoughts = [self._ctc], [self._thoughts]
        for last, token in pairwise(before):
            states.append(self._scorer.extend(states[-1], last, token, 0.0))
            if self._guide is not None:
                thoughts.append(self._guide.advance(thoughts[-1], token))
        bonus = None if self._guide is None else np.array([self._guide.scores(state) for state in thoughts])  # (S, V)
        possible = candidates(log_probs if bonus is None else log_probs + bonus, self._options)  # (S, C)
        each = np.arange(len(possible))[:, None]
        decoder = log_probs[each, possible]
        weight = self._options.ctc_weight
        # No weight times minus infinity would be no number
        joint = np.where(np.isfinite(decoder), (1 - weight) * np.maximum(decoder, UNLIKELY, dtype=np.float64), -np.inf)
        ctc = None
        if weight:
            ctc = self._scorer.scores_of_each(states, before, possible)
            joint += weight * ctc
        if bonus is not None:
            joint += bonus[each, possible]
        for i, best_first in enumerate(np.argsort(-joint, axis=1, kind="stable")):
            token = self._first_allowed(possible[i, best_first])
            at = int(np.searchsorted(possible[i], token))
            self._log_probs.append(float(decoder[i, at]))
            self._score = 0.0 if ctc is None else float(ctc[i, at])
            if bonus is not None:
                self._bonus += float(bonus[i, token])
            if token == EOS:
                self.over = True
                return False
            self.tokens.append(token)
            if i == len(log_probs) - 1 or token != draft[i]:
                # Without a share in the score CTC still says where the text so far ends, for the draft
                self._ctc = self._scorer.extend(states[i], before[i], token, self._score)
                if self._guide is not None:
                    self._thoughts = self._guide.advance(thoughts[i], token)
                return i < len(draft) and token == draft[i]
        raise AssertionError

    def _first_allowed(self, best_first: Ints) -> int:
        """The best token that may be written here."""
        if len(self.tokens) >= self._limit:
            return EOS
        tokens = tuple(self.tokens)
        for token in best_first.tolist():
            if token == EOS or not repeats(tokens, token, self._options.repeat_limit):
                break
        return int(token)
