"""Beam search over the decoder, with CTC's prefix score in the ranking if wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from asr.search.ctc import PrefixScorer, PrefixState
from asr.search.greedy import forbid
from asr.search.hypothesis import BOS, EOS, LONGEST_GROUP, Hypothesis, SearchOptions, repeats

if TYPE_CHECKING:
    from asr.search.backend import Backend, Floats, Ints, Memory


@dataclass(frozen=True)
class _Partial:
    """A hypothesis under way."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    row: int  # in the cache
    ctc: PrefixState | None

    def score(self, options: SearchOptions) -> float:
        return options.score(self.log_probs, 0.0 if self.ctc is None else self.ctc.score)


@dataclass
class _Utterance:
    """The beam of one utterance."""

    limit: int
    scorer: PrefixScorer | None
    partials: list[_Partial]
    finished: list[Hypothesis] = field(default_factory=list)


def beam(backend: Backend, memory: Memory, seconds: list[float], options: SearchOptions) -> list[list[Hypothesis]]:
    """Per utterance its hypotheses, best first, at most options.beam and at least one.

    All beams of all utterances make one step together.
    """
    utterances = []
    for i, s in enumerate(seconds):
        scorer = PrefixScorer(memory.ctc[i, : memory.lengths[i]]) if options.ctc_weight else None
        first = _Partial((), (), i, scorer.start() if scorer else None)
        utterances.append(_Utterance(options.max_tokens(s), scorer, [first]))
    cache = memory.cache
    while any(u.partials for u in utterances):
        partials = [p for u in utterances for p in u.partials]
        cache = cache.select(np.array([p.row for p in partials]))
        latest = np.array([p.tokens[-1] if p.tokens else BOS for p in partials], np.int64)
        scores, cache = backend.step(latest, cache)
        forbid(scores)
        start = 0
        for utterance in utterances:
            count = len(utterance.partials)
            if count:
                _advance(utterance, scores[start : start + count], start, options)
            start += count
    return [sorted(u.finished, key=lambda h: -h.score)[: options.beam] for u in utterances]


def _advance(utterance: _Utterance, scores: Floats, start: int, options: SearchOptions) -> None:
    """One token more for each partial of the beam; the best options.beam go on or finish. Rows start at `start`."""
    extended: list[_Partial] = []
    for i, partial in enumerate(utterance.partials):
        if len(partial.tokens) >= utterance.limit:
            candidates = np.array([EOS])
        else:
            # Some to spare: CTC may prefer others than the decoder does, and a loop forbids one token per group size
            count = min(scores.shape[1], 2 * options.beam + LONGEST_GROUP)
            candidates = np.argpartition(-scores[i], count - 1)[:count]
            candidates = np.union1d(candidates, [EOS])
        candidates = np.array([
            t for t in candidates
            if np.isfinite(scores[i, t]) and (t == EOS or not repeats(partial.tokens, int(t), options.repeat_limit))
        ])  # fmt: skip
        states = _extend_ctc(utterance.scorer, partial, candidates)
        extended += [
            _Partial((*partial.tokens, int(t)), (*partial.log_probs, float(scores[i, t])), start + i, state)
            for t, state in zip(candidates, states, strict=True)
        ]
    extended.sort(key=lambda p: -p.score(options))
    utterance.partials = []
    for partial in extended[: options.beam]:
        if partial.tokens[-1] == EOS:
            utterance.finished.append(Hypothesis(partial.tokens[:-1], partial.log_probs, partial.score(options)))
        else:
            utterance.partials.append(partial)
    if len(utterance.finished) >= options.beam and not _may_improve(utterance, options):
        utterance.partials = []


def _may_improve(utterance: _Utterance, options: SearchOptions) -> bool:
    """Whether a partial is better than the worst of the best finished ones.

    Its log-probability can only fall from there. Its mean per token could still rise; that seldom pays for the wait.
    """
    worst = sorted((h.score for h in utterance.finished), reverse=True)[options.beam - 1]
    return any(p.score(options) > worst for p in utterance.partials)


def _extend_ctc(scorer: PrefixScorer | None, partial: _Partial, candidates: Ints) -> list[PrefixState | None]:
    if scorer is None or partial.ctc is None:
        return [None] * len(candidates)
    last = partial.tokens[-1] if partial.tokens else -1
    scores, non_blank, blank = scorer.extend(partial.ctc, last, candidates)
    return [PrefixState(non_blank[:, c], blank[:, c], float(scores[c])) for c in range(len(candidates))]
