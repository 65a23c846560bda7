"""Scores against jiwer, a plain dynamic programme and the variance of a ratio, and against examples counted by hand."""

import json

import jiwer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.evaluation import Counts, align, count, rate_interval, score

# A handful of words, so that repeats and crossings are common.
sentences = st.lists(st.sampled_from(["on", "off", "light", "the", "a", "o'clock"]), max_size=8).map(" ".join)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)
few = settings(derandomize=True, max_examples=60)


def distance(reference: list[str], hypothesis: list[str]) -> int:
    """Wagner & Fischer (1974), straight from the paper."""
    row = list(range(len(hypothesis) + 1))
    for i, said in enumerate(reference, start=1):
        previous, row = row, [i]
        for j, heard in enumerate(hypothesis, start=1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (said != heard)))
    return row[-1]


@few
@given(sentences, sentences)
def test_alignment_spells_both_sides_in_the_fewest_edits(reference: str, hypothesis: str) -> None:
    said, heard = reference.split(), hypothesis.split()
    steps = align(said, heard)
    assert [step.reference for step in steps if step.reference is not None] == said
    assert [step.hypothesis for step in steps if step.hypothesis is not None] == heard
    for step in steps:
        assert (step.kind == "equal") == (step.reference == step.hypothesis)
        assert (step.kind == "insertion") == (step.reference is None)
        assert (step.kind == "deletion") == (step.hypothesis is None)
    kinds = [step.kind for step in steps]
    counts = count(said, heard)
    assert counts == Counts(*(kinds.count(kind) for kind in ("equal", "substitution", "deletion", "insertion")))
    assert counts.errors == distance(said, heard)
    assert counts.reference == len(said)


@few
@given(pairs)
def test_measures_and_alignment_totals_are_those_of_jiwer(texts: list[tuple[str, str]]) -> None:
    references, hypotheses = [list(side) for side in zip(*texts, strict=True)]
    total = score(references, hypotheses, resamples=0).total
    spoken = [place for place, text in enumerate(references) if text]  # jiwer takes no empty reference
    silent = [hypothesis for reference, hypothesis in texts if not reference]
    words, characters = Counts(), Counts()
    if spoken:
        by_word = jiwer.process_words([references[i] for i in spoken], [hypotheses[i] for i in spoken])
        words = Counts(by_word.hits, by_word.substitutions, by_word.deletions, by_word.insertions)
        by_character = jiwer.process_characters([references[i] for i in spoken], [hypotheses[i] for i in spoken])
        characters = Counts(
            by_character.hits, by_character.substitutions, by_character.deletions, by_character.insertions
        )
        assert words.rate == pytest.approx(by_word.wer)
        assert characters.rate == pytest.approx(by_character.cer)
    assert total.words == words + Counts(insertions=sum(len(text.split()) for text in silent))
    assert total.characters == characters + Counts(insertions=sum(len(text) for text in silent))
    assert total.ser == sum(reference != hypothesis for reference, hypothesis in texts) / len(texts)


def test_counts_are_summed_over_the_corpus() -> None:
    evaluation = score(["yes", "turn the kitchen light on"], ["no", "turn the kitchen light on"])
    assert evaluation.total.wer == 1 / 6  # the mean of the rates would be 1/2
    assert evaluation.total.ser == 1 / 2


def test_both_sides_are_normalised() -> None:
    evaluation = score(["Turn ON, please!"], ["turn on please"])
    assert evaluation.total.words == Counts(hits=3)
    assert evaluation.utterances[0].reference == "turn on please"


def test_groups() -> None:
    evaluation = score(
        ["yes", "no", "light on"],
        ["yes", "go", "light"],
        names=["1.wav", "2.wav", "3.wav"],
        groups=["words", "words", "home"],
        seconds=[1.0, 0.5, 2.0],
    )
    home, words = evaluation.groups
    assert (home.name, home.utterances, home.seconds, home.wer, home.wrong) == ("home", 1, 2.0, 0.5, 1)
    assert (words.name, words.utterances, words.seconds, words.wer, words.wrong) == ("words", 2, 1.5, 0.5, 1)
    assert home.words == Counts(hits=1, deletions=1)
    assert evaluation.total.words == home.words + words.words
    assert evaluation.total.seconds == 3.5


def test_empty_reference_counts_its_insertions() -> None:
    evaluation = score(["", "yes"], ["thank you", "yes"])
    assert evaluation.total.words == Counts(hits=1, insertions=2)
    assert evaluation.total.wer == 2.0
    assert evaluation.utterances[0].words.rate is None


def test_no_reference_word_at_all_has_no_rate() -> None:
    total = score(["", ""], ["", "you"]).total
    assert (total.wer, total.cer, total.interval, total.ser) == (None, None, None, 0.5)
    assert total.words.insertions == 1


def test_nothing_to_score() -> None:
    evaluation = score([], [])
    assert (evaluation.total.wer, evaluation.total.ser, evaluation.groups, evaluation.worst()) == (None, None, (), [])


def test_confusions_most_frequent_first_then_by_word() -> None:
    evaluation = score(
        ["five", "five", "go", "on", "yes"],
        ["nine", "nine", "no", "", "oh yes"],
    )
    assert [(each.kind, each.reference, each.hypothesis, each.count) for each in evaluation.confusions] == [
        ("substitution", "five", "nine", 2),
        ("insertion", None, "oh", 1),
        ("substitution", "go", "no", 1),
        ("deletion", "on", None, 1),
    ]


def test_worst_are_those_with_most_errors() -> None:
    evaluation = score(
        ["a b c d", "a b", "", "a", "a b"],
        ["x y c d", "x y", "x y", "a", "a x"],
        names=["long", "short", "silent", "right", "half"],
    )
    assert [each.name for each in evaluation.worst()] == ["silent", "short", "long", "half"]
    assert [each.name for each in evaluation.worst(2)] == ["silent", "short"]


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 references need as many of everything; given 1 hypotheses"):
        score(["a", "b"], ["a"])


def test_as_json() -> None:
    evaluation = score(["light on", "yes"], ["light off", "yes"], names=["a.wav", "b.wav"], seconds=[1.0, 0.25])
    page = json.loads(json.dumps(evaluation.to_dict()))
    assert page["total"] | {"wer_interval": None} == {
        "name": "total",
        "utterances": 2,
        "seconds": 1.25,
        "wer": 0.333333,
        "wer_interval": None,
        "cer": 0.181818,
        "sentence_error_rate": 0.5,
        "sentences_wrong": 1,
        "words": {
            "rate": 0.333333,
            "reference": 3,
            "errors": 1,
            "substitutions": 1,
            "deletions": 0,
            "insertions": 0,
        },
        "characters": {
            "rate": 0.181818,
            "reference": 11,
            "errors": 2,
            "substitutions": 1,
            "deletions": 0,
            "insertions": 1,
        },
    }
    low, high = page["total"]["wer_interval"]
    assert 0 <= low <= 1 / 3 <= high <= 0.5
    assert [group["name"] for group in page["groups"]] == ["all"]
    assert page["confusions"] == [{"kind": "substitution", "reference": "on", "hypothesis": "off", "count": 1}]
    assert page["worst"] == [
        {
            "name": "a.wav",
            "alignment": [
                {"kind": "equal", "reference": "light", "hypothesis": "light"},
                {"kind": "substitution", "reference": "on", "hypothesis": "off"},
            ],
        }
    ]
    assert [each["hypothesis"] for each in page["utterances"]] == ["light off", "yes"]


def test_interval_agrees_with_the_variance_of_a_ratio() -> None:
    """Cochran, Sampling Techniques (1977), section 6.3: the large-sample standard error of a quotient of sums."""
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, 9, 400)
    errors = generator.binomial(lengths, 0.2)
    rate = errors.sum() / lengths.sum()
    residuals = errors - rate * lengths
    error = np.sqrt(len(lengths) * residuals.var(ddof=1)) / lengths.sum()
    interval = rate_interval(errors.tolist(), lengths.tolist(), resamples=4000)
    assert interval == pytest.approx((rate - 1.96 * error, rate + 1.96 * error), abs=0.1 * error)


def test_interval_is_the_same_in_every_run() -> None:
    errors, lengths = [1, 0, 2, 0, 1, 3], [4, 4, 4, 1, 1, 6]
    assert rate_interval(errors, lengths) == rate_interval(errors, lengths)
    assert rate_interval(errors, lengths) != rate_interval(errors, lengths, seed=1)


def test_interval_where_there_is_none() -> None:
    assert rate_interval([1], [2]) is None
    assert rate_interval([1, 1], [0, 0]) is None
    assert rate_interval([1, 1], [2, 2], resamples=0) is None
    assert rate_interval([1] + [0] * 9, [1] + [0] * 9) == (1.0, 1.0)  # draws without any word are drawn again
