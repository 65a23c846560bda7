"""N-gram models against values computed by hand, and against the formula written out without any array."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.lm import NGram
from asr.lm.table import Table, counted, discounts, packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.search.backend import Floats

BLANK, BOS, EOS, UNK = range(4)
VOCAB = 8  # 4 … 7 are pieces
Text = tuple[int, ...]

some_texts = st.lists(st.lists(st.integers(UNK, VOCAB - 1), max_size=7).map(tuple), min_size=1, max_size=30)
histories = st.lists(st.integers(UNK, VOCAB - 1), max_size=8)


def probability(texts: Sequence[Text], order: int, history: Text, token: int) -> float:
    """Interpolated modified Kneser-Ney from the definition, count by count."""
    sentences = [(BOS, *text, EOS) for text in texts]
    seen = [Counter(s[i : i + n] for s in sentences for i in range(len(s) - n + 1)) for n in range(order + 1)]

    def count(gram: Text) -> int:
        if len(gram) == order or gram[0] == BOS:
            return seen[len(gram)][gram]
        return sum(longer[1:] == gram for longer in seen[len(gram) + 1])

    def discount(length: int, times: int) -> float:
        n = Counter(count(gram) for gram in seen[length] if gram[-1] != BOS)
        if not all(n[i] for i in (1, 2, 3, 4)):
            return (0.5, 1.0, 1.5)[min(times, 3) - 1]
        y = n[1] / (n[1] + 2 * n[2])
        found = [1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
        if any(not 0 <= d <= i for i, d in enumerate(found, 1)):
            found = [0.5, 1.0, 1.5]
        return found[min(times, 3) - 1]

    def smoothed(context: Text) -> float:
        lower = smoothed(context[1:]) if context else 1 / (VOCAB - EOS)
        following = {
            gram[-1]: count(gram)
            for gram in seen[len(context) + 1]
            if gram[:-1] == context and gram[-1] != BOS and count(gram)
        }
        total = sum(following.values())
        if not total:
            return lower
        rest = sum(discount(len(context) + 1, times) for times in following.values()) / total
        own = following.get(token, 0)
        return (own - discount(len(context) + 1, own) if own else 0) / total + rest * lower

    whole = (BOS, *history)
    return smoothed(whole[len(whole) - min(order - 1, len(whole)) :])


def after(lm: NGram, history: Sequence[int]) -> Floats:
    state = lm.start()
    for token in history:
        state = lm.advance(state, token)
    return lm.scores(state)


def test_a_bigram_computed_by_hand() -> None:
    # Once each: BOS 4 twice; 4 5, 4 6, 5 EOS, 6 EOS once. Discounts 0.5 and 1, since no count is 3
    lm = NGram.train([(4, 5), (4, 6)], 7, 2)
    # Continuations: 4 after BOS; 5, 6 after 4; EOS after 5 and 6: 5 in all, of which 0.5 x 3 + 1 are taken; 5 may come
    lower = {4: 0.5 / 5 + 0.5 / 5, 5: 0.5 / 5 + 0.5 / 5, 6: 0.5 / 5 + 0.5 / 5, EOS: 1 / 5 + 0.5 / 5, UNK: 0.5 / 5}
    assert sum(lower.values()) == pytest.approx(1)
    assert np.exp(after(lm, [7 - 4]))[list(lower)] == pytest.approx(list(lower.values()))  # UNK was never seen
    assert np.exp(after(lm, []))[4] == pytest.approx((2 - 1) / 2 + 1 / 2 * lower[4])
    assert np.exp(after(lm, []))[5] == pytest.approx(1 / 2 * lower[5])
    assert np.exp(after(lm, [4]))[5] == pytest.approx((1 - 0.5) / 2 + (0.5 + 0.5) / 2 * lower[5])
    assert np.exp(after(lm, [4, 5]))[EOS] == pytest.approx(0.5 + 0.5 * lower[EOS])
    assert np.isneginf(after(lm, [4])[[BLANK, BOS]]).all()


def test_discounts_computed_by_hand() -> None:
    # n1 = 6, n2 = 3, n3 = 2, n4 = 1: Y = 6 / 12
    counts = np.array([1] * 6 + [2] * 3 + [3] * 2 + [4] + [9])
    assert discounts(counts) == pytest.approx((1 - 2 * 0.5 * 3 / 6, 2 - 3 * 0.5 * 2 / 3, 3 - 4 * 0.5 * 1 / 2))
    assert discounts(np.array([1, 2, 3])) == (0.5, 1.0, 1.5)  # no count of 4
    assert discounts(np.array([1, 2] + [3] * 9 + [4])) == (0.5, 1.0, 1.5)  # the second would be below 0


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@settings(derandomize=True, deadline=None, max_examples=25)
@given(texts=some_texts, history=histories)
def test_every_probability_is_what_the_formula_says(order: int, texts: list[Text], history: list[int]) -> None:
    found = np.exp(after(NGram.train(texts, VOCAB, order), history))
    expected = [0.0, 0.0] + [probability(texts, order, tuple(history), token) for token in range(EOS, VOCAB)]
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_formula_also_holds_where_discounts_are_estimated() -> None:
    rng = np.random.default_rng(3)
    texts = [tuple(int(t) for t in rng.choice([4, 4, 5, 6, 7], rng.integers(1, 7))) for _ in range(25)]
    lm = NGram.train(texts, VOCAB, 3)
    whole = [(BOS, *text, EOS) for text in texts]
    times = Counter(text[i : i + 3] for text in whole for i in range(len(text) - 2))
    assert discounts(np.array(list(times.values()))) != (0.5, 1.0, 1.5)
    for history in [(), (4,), (5, 5), (6, 4), (7, 7, 5), (4, 5, 6, 5)]:
        expected = [0.0, 0.0] + [probability(texts, 3, history, token) for token in range(EOS, VOCAB)]
        assert np.exp(after(lm, history)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@settings(derandomize=True, deadline=None, max_examples=40)
@given(texts=some_texts, history=histories)
def test_probabilities_sum_to_one_after_every_history(order: int, texts: list[Text], history: list[int]) -> None:
    scores = after(NGram.train(texts, VOCAB, order), history)
    assert scores.dtype == np.float32
    assert scores.shape == (VOCAB,)
    assert np.exp(scores.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)
    assert np.isfinite(scores[EOS:]).all()  # everything that may be written may come


@settings(derandomize=True, deadline=None, max_examples=40)
@given(texts=some_texts, history=histories)
def test_a_state_is_no_longer_than_it_must_be(texts: list[Text], history: list[int]) -> None:
    lm = NGram.train(texts, VOCAB, 4)
    state = lm.start()
    for token in history:
        state = lm.advance(state, token)
        assert len(state) <= 3
        assert not state or lm.tables[len(state) - 1].row(state) is not None


def test_scores_are_kept_and_cannot_be_changed() -> None:
    lm = NGram.train([(4, 5)], VOCAB, 3)
    scores = lm.scores(lm.start())
    assert lm.scores(lm.start()) is scores
    with pytest.raises(ValueError, match="read-only"):
        scores[4] = 0


def test_the_highest_order_knows_more_than_the_lower() -> None:
    texts = [(4, 5, 6, 7)] * 9 + [(5, 5, 6, 4)] * 9
    assert after(NGram.train(texts, VOCAB, 4), [4, 5, 6]).argmax() == 7
    assert after(NGram.train(texts, VOCAB, 4), [5, 5, 6]).argmax() == 4
    low = np.exp(after(NGram.train(texts, VOCAB, 2), [4, 5, 6]))
    assert low[7] == pytest.approx(low[4], rel=0.05)


@settings(derandomize=True, max_examples=60)
@given(rows=st.lists(st.lists(st.integers(0, 65535), min_size=4, max_size=4), min_size=1, max_size=20))
def test_contexts_of_four_large_tokens_keep_apart_and_in_order(rows: list[list[int]]) -> None:
    contexts = np.array(rows, np.uint16)
    keys = [int(key) for key in packed(contexts)]
    assert sorted(range(len(rows)), key=lambda i: rows[i]) == sorted(range(len(rows)), key=lambda i: keys[i])
    assert len(set(keys)) == len(set(map(tuple, rows)))


@settings(derandomize=True, max_examples=60)
@given(rows=st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), max_size=40))
def test_rows_are_counted(rows: list[list[int]]) -> None:
    found, counts = counted(np.array(rows, np.uint16).reshape(-1, 3))
    assert dict(zip(map(tuple, found.tolist()), counts.tolist(), strict=True)) == Counter(map(tuple, rows))
    assert found.tolist() == sorted(found.tolist())


def test_a_table_holds_what_was_counted() -> None:
    entries = {(4, 5): 1, (4, 6): 3, (7, EOS): 2}
    table = Table.smoothed(np.array(list(entries), np.uint16), np.array(list(entries.values())))
    followers: defaultdict[int, list[int]] = defaultdict(list)
    for context in (4, 7):
        row = table.row((context,))
        assert row is not None
        followers[context] = table.tokens[table.offsets[row] : table.offsets[row + 1]].tolist()
    assert followers == {4: [5, 6], 7: [EOS]}
    assert table.row((5,)) is None
    assert table.shares.tolist() == pytest.approx([0.5 / 4, 1.5 / 4, 1 / 2])
    assert table.rest.tolist() == pytest.approx([2 / 4, 1 / 2])
    assert table.fault(8) is None
    assert table.fault(6) is not None
