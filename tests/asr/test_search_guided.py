"""Greedy and beam search with a guide, over models so small that every text can be tried."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from asr.boost import Boost
from asr.lm import NGram
from asr.search import Blend, SearchOptions, beam, decode, greedy
from asr.tokenizer import Tokenizer
from tests.asr.tables import BLANK, BOS, EOS, POSITIONS, VOCAB, Tables, Text, chance, log_softmax, memory_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.search.backend import Floats


class Opinion:
    """A guide whose every score is a function of the tokens so far; it notes what it was asked."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        self.seed, self.scale = seed, scale

    def start(self) -> Text:
        return ()

    def advance(self, state: Text, token: int) -> Text:
        assert token not in {BLANK, BOS, EOS}
        return (*state, token)

    def scores(self, state: Text) -> Floats:
        scores = np.random.default_rng([self.seed, 7, *state]).normal(scale=self.scale, size=VOCAB).astype(np.float32)
        scores.flags.writeable = False
        return scores

    def of(self, text: Text) -> float:
        """The sum over a whole text."""
        return math.fsum(float(self.scores(text[:i])[token]) for i, token in enumerate((*text, EOS)))


def _log_probs(seed: int, text: Text) -> list[float]:
    return [float(chance(seed, text[:i])[token]) for i, token in enumerate((*text, EOS))]


@pytest.mark.parametrize("power", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_ranks_all_texts_by_model_and_guide_together(seed: int, power: float) -> None:
    guide = Opinion(seed)
    options = SearchOptions(beam=400, length_power=power, length_bonus=0.1, min_tokens=4, repeat_limit=4)
    (found,) = beam(Tables(), memory_of([seed]), [0.01], options, guide=guide)
    texts = [text for n in range(5) for text in itertools.product((3, 4, 5), repeat=n)]
    expected = []
    for text in texts:
        length = len(text) + 1
        total = math.fsum(_log_probs(seed, text)) + guide.of(text)
        expected.append((total / length**power + 0.1 * length, text))
    expected.sort(reverse=True)
    assert [h.tokens for h in found] == [text for _, text in expected]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-5)
    for h in found:  # of the model alone, whatever the guide thinks
        assert h.log_probs == pytest.approx(_log_probs(seed, h.tokens), abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_greedy_takes_the_best_sum_each_time(seed: int) -> None:
    guide = Opinion(seed)
    tokens: list[int] = []
    while len(tokens) < 7:
        scores = chance(seed, tuple(tokens)) + guide.scores(tuple(tokens))
        scores[[BLANK, BOS]] = -np.inf
        if (token := int(scores.argmax())) == EOS:
            break
        tokens.append(token)
    options = SearchOptions(min_tokens=7, repeat_limit=99, length_power=0.0)
    (found,) = greedy(Tables(), memory_of([seed]), [0.01], options, guide)
    assert found.tokens == tuple(tokens)
    assert found.log_probs == pytest.approx(_log_probs(seed, found.tokens), abs=1e-6)
    assert found.score == pytest.approx(math.fsum(found.log_probs) + guide.of(found.tokens), abs=1e-5)


def test_greedy_is_a_beam_of_one() -> None:
    options, numbers = SearchOptions(), list(range(16))
    for guide in (Opinion(1), Opinion(2, scale=4.0)):
        one = [h[0] for h in beam(Tables(), memory_of(numbers), [1.0] * 16, options, guide=guide)]
        other = greedy(Tables(), memory_of(numbers), [1.0] * 16, options, guide)
        assert [(h.tokens, h.log_probs) for h in one] == [(h.tokens, h.log_probs) for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5)


@pytest.mark.parametrize(
    "options", [SearchOptions(), SearchOptions(beam=3), SearchOptions(beam=4, ctc_weight=0.4, length_bonus=0.2)]
)
def test_a_batch_is_decoded_as_each_alone(options: SearchOptions) -> None:
    guide = Blend(((Opinion(5), 0.5), (Opinion(6), 0.3)))
    numbers, seconds = [3, 14, 15, 9, 2, 6], [0.1, 3.0, 0.0, 1.5, 1.1, 2.0]
    together = decode(Tables(), memory_of(numbers), seconds, options, guide)
    alone = [decode(Tables(), memory_of([n]), [s], options, guide)[0] for n, s in zip(numbers, seconds, strict=True)]
    assert together == alone
    assert len({h.tokens for h in together}) > 1


@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(beam=4), SearchOptions(beam=4, ctc_weight=0.3)])
def test_a_guide_without_opinion_changes_nothing(options: SearchOptions) -> None:
    numbers = list(range(10))
    indifferent = decode(Tables(), memory_of(numbers), [1.0] * 10, options, Opinion(0, scale=0.0))
    assert indifferent == decode(Tables(), memory_of(numbers), [1.0] * 10, options)


@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(beam=3)])
def test_a_language_model_turns_a_close_choice(options: SearchOptions) -> None:
    """After 3 the sound hardly tells 4 from 5, and prefers 5."""

    def unsure(number: int, tokens: Text) -> Floats:
        del number
        logits = {0: [0, 0, 0, 9, 0, 0], 1: [0, 0, 0, 0, 5.0, 5.3]}.get(len(tokens), [0, 0, 9, 0, 0, 0])
        return log_softmax(np.array(logits, np.float64))

    lm = NGram.train([(3, 4)] * 5 + [(4, 5)], VOCAB, 2)
    (without,) = decode(Tables(unsure), memory_of([0]), [1.0], options)
    (lightly,) = decode(Tables(unsure), memory_of([0]), [1.0], options, Blend(((lm, 0.01),)))
    (guided,) = decode(Tables(unsure), memory_of([0]), [1.0], options, Blend(((lm, 0.5),)))
    assert (without.tokens, lightly.tokens, guided.tokens) == ((3, 5), (3, 5), (3, 4))
    assert guided.log_probs[1] == pytest.approx(float(unsure(0, (3,))[4]), abs=1e-6)
    assert guided.log_probs[1] < without.log_probs[1]  # less sure, and says so


def test_an_unfinished_phrase_leaves_no_trace_in_the_ranking() -> None:
    tokenizer = Tokenizer.train(["on", "no"], vocab_size=32)
    boost = Boost({"on no": 4.0}, tokenizer)
    said = [*tokenizer.encode("on on")]

    def sure(number: int, tokens: Text) -> Floats:
        del number
        logits = np.zeros(tokenizer.vocab_size)
        logits[said[len(tokens)] if len(tokens) < len(said) else EOS] = 40.0
        return log_softmax(logits)

    memory = memory_of([0])
    memory = replace(memory, ctc=np.zeros((1, POSITIONS, tokenizer.vocab_size), np.float32))
    for options in (SearchOptions(), SearchOptions(beam=2)):
        (plain,) = decode(Tables(sure), memory, [1.0], options)
        (boosted,) = decode(Tables(sure), memory, [1.0], options, boost)
        assert boosted.tokens == plain.tokens == tuple(said)
        assert boosted.score == pytest.approx(plain.score, abs=1e-6)


@pytest.mark.parametrize("width", [1, 4])
def test_texts_still_end_and_loops_are_still_cut(width: int) -> None:
    """A guide that would hear 4 for ever."""

    class Craze(Opinion):
        def scores(self, state: Text) -> Floats:
            del state
            return np.array([9, 9, -9, 0, 9, 1], np.float32)

    options = SearchOptions(beam=width, min_tokens=12, repeat_limit=3)
    (found,) = decode(Tables(), memory_of([0]), [0.01], options, Craze(0))
    assert len(found.tokens) == 12
    assert {BLANK, BOS, EOS}.isdisjoint(found.tokens)
    assert all(found.tokens[i : i + 4] != (4,) * 4 for i in range(9))


def test_a_guide_chooses_among_the_sentences_of_a_graph() -> None:
    class Two:
        """Texts (3,) and (4,)."""

        final: NDArray[np.bool_] = np.array([False, True])

        def arcs(self, state: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
            return (np.array([3, 4]), np.array([1, 1])) if state == 0 else (np.zeros(0, int), np.zeros(0, int))

    for token in (3, 4):
        lm = NGram.train([(token,)] * 9, VOCAB, 2)
        guide = Blend(((lm, 10.0),))
        (found,) = beam(Tables(), memory_of([1]), [0.01], SearchOptions(beam=2), Two(), guide=guide)
        assert found[0].tokens == (token,)
        assert {h.tokens for h in found} == {(3,), (4,)}


def test_a_blend_is_the_weighted_sum() -> None:
    one, other = Opinion(1), Opinion(2)
    blend = Blend(((one, 0.25), (other, 2.0)))
    state = blend.advance(blend.advance(blend.start(), 3), 5)
    expected = 0.25 * one.scores((3, 5)) + 2 * other.scores((3, 5))
    np.testing.assert_allclose(blend.scores(state), expected, rtol=1e-6)
    assert blend.scores(state).dtype == np.float32
