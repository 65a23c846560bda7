"""The model with skips: pairs of the latest and each earlier token, against counts and votes written out."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.lm import NGram, Skips
from asr.lm.skips import CERTAINTY, DECAY, WINDOW
from asr.lm.table import discounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.search.backend import Floats

BOS, EOS = 1, 2
VOCAB = 8
Text = tuple[int, ...]

some_texts = st.lists(st.lists(st.integers(3, VOCAB - 1), max_size=12).map(tuple), min_size=1, max_size=20)


def after(lm: Skips | NGram, history: Sequence[int]) -> Floats:
    state = lm.start()
    for token in history:
        state = lm.advance(state, token)
    return lm.scores(state)


def voted(texts: Sequence[Text], history: Text) -> list[float]:
    """Probabilities of all tokens from the definition, pair by pair."""
    seen: Counter[Text] = Counter()
    for text in texts:
        whole = (BOS, *text, EOS)
        for place in range(2, len(whole)):
            earlier = whole[max(0, place - 1 - WINDOW) : place - 1]
            seen.update((a, whole[place - 1], whole[place]) for a in set(earlier))
    taken = discounts(np.array(list(seen.values()) or [1]))
    lower: list[float] = np.exp(after(NGram.train(texts, VOCAB, 2), history)).tolist()
    whole = (BOS, *history)
    earlier, latest = whole[:-1], whole[-1]
    votes: list[tuple[float, list[float]]] = []
    for a in set(earlier[-WINDOW:]):
        following = {w: n for (x, b, w), n in seen.items() if (x, b) == (a, latest)}
        if not following:
            continue
        everything = sum(following.values())
        rest = sum(taken[min(n, 3) - 1] for n in following.values()) / everything
        own = {w: (n - taken[min(n, 3) - 1]) / everything for w, n in following.items()}
        p = [own.get(w, 0.0) + rest * lower[w] for w in range(VOCAB)]
        distance = 1 + next(i for i, token in enumerate(reversed(earlier)) if token == a)
        weight = DECAY ** (distance - 1) * math.exp(CERTAINTY * sum(x * math.log(x) for x in p if x > 0))
        votes.append((weight, p))
    total = sum(weight for weight, _ in votes)
    return [sum(weight * p[w] for weight, p in votes) / total for w in range(VOCAB)] if votes else lower


@settings(derandomize=True, deadline=None, max_examples=60)
@given(texts=some_texts, history=st.lists(st.integers(3, VOCAB - 1), max_size=14).map(tuple))
def test_every_probability_is_what_the_formula_says(texts: list[Text], history: Text) -> None:
    found = np.exp(after(Skips.train(texts, VOCAB), history))
    assert found == pytest.approx(voted(texts, history), abs=1e-5)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(texts=some_texts, history=st.lists(st.integers(3, VOCAB - 1), max_size=14).map(tuple))
def test_probabilities_sum_to_one_after_every_history(texts: list[Text], history: Text) -> None:
    scores = after(Skips.train(texts, VOCAB), history)
    assert scores.dtype == np.float32
    assert np.exp(scores.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)
    assert np.isneginf(scores[:EOS]).all()
    assert np.isfinite(scores[EOS:]).all()


def test_a_word_far_back_tells_what_a_trigram_cannot() -> None:
    texts = [(3, 6, 7, 4)] * 5 + [(5, 6, 7, 5)] * 5
    trigram, skips = NGram.train(texts, VOCAB, 3), Skips.train(texts, VOCAB)
    near = np.exp(after(trigram, (3, 6, 7)))
    assert near[4] == pytest.approx(near[5], rel=0.2)
    far = np.exp(after(skips, (3, 6, 7)))
    assert far[4] > 1.5 * far[5]
    other = np.exp(after(skips, (5, 6, 7)))
    assert other[5] > 1.5 * other[4]


def test_what_lies_before_the_window_has_no_vote() -> None:
    middle = (5, 6) * (WINDOW // 2)
    shorter = middle[1:]
    lm = Skips.train([(3, *shorter, 7, 4), (4, *shorter, 7, 3)] * 3, VOCAB)
    assert (after(lm, (3, *shorter, 7)) != after(lm, (4, *shorter, 7))).any()
    np.testing.assert_array_equal(after(lm, (3, *middle, 7)), after(lm, (4, *middle, 7)))


def test_the_bigram_answers_where_no_pair_was_seen() -> None:
    texts = [(3, 4), (5, 6)]
    lm = Skips.train(texts, VOCAB)
    np.testing.assert_allclose(after(lm, ()), after(NGram.train(texts, VOCAB, 2), ()), rtol=1e-6)
    np.testing.assert_allclose(after(lm, (7, 7)), after(NGram.train(texts, VOCAB, 2), (7, 7)), rtol=1e-6)
