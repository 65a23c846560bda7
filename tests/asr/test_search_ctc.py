"""CTC's prefix scores and alignment against every path there is, and against torch's CTC loss."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.search.ctc import PrefixScorer, align, best_path, collapse

if TYPE_CHECKING:
    from asr.search.backend import Floats

BLANK, EOS = 0, 2
LETTERS = (1, 3, 4)
Tokens = tuple[int, ...]


def _ctc(positions: int, vocab: int, seed: int, scale: float = 2.0) -> Floats:
    """Log-probabilities (T, V)."""
    logits = np.random.default_rng(seed).normal(scale=scale, size=(positions, vocab))
    log_probs: Floats = (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).astype(np.float32)
    return log_probs


def _read(path: Tokens) -> Tokens:
    """What a path says: repeats merged, blanks dropped."""
    return tuple(token for token, _ in itertools.groupby(path) if token != BLANK)


def _paths(ctc: Floats) -> list[tuple[Tokens, Tokens, float]]:
    """Every path (T positions, V tokens: V ** T of them) with what it says and its log-probability."""
    size, vocab = ctc.shape
    return [
        (path, _read(path), math.fsum(float(ctc[t, token]) for t, token in enumerate(path)))
        for path in itertools.product(range(vocab), repeat=size)
    ]


def _add(log_probs: list[float]) -> float:
    return float(np.logaddexp.reduce(np.array([-math.inf, *log_probs])))


def _score(ctc: Floats, tokens: Tokens) -> tuple[float, float]:
    """Log-probabilities that the text begins with these tokens, and that it is these, token by token."""
    scorer = PrefixScorer(ctc)
    state, last = scorer.start(), -1
    for token in tokens:
        state, last = scorer.extend(state, last, token), token
    return state.score, float(scorer.scores(state, last, np.array([EOS]))[0])


@pytest.mark.parametrize("positions", [1, 2, 3, 4, 5])
def test_prefix_scores_are_sums_over_all_paths(positions: int) -> None:
    ctc = _ctc(positions, 5, seed=positions)
    paths = _paths(ctc)
    for length in range(5):
        for tokens in itertools.product(LETTERS, repeat=length):
            prefix, whole = _score(ctc, tokens)
            expected = _add([p for _, text, p in paths if text[:length] == tokens])
            expected_whole = _add([p for _, text, p in paths if text == tokens])
            for found, true in ((prefix, expected), (whole, expected_whole)):
                if true == -math.inf:
                    assert found < -1e20, tokens
                else:
                    assert found == pytest.approx(true, abs=1e-5), tokens


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    positions=st.integers(1, 60), tokens=st.lists(st.sampled_from([1, 3, 4, 5]), min_size=1, max_size=12).map(tuple),
    seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 2.0, 30.0]),
)  # fmt: skip
def test_whole_texts_are_scored_as_by_torchs_loss(positions: int, tokens: Tokens, seed: int, scale: float) -> None:
    ctc = _ctc(positions, 6, seed, scale)
    loss = torch.nn.functional.ctc_loss(
        torch.from_numpy(ctc).double()[:, None], torch.tensor([tokens]), torch.tensor([positions]),
        torch.tensor([len(tokens)]), reduction="none",
    ).item()  # fmt: skip
    found = _score(ctc, tokens)[1]
    if math.isinf(loss):  # more tokens than positions
        assert found < -1e20
    else:
        assert found == pytest.approx(-loss, rel=1e-6, abs=1e-6)


def test_candidates_together_are_each_alone() -> None:
    scorer = PrefixScorer(_ctc(9, 6, seed=1))
    state = scorer.extend(scorer.start(), -1, 4)
    candidates = np.array([5, 4, EOS, 3])  # 4 repeats the last
    together = scorer.scores(state, 4, candidates)
    for c, token in enumerate(candidates):
        assert together[c] == scorer.scores(state, 4, np.array([token]))[0]
        if token != EOS:
            assert together[c] == scorer.extend(state, 4, int(token)).score
            assert scorer.extend(state, 4, int(token), 5.0).score == 5.0


def test_a_prefix_is_its_text_or_goes_on() -> None:
    """Half a minute of sound: the probabilities of the end and of all continuations add up to that of the prefix."""
    ctc = _ctc(1000, 8, seed=3, scale=6.0)
    ctc[:, EOS] = -np.inf  # CTC never says it
    ctc -= np.logaddexp.reduce(ctc, axis=1, keepdims=True)
    for prefix in ((), (5,), (5, 5), (7, 1, 6)):
        whole = _score(ctc, prefix)[1]
        onward = [_score(ctc, (*prefix, token))[0] for token in range(1, 8) if token != EOS]
        assert _add([whole, *onward]) == pytest.approx(_score(ctc, prefix)[0], abs=1e-3)


def test_certain_zeros_do_no_harm() -> None:
    """A head that rules a token out by minus infinity."""
    ctc = _ctc(6, 5, seed=4)
    ctc[:, 3] = -np.inf
    prefix, whole = _score(ctc, (1, 3, 4))
    assert max(prefix, whole) < -1e3
    assert not math.isnan(prefix + whole)
    assert math.isfinite(_score(ctc, (1, 4))[1])
    found = align(ctc, (1, 3, 4))
    assert found is not None
    assert found[1] < -1e3
    assert len(found[0]) == 3


@pytest.mark.parametrize("positions", [1, 2, 3, 4, 5])
def test_alignment_is_the_likeliest_of_all_paths(positions: int) -> None:
    ctc = _ctc(positions, 5, seed=10 + positions)
    paths = _paths(ctc)
    for length in (1, 2, 3, 4):
        for tokens in itertools.product(LETTERS, repeat=length):
            fitting = [(p, path) for path, text, p in paths if text == tokens]
            found = align(ctc, tokens)
            if not fitting:
                assert found is None, tokens
                continue
            assert found is not None, tokens
            spans, total = found
            best, likeliest = max(fitting)
            assert total == pytest.approx(best, abs=1e-5)
            path = [BLANK] * positions
            for token, (first, last) in zip(tokens, spans, strict=True):
                path[first : last + 1] = [token] * (last + 1 - first)
            assert tuple(path) == likeliest


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    positions=st.integers(1, 50), tokens=st.lists(st.sampled_from([1, 3, 4, 5]), max_size=12).map(tuple),
    seed=st.integers(0, 10**6),
)  # fmt: skip
def test_spans_are_in_order_within_the_sound_and_apart(positions: int, tokens: Tokens, seed: int) -> None:
    ctc = _ctc(positions, 6, seed, scale=3.0)
    found = align(ctc, tokens)
    needed = len(tokens) + sum(a == b for a, b in itertools.pairwise(tokens))
    assert (found is None) == (not tokens or positions < needed)
    if found is None:
        return
    spans, total = found
    assert len(spans) == len(tokens)
    assert total <= _score(ctc, tokens)[1] + 1e-5  # one path of many
    assert all(0 <= first <= last < positions for first, last in spans)
    for (before, (_, last)), (after, (first, _)) in itertools.pairwise(zip(tokens, spans, strict=True)):
        assert first > last + (before == after)  # a repeated token needs a blank between


def test_alignment_finds_where_tokens_were_planted() -> None:
    path = [0, 0, 4, 4, 0, 0, 4, 0, 1, 3, 3, 3, 0]
    ctc = np.log(np.full((len(path), 5), 0.01, np.float32))
    ctc[np.arange(len(path)), path] = np.log(0.96)
    found = align(ctc, (4, 4, 1, 3))
    assert found is not None
    assert found[0] == [(2, 3), (6, 6), (8, 8), (9, 11)]


def test_alignment_of_a_long_text() -> None:
    """Half a minute, 300 tokens: 601 states."""
    tokens = tuple(np.random.default_rng(0).choice([1, 3, 4, 5, 6], 300).tolist())
    path = np.zeros(1000, np.int64)
    where = np.arange(300) * 3 + 50
    path[where] = tokens
    ctc = np.full((1000, 7), -9.0, np.float32)
    ctc[np.arange(1000), path] = -0.01
    found = align(ctc, tokens)
    assert found is not None
    assert found[0] == [(p, p) for p in where.tolist()]
    assert found[1] == pytest.approx(-10.0, abs=1e-3)


def test_best_path_merges_repeats_and_drops_blanks() -> None:
    path = [0, 4, 4, 0, 4, 1, 1, 0, 0]
    assert best_path(np.eye(5, dtype=np.float32)[path]) == (4, 4, 1)
    assert best_path(np.eye(5, dtype=np.float32)[[0, 0]]) == ()
    assert best_path(np.eye(5, dtype=np.float32)[[3]]) == (3,)


def test_a_path_may_go_on_from_a_token() -> None:
    assert collapse(np.array([4, 4, 0, 4, 3]), last=4) == (4, 3)
    assert collapse(np.array([4, 4, 0, 4, 3]), last=3) == (4, 4, 3)
    assert collapse(np.array([], np.int64), last=3) == ()
