"""Greedy and beam search over a model so small that all its texts can be tried one by one."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import ConfigError
from asr.search import Cache, Memory, SearchOptions, beam, decode, greedy
from asr.search.hypothesis import repeats
from tests.asr.tables import BLANK, BOS, EOS, POSITIONS, VOCAB, Tables, Text, chance, log_softmax, memory_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from asr.search.backend import Floats

Table = dict[tuple[int, ...], "Floats"]


def _texts(limit: int) -> Iterator[tuple[int, ...]]:
    for length in range(limit + 1):
        yield from itertools.product((3, 4, 5), repeat=length)


def _ctc_brutally(ctc: Floats, tokens: tuple[int, ...]) -> float:
    """Log-probability that the CTC head reads exactly these tokens, path by path."""
    total = -math.inf
    for path in itertools.product(range(VOCAB), repeat=len(ctc)):
        if tuple(t for t, _ in itertools.groupby(path) if t != BLANK) == tokens:
            total = float(np.logaddexp(total, sum(float(ctc[t, token]) for t, token in enumerate(path))))
    return total


def _all(
    seed: int, limit: int, options: SearchOptions, ctc: Floats | None = None
) -> list[tuple[float, tuple[int, ...]]]:
    """Every allowed text with its score, best first; the score written out once more."""
    ranked = []
    for text in _texts(limit):
        if re.search(rf"(.{{1,4}})\1{{{options.repeat_limit}}}", "".join(map(str, text))):
            continue
        log_probs = [float(chance(seed, text[:i])[token]) for i, token in enumerate((*text, EOS))]
        total = math.fsum(log_probs)
        if ctc is not None:
            total = (1 - options.ctc_weight) * total + options.ctc_weight * _ctc_brutally(ctc, text)
        length = len(log_probs)
        ranked.append((total / length**options.length_power + options.length_bonus * length, text))
    return sorted(ranked, reverse=True)


@pytest.mark.parametrize("power", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("bonus", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_finds_the_best_of_all_texts(seed: int, power: float, bonus: float) -> None:
    options = SearchOptions(beam=400, length_power=power, length_bonus=bonus, min_tokens=4, repeat_limit=2)
    (found,) = beam(Tables(), memory_of([seed]), [0.01], options)
    expected = _all(seed, 4, options)
    assert [h.tokens for h in found] == [text for _, text in expected]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-5)


@pytest.mark.parametrize("weight", [0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_finds_the_best_joint_score(seed: int, weight: float) -> None:
    options = SearchOptions(beam=200, ctc_weight=weight, min_tokens=3)
    memory = memory_of([seed])
    (found,) = beam(Tables(), memory, [0.01], options)
    expected = _all(seed, 3, options, memory.ctc[0, : memory.lengths[0]])
    possible = [(score, text) for score, text in expected if score > -math.inf]
    assert [h.tokens for h in found[: len(possible)]] == [text for _, text in possible]
    assert [h.score for h in found[: len(possible)]] == pytest.approx([score for score, _ in possible], abs=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_greedy_takes_the_likeliest_token_each_time(seed: int) -> None:
    tokens: list[int] = []
    log_probs = []
    while True:
        scores = chance(seed, tuple(tokens)).copy()
        scores[[BLANK, BOS]] = -np.inf
        token = int(scores.argmax())
        if len(tokens) == 7:
            token = EOS
        log_probs.append(float(scores[token]))
        if token == EOS:
            break
        tokens.append(token)
    (found,) = greedy(Tables(), memory_of([seed]), [0.01], SearchOptions(min_tokens=7, repeat_limit=99))
    assert found.tokens == tuple(tokens)
    assert found.log_probs == pytest.approx(log_probs)
    assert found.score == pytest.approx(sum(log_probs) / len(log_probs))


@pytest.mark.parametrize(
    "options", [SearchOptions(), SearchOptions(beam=3), SearchOptions(beam=4, ctc_weight=0.4, length_bonus=0.2)]
)
def test_a_batch_is_decoded_as_each_alone(options: SearchOptions) -> None:
    numbers, seconds = [3, 14, 15, 9, 2, 6], [0.1, 3.0, 0.0, 1.5, 1.1, 2.0]
    together = decode(Tables(), memory_of(numbers), seconds, options)
    alone = [decode(Tables(), memory_of([n]), [s], options)[0] for n, s in zip(numbers, seconds, strict=True)]
    assert together == alone
    assert len({h.tokens for h in together}) > 1


def count_down(number: int, tokens: tuple[int, ...]) -> Floats:
    """As many tokens as the utterance's number says: 3, 4, 5, 3, 4 …"""
    return log_softmax(9.0 * np.eye(VOCAB)[EOS if len(tokens) == number else 3 + len(tokens) % 3])


def test_finished_utterances_leave_the_batch() -> None:
    backend = Tables(count_down)
    found = beam(backend, memory_of([2, 0, 5, 2]), [1.0] * 4, SearchOptions())
    assert [len(h[0].tokens) for h in found] == [2, 0, 5, 2]
    assert backend.sizes == [(4, 1), (3, 1), (3, 1), (1, 1), (1, 1), (1, 1)]


def _heard(path: Sequence[int]) -> Floats:
    """A CTC head that is sure of a path."""
    return np.stack([log_softmax(9.0 * np.eye(VOCAB)[token]) for token in path])


@pytest.mark.parametrize(
    ("path", "sizes"),
    [
        ([3, 3, 0, 4, 0, 5, 0, 3, 4, 4], [(1, 6)]),  # all as it will be written, the end as well
        ([3, 0, 4, 0, 0], [(1, 3), (1, 1), (1, 1), (1, 1)]),  # too little: nothing is drafted behind it
        ([4, 0, 4, 0, 5, 0, 3, 0, 4], [(1, 6), (1, 4), (1, 1)]),  # goes on behind what was wrong, warily
        ([0, 0, 0], [(1, 1)] * 6),
    ],
)
def test_what_ctc_heard_is_read_at_once(path: list[int], sizes: list[tuple[int, int]]) -> None:
    backend = Tables(count_down)
    memory = memory_of([5])
    heard = Memory(replace(memory.cache, lengths=np.array([len(path)])), _heard(path)[None], np.array([len(path)]))
    (found,) = greedy(backend, heard, [1.0], SearchOptions())
    assert found.tokens == (3, 4, 5, 3, 4)
    assert backend.sizes == sizes


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    number=st.integers(0, 10**6), at_once=st.integers(1, 9), options=st.builds(
        SearchOptions, ctc_weight=st.sampled_from([0.0, 0.3, 1.0]), min_tokens=st.integers(1, 9),
        repeat_limit=st.integers(1, 3), length_power=st.sampled_from([0.0, 1.0]),
    ),
)  # fmt: skip
def test_a_text_is_the_same_however_much_of_it_is_read_at_once(
    number: int, at_once: int, options: SearchOptions
) -> None:
    (found,) = greedy(Tables(at_once=at_once), memory_of([number]), [0.01], options)
    assert found == beam(Tables(), memory_of([number]), [0.01], options)[0][0]


def never_ends(number: int, tokens: tuple[int, ...]) -> Floats:
    """A decoder that has lost its way: it would write 4 for ever."""
    del number, tokens
    return log_softmax(np.array([0.0, 0.0, -20.0, 1.0, 9.0, 2.0]))


@pytest.mark.parametrize("width", [1, 4])
def test_texts_are_no_longer_than_the_sound_allows(width: int) -> None:
    options = SearchOptions(beam=width, tokens_per_second=4.0, min_tokens=3, repeat_limit=50)
    seconds = [0.0, 0.5, 2.1, 10.0]  # 3 at least, then 4 a second, rounded up
    found = decode(Tables(never_ends), memory_of([0, 1, 2, 3]), seconds, options)
    assert [len(h.tokens) for h in found] == [3, 3, 9, 40]
    assert all(h.tokens == (4,) * len(h.tokens) and len(h.log_probs) == len(h.tokens) + 1 for h in found)


def test_the_shortest_clip_may_hold_a_word() -> None:
    assert SearchOptions().max_tokens(0.0) >= 10
    assert SearchOptions().max_tokens(30.0) == 360


@pytest.mark.parametrize("options", [SearchOptions(repeat_limit=3), SearchOptions(repeat_limit=3, beam=5)])
def test_loops_are_broken(options: SearchOptions) -> None:
    (found,) = decode(Tables(never_ends), memory_of([0]), [10.0], options)
    assert len(found.tokens) > 20
    assert not re.search(r"(.{1,4})\1{3}", "".join(map(str, found.tokens)))
    assert found.tokens[:4] == (4, 4, 4, 5)  # the next best, then it may go on


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    tokens=st.lists(st.integers(3, 5), max_size=24).map(tuple), token=st.integers(3, 5), limit=st.integers(1, 4),
)  # fmt: skip
def test_repeats_is_what_a_regular_expression_finds_at_the_end(tokens: tuple[int, ...], token: int, limit: int) -> None:
    text = "".join(map(str, (*tokens, token)))
    assert repeats(tokens, token, limit) == bool(re.search(rf"(.{{1,4}})\1{{{limit}}}$", text))


@pytest.mark.parametrize("weight", [0.0, 0.5])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_n_best_is_sorted_and_distinct(width: int, weight: float) -> None:
    options = SearchOptions(beam=width, ctc_weight=weight)
    for hypotheses in beam(Tables(), memory_of(range(8)), [0.5] * 8, options):
        assert 1 <= len(hypotheses) <= width
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert all({BLANK, BOS, EOS}.isdisjoint(h.tokens) for h in hypotheses)
        assert all(len(h.log_probs) == len(h.tokens) + 1 for h in hypotheses)


def test_a_beam_sees_past_a_token_that_only_looks_good() -> None:
    def trap(number: int, tokens: tuple[int, ...]) -> Floats:
        del number
        if not tokens:
            return log_softmax(np.log(np.array([1e-9, 1e-9, 1e-9, 0.6, 0.4, 1e-9])))
        if len(tokens) == 1 and tokens[0] == 3:  # nothing fits after 3
            return log_softmax(np.log(np.array([1e-9, 1e-9, 0.2, 0.3, 0.25, 0.25])))
        return log_softmax(np.log(np.array([1e-9, 1e-9, 0.98, 0.01, 0.005, 0.005])))

    (hasty,) = decode(Tables(trap), memory_of([0]), [1.0], SearchOptions())
    (careful,) = decode(Tables(trap), memory_of([0]), [1.0], SearchOptions(beam=3))
    assert hasty.tokens[0] == 3
    assert careful.tokens == (4,)


def test_ctc_overrules_a_decoder_that_did_not_listen() -> None:
    def deaf(number: int, tokens: tuple[int, ...]) -> Floats:
        del number
        return log_softmax(np.array([0, 0, 5.0, 0, 0, 0] if tokens else [0, 0, 0, 1.0, 0.8, 0]))

    memory = memory_of([0])
    heard = np.full((1, POSITIONS, VOCAB), -12.0, np.float32)
    heard[0, :, BLANK] = 0.0
    heard[0, 2, [BLANK, 4]] = -12.0, 0.0  # one 4 in the middle
    memory = replace(memory, ctc=heard)
    assert decode(Tables(deaf), memory, [1.0], SearchOptions(beam=3))[0].tokens == (3,)
    assert decode(Tables(deaf), memory, [1.0], SearchOptions(beam=3, ctc_weight=0.3))[0].tokens == (4,)


@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(beam=2, ctc_weight=0.3)])
def test_nothing_to_decode(options: SearchOptions) -> None:
    none = np.zeros((1, 0, 1, 0, 1))
    memory = Memory(
        Cache(none, none, none, none, np.zeros(0)), np.zeros((0, 1, VOCAB), np.float32), np.zeros(0, np.int64)
    )
    assert decode(Tables(), memory, [], options) == []


@pytest.mark.parametrize(
    "values",
    [
        {"beam": 0},
        {"ctc_weight": 1.1},
        {"ctc_weight": -0.1},
        {"ctc_weight": math.nan},
        {"repeat_limit": 0},
        {"min_tokens": 0},
        {"tokens_per_second": 0.0},
        {"tokens_per_second": math.inf},
        {"length_power": math.nan},
        {"length_bonus": math.inf},
    ],
)
def test_options_out_of_range_are_refused_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        SearchOptions(**values)


# Held to a graph


class Tree:
    """The given texts as a graph: a state for each beginning."""

    def __init__(self, texts: set[Text]) -> None:
        beginnings = sorted({text[:i] for text in texts for i in range(len(text) + 1)} | {()})
        self._numbers = {beginning: i for i, beginning in enumerate(beginnings)}
        self._beginnings = beginnings
        self.final: NDArray[np.bool_] = np.array([beginning in texts for beginning in beginnings])

    def arcs(self, state: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        here = self._beginnings[state]
        found = [(b[-1], i) for b, i in self._numbers.items() if len(b) == len(here) + 1 and b[:-1] == here]
        return np.array([t for t, _ in sorted(found)], np.int32), np.array([i for _, i in sorted(found)], np.int32)


def scored(seed: int, text: Text, options: SearchOptions, memory: Memory) -> float:
    log_probs = [float(chance(seed, text[:i])[token]) for i, token in enumerate((*text, EOS))]
    total = (1 - options.ctc_weight) * sum(log_probs)
    if options.ctc_weight:
        total += options.ctc_weight * _ctc_brutally(memory.ctc[0, : memory.lengths[0]], text)
    return total / len(log_probs)


some_texts = st.sets(st.lists(st.sampled_from([3, 4, 5]), max_size=3).map(tuple), min_size=1, max_size=12)


@pytest.mark.parametrize("weight", [0.0, 0.3])
@settings(derandomize=True, max_examples=25, deadline=None)
@given(texts=some_texts, seed=st.integers(0, 5))
def test_a_wide_beam_ranks_all_sentences_by_their_full_score(weight: float, texts: set[Text], seed: int) -> None:
    options = SearchOptions(beam=100, ctc_weight=weight, min_tokens=4)
    memory = memory_of([seed])
    (found,) = beam(Tables(), memory, [0.01], options, Tree(texts))
    expected = sorted(((scored(seed, text, options, memory), text) for text in texts), reverse=True)
    possible = [(score, text) for score, text in expected if score > -np.inf]
    assert [h.tokens for h in found[: len(possible)]] == [text for _, text in possible]
    assert [h.score for h in found[: len(possible)]] == pytest.approx([score for score, _ in possible], abs=1e-5)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(texts=some_texts, seed=st.integers(0, 20), width=st.integers(1, 4))
def test_a_narrow_beam_writes_nothing_but_sentences(texts: set[Text], seed: int, width: int) -> None:
    (found,) = beam(Tables(), memory_of([seed]), [0.01], SearchOptions(beam=width, ctc_weight=0.3), Tree(texts))
    assert {h.tokens for h in found} <= texts
    assert len({h.tokens for h in found}) == len(found) <= width


def test_deviations_are_measured_from_what_the_decoder_would_have_written() -> None:
    text = (3, 5)
    (found,) = beam(Tables(), memory_of([2]), [0.01], SearchOptions(beam=2), Tree({text}))
    expected = []
    for i, token in enumerate((*text, EOS)):
        scores = chance(2, text[:i])
        scores[[BLANK, BOS]] = -np.inf
        expected.append(float(scores[token] - scores.max()))
    assert found[0].deviations == pytest.approx(expected, abs=1e-6)
    assert min(expected) < 0


def test_a_sentence_longer_than_the_sound_allows_is_not_found() -> None:
    options = SearchOptions(beam=3, min_tokens=2)
    (found,) = beam(Tables(), memory_of([1]), [0.01], options, Tree({(3, 4, 5)}))
    assert found == []
    (found,) = beam(Tables(), memory_of([1]), [0.01], options, Tree({(3, 4, 5), (4, 4)}))
    assert [h.tokens for h in found] == [(4, 4)]


def test_a_batch_is_held_to_the_graph_as_each_alone_is() -> None:
    graph, options = Tree({(3,), (4, 5), (5, 5, 3), (3, 4)}), SearchOptions(beam=3, ctc_weight=0.3)
    together = beam(Tables(), memory_of([0, 1, 2]), [0.01] * 3, options, graph)
    for number, found in enumerate(together):
        (alone,) = beam(Tables(), memory_of([number]), [0.01], options, graph)
        assert [h.tokens for h in found] == [h.tokens for h in alone]
        assert [h.score for h in found] == pytest.approx([h.score for h in alone])
