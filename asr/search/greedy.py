"""Greedy search: the best token each time, judged by the decoder and CTC together.

What CTC's best path says comes first as a draft, whose tokens the decoder reads all at once and judges one by one, as
if it had written them (speculative decoding, Leviathan et al. 2023). The text is the one that steps of one token would
give; a clear command needs one step in place of one for each token.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.search.ctc import PrefixScorer, collapse
from asr.search.hypothesis import BLANK, BOS, EOS, LONGEST_GROUP, Hypothesis, SearchOptions, repeats

if TYPE_CHECKING:
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
    """The likeliest tokens, and the end. scores: (V,), -inf for what can't come.

    Some to spare: CTC may prefer others than the decoder does, and a loop forbids one token per group size.
    """
    count = min(len(scores), 2 * options.beam + LONGEST_GROUP)
    likeliest = {EOS, *np.argpartition(-scores, count - 1)[:count].tolist()}
    return np.array([token for token in sorted(likeliest) if token == EOS or math.isfinite(scores[token])])


def forbid(scores: Floats) -> None:
    """Blank belongs to CTC and BOS to the start: neither is ever written. Changes scores (..., V) in place."""
    scores[..., BLANK] = scores[..., BOS] = -np.inf


def _read(backend: Backend, cache: Cache, text: _Text, most: int) -> Cache:
    """The decoder reads the latest token and a draft of at most so many; as much is written as is its own choice."""
    before = len(text.tokens)
    draft = text.draft(most)
    latest = text.tokens[-1] if text.tokens else BOS
    scores, longer = backend.step(np.array([[latest, *draft]], np.int64), cache)
    forbid(scores)
    for i in range(len(draft) + 1):
        token = text.write(scores[0, i])
        if text.over or i == len(draft) or token != draft[i]:
            break
    return longer.until(before + 1 + i)


class _Text:
    """What has been written of one utterance."""

    def __init__(self, ctc: Floats, options: SearchOptions, limit: int, guide: Guide[Any] | None) -> None:
        """ctc: (T, V) log-probabilities; limit: of tokens."""
        self.tokens: list[int] = []
        self.over = False
        self._log_probs: list[float] = []
        self._sum = self._bonus = 0.0  # of the decoder's log-probabilities, and of what the guide thought
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
        return list(collapse(self._best[start:], last)[:most])

    def write(self, log_probs: Floats) -> int:
        """Choose the next token. log_probs: (V,) the decoder's."""
        thought = None if self._guide is None else self._guide.scores(self._thoughts)
        token = self._choose(log_probs, thought)
        self._log_probs.append(float(log_probs[token]))
        self._sum += self._log_probs[-1]
        self._bonus += 0.0 if thought is None else float(thought[token])
        last = self.tokens[-1] if self.tokens else -1
        if token == EOS:
            self.over = True
            if self._options.ctc_weight:
                self._ctc = replace(self._ctc, score=float(self._scorer.scores(self._ctc, last, np.array([EOS]))[0]))
            return token
        # Without a share in the score CTC still says where the text so far ends, for the draft
        self._ctc = self._scorer.extend(self._ctc, last, token)
        self.tokens.append(token)
        if self._guide is not None:
            self._thoughts = self._guide.advance(self._thoughts, token)
        return token

    def hypothesis(self) -> Hypothesis:
        """The text, once it is over."""
        weighs = bool(self._options.ctc_weight)
        log_probs = tuple(self._log_probs)
        score = self._options.score(log_probs, self._ctc.score if weighs else 0.0, self._bonus)
        return Hypothesis(tuple(self.tokens), log_probs, score, ctc=self._ctc.score if weighs else None)

    def _choose(self, log_probs: Floats, thought: Floats | None) -> int:
        if len(self.tokens) >= self._limit:
            return EOS
        possible = candidates(log_probs if thought is None else log_probs + thought, self._options)
        weight = self._options.ctc_weight
        scores = (1 - weight) * (self._sum + log_probs[possible].astype(np.float64))
        if thought is not None:
            scores += self._bonus + thought[possible]
        if weight:
            last = self.tokens[-1] if self.tokens else -1
            scores += weight * self._scorer.scores(self._ctc, last, possible)
        tokens = tuple(self.tokens)
        for i in np.argsort(-scores, kind="stable"):
            token = int(possible[i])
            if token == EOS or not repeats(tokens, token, self._options.repeat_limit):
                break
        return token
