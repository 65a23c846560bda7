"""Beam search over the decoder, with CTC's prefix score in the ranking if wanted, and held to a graph if wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from asr.search.ctc import PrefixScorer, PrefixState
from asr.search.greedy import candidates, forbid
from asr.search.hypothesis import BOS, EOS, Hypothesis, SearchOptions, repeats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.search.backend import Backend, Floats, Ints, Memory
    from asr.search.guide import Guide


class Graph(Protocol):
    """The texts that may be written, as paths of tokens from state 0 to a final state."""

    @property
    def final(self) -> NDArray[np.bool_]:
        """(S,), whether a text may end in the state."""

    def arcs(self, state: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Tokens that may follow, ascending, and the states that they lead to."""


@dataclass(slots=True)
class _Partial:
    """A hypothesis under way."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    row: int  # in the cache
    ctc: PrefixState | None  # of the tokens before the latest, until it is kept
    ctc_score: float = 0.0  # of all tokens
    state: int = 0  # of the graph
    deviations: tuple[float, ...] = ()
    guide_state: Any = None  # before the latest token, until it is kept
    guide_sum: float = 0.0

    def score(self, options: SearchOptions) -> float:
        return options.score(self.log_probs, self.ctc_score, self.guide_sum)


@dataclass
class _Utterance:
    """The beam of one utterance."""

    limit: int
    scorer: PrefixScorer | None
    partials: list[_Partial]
    finished: list[Hypothesis] = field(default_factory=list)


def beam(
    backend: Backend,
    memory: Memory,
    seconds: list[float],
    options: SearchOptions,
    graph: Graph | None = None,
    *,
    guide: Guide[Any] | None = None,
) -> list[list[Hypothesis]]:
    """Per utterance its hypotheses, best first, at most options.beam; at least one, unless a graph holds the search.

    All beams of all utterances make one step together. Held to a graph, only its texts are found; none where the sound
    is too short for any of them. A guide's scores are added in the ranking at every step (shallow fusion, Gulcehre et
    al. 2015); log-probabilities stay the model's.
    """
    utterances = []
    for i, s in enumerate(seconds):
        scorer = PrefixScorer(memory.ctc[i, : memory.lengths[i]]) if options.ctc_weight else None
        state = None if guide is None else guide.start()
        first = _Partial((), (), i, scorer.start() if scorer else None, guide_state=state)
        utterances.append(_Utterance(options.max_tokens(s), scorer, [first]))
    cache = memory.cache
    while any(u.partials for u in utterances):
        partials = [p for u in utterances for p in u.partials]
        cache = cache.select(np.array([p.row for p in partials]))
        latest = np.array([p.tokens[-1] if p.tokens else BOS for p in partials], np.int64)
        scores, cache = backend.step(latest[:, None], cache)
        scores = scores[:, 0]  # (B, V)
        forbid(scores)
        start = 0
        for utterance in utterances:
            count = len(utterance.partials)
            if count:
                _advance(utterance, scores[start : start + count], start, options, graph, guide=guide)
            start += count
    return [sorted(u.finished, key=lambda h: -h.score)[: options.beam] for u in utterances]


def _advance(
    utterance: _Utterance,
    scores: Floats,
    start: int,
    options: SearchOptions,
    graph: Graph | None,
    *,
    guide: Guide[Any] | None,
) -> None:
    """One token more for each partial of the beam; the best options.beam go on or finish. Rows start at `start`."""
    extended: list[_Partial] = []
    for i, partial in enumerate(utterance.partials):
        may_grow = len(partial.tokens) < utterance.limit
        bonus = None if guide is None else guide.scores(partial.guide_state)
        ranking = scores[i] if bonus is None else scores[i] + bonus
        possible = (
            _likeliest(partial, ranking, options, may_grow=may_grow)
            if graph is None
            else _within(graph, partial, ranking, options, may_grow=may_grow)
        )
        following = [0] * len(possible) if graph is None else _targets(graph, partial.state, possible)
        heard = _ctc_scores(utterance.scorer, partial, possible)
        best = float(scores[i].max())
        extended += [
            _Partial(
                (*partial.tokens, int(t)), (*partial.log_probs, float(scores[i, t])), start + i,
                partial.ctc, float(ctc), state,
                () if graph is None else (*partial.deviations, float(scores[i, t]) - best),
                partial.guide_state, 0.0 if bonus is None else partial.guide_sum + float(bonus[t]),
            )
            for t, ctc, state in zip(possible, heard, following, strict=True)
        ]  # fmt: skip
    extended.sort(key=lambda p: -p.score(options))
    utterance.partials = []
    for partial in extended[: options.beam]:
        if partial.tokens[-1] == EOS:
            ctc = None if partial.ctc is None else partial.ctc_score
            score = partial.score(options)
            utterance.finished.append(
                Hypothesis(partial.tokens[:-1], partial.log_probs, score, partial.deviations, ctc)
            )
        else:
            if utterance.scorer is not None and partial.ctc is not None:
                last, token = (-1, *partial.tokens)[-2:]
                partial.ctc = utterance.scorer.extend(partial.ctc, last, token, partial.ctc_score)
            if guide is not None:
                partial.guide_state = guide.advance(partial.guide_state, partial.tokens[-1])
            utterance.partials.append(partial)
    if len(utterance.finished) >= options.beam and not _may_improve(utterance, options):
        utterance.partials = []


def _likeliest(partial: _Partial, scores: Floats, options: SearchOptions, *, may_grow: bool) -> Ints:
    """Tokens to go on with where any text may be written."""
    if not may_grow:
        return np.array([EOS])
    possible = [t for t in np.unique(candidates(scores[None], options)) if np.isfinite(scores[t])]
    return np.array([t for t in possible if t == EOS or not repeats(partial.tokens, int(t), options.repeat_limit)])


def _within(graph: Graph, partial: _Partial, scores: Floats, options: SearchOptions, *, may_grow: bool) -> Ints:
    """Tokens to go on with where the graph says what may be written: the likeliest of those, and the end if allowed."""
    tokens = graph.arcs(partial.state)[0].astype(np.int64) if may_grow else np.zeros(0, np.int64)
    count = 4 * options.beam  # to spare, since CTC may prefer others than the decoder does
    if len(tokens) > count:
        tokens = tokens[np.argpartition(-scores[tokens], count - 1)[:count]]
    possible = np.append(tokens, EOS) if graph.final[partial.state] else tokens
    return possible[np.isfinite(scores[possible])]


def _targets(graph: Graph, state: int, possible: Ints) -> list[int]:
    """Where each token leads; the end leads nowhere."""
    tokens, targets = graph.arcs(state)
    return [0 if t == EOS else int(targets[np.searchsorted(tokens, t)]) for t in possible]


def _may_improve(utterance: _Utterance, options: SearchOptions) -> bool:
    """Whether a partial is better than the worst of the best finished ones.

    Its log-probability can only fall from there. Its mean per token could still rise; that seldom pays for the wait.
    """
    worst = sorted((h.score for h in utterance.finished), reverse=True)[options.beam - 1]
    return any(p.score(options) > worst for p in utterance.partials)


def _ctc_scores(scorer: PrefixScorer | None, partial: _Partial, possible: Ints) -> NDArray[np.float64]:
    if scorer is None or partial.ctc is None:
        return np.zeros(len(possible))
    return scorer.scores(partial.ctc, partial.tokens[-1] if partial.tokens else -1, possible)
