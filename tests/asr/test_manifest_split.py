"""Division by speaker: nobody on two sides, nobody moves, shares met on average."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import ManifestError
from asr.manifest import Utterance
from asr.manifest.split import canonical_split, divide, draw, exact_split, parse_shares

if TYPE_CHECKING:
    from random import Random

SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}


def rows(speakers: int, each: int = 2) -> list[Utterance]:
    return [
        Utterance(Path(f"/corpus/{speaker}-{number}.wav"), 1.0, "x", speaker=f"speaker {speaker}")
        for speaker in range(speakers)
        for number in range(each)
    ]


def sides(divided: list[Utterance]) -> dict[str, set[str | None]]:
    found: dict[str, set[str | None]] = {}
    for row in divided:
        found.setdefault(str(row.speaker), set()).add(row.split)
    return found


def test_nobody_is_on_two_sides_and_shares_are_met() -> None:
    divided = divide(rows(2000), SHARES)
    assert all(len(splits) == 1 for splits in sides(divided).values())
    counts = Counter(row.split for row in divided)
    # binomial: 4 standard deviations of 2000 draws
    for name, share in SHARES.items():
        assert abs(counts[name] / len(divided) - share) < 4 * (share * (1 - share) / 2000) ** 0.5


@settings(max_examples=40, derandomize=True)
@given(st.sets(st.text(min_size=1), max_size=30), st.integers(0, 5), st.randoms(use_true_random=False))
def test_nobody_moves_when_rows_are_added_or_shuffled(names: set[str], seed: int, random: Random) -> None:
    few = rows(80)
    more = [*few, *(Utterance(Path("/a.wav"), 1.0, "x", speaker=name) for name in sorted(names))]
    random.shuffle(more)
    before, after = divide(few, SHARES, seed=seed), divide(more, SHARES, seed=seed)
    moved = sides(after)
    assert all(moved[str(row.speaker)] == {row.split} for row in before)


def test_what_was_drawn_stays_drawn_in_later_versions() -> None:
    # written down, since a release must not move anyone from test to train
    drawn = "".join({"train": ".", "dev": "d", "test": "t"}[draw(f"speaker\0{n}", SHARES, 0)] for n in range(40))
    assert drawn == ".d...d......t..d..d.....d.td..t......dtt"


def test_another_seed_draws_otherwise() -> None:
    assert divide(rows(100), SHARES, seed=0) != divide(rows(100), SHARES, seed=1)


def test_rows_without_a_speaker_go_by_their_file_wherever_the_corpus_lies() -> None:
    def anywhere(root: str) -> list[str | None]:
        unnamed = [Utterance(Path(root, f"{n // 2}.wav"), 1.0, "x", offset=n % 2) for n in range(80)]
        return [row.split for row in divide(unnamed, SHARES, folder=Path(root))]

    here = anywhere("/here")
    assert here == anywhere("/over/there")
    assert here[::2] == here[1::2]  # two stretches of one file stay together
    assert set(here) == set(SHARES)


def test_rows_may_keep_the_split_that_they_have() -> None:
    fixed = [Utterance(Path("/a.wav"), 1.0, "x", speaker=f"f{n}", split="test") for n in range(20)]
    divided = divide([*fixed, *rows(50)], SHARES, keep=True)
    assert divided[:20] == fixed
    assert {row.split for row in divide([*fixed, *rows(50)], SHARES)[:20]} != {"test"}


def test_a_split_that_stays_empty_is_refused_with_a_seed_that_works() -> None:
    few = rows(4)
    shares = {"train": 0.9, "test": 0.1}
    with pytest.raises(ManifestError, match=r"'test' would be empty.*4 speakers.*--seed \d+") as caught:
        divide(few, shares, seed=0)
    seed = int(str(caught.value).split("--seed ")[1].split()[0])
    assert {row.split for row in divide(few, shares, seed=seed)} == {"train", "test"}
    with pytest.raises(ManifestError, match=r"1 speakers .*too few.*--by file"):
        divide(rows(1), shares)


def test_one_speaker_is_divided_by_file() -> None:
    one = rows(1, each=50)
    divided = divide(one, SHARES, by_file=True)
    assert {row.split for row in divided} == set(SHARES)
    unnamed = [Utterance(row.audio_filepath, 1.0, "x") for row in one]
    assert [row.split for row in divide(unnamed, SHARES)] == [row.split for row in divided]
    with pytest.raises(ManifestError, match=r"none of 1 files .*fewer splits$"):
        divide(rows(1, each=1), SHARES, by_file=True)


def test_shares_of_nothing_and_of_everything() -> None:
    assert {row.split for row in divide(rows(20), {"train": 1.0, "test": 0.0})} == {"train"}
    assert divide([], SHARES) == []
    thirds = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}  # sum to 1 only after rounding
    assert {row.split for row in divide(rows(100), thirds)} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train=0.9", "sum to 0.9"),
        ("train=0.9,test=0.2", "sum to 1.1"),
        ("train=90,test=10", "between 0 and 1"),
        ("train=1.5,test=-0.5", "between 0 and 1"),
        ("train", "NAME=SHARE"),
        ("=1", "NAME=SHARE"),
        ("a/b=1", "NAME=SHARE"),
        ("train=0.5,train=0.5", "twice"),
        ("train=nan", "between 0 and 1"),
        ("a=1e308,b=1e308", "between 0 and 1"),
        ("a=inf,b=-inf", "between 0 and 1"),
    ],
)
def test_impossible_shares(text: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        parse_shares(text)


def test_shares_are_read() -> None:
    assert parse_shares("train=0.9, dev=0.05,test=0.05") == {"train": 0.9, "dev": 0.05, "test": 0.05}


@pytest.mark.parametrize(
    ("name", "inside", "whole"),
    [
        ("train", "train", "train"),
        ("Validation", "dev", "dev"),
        ("words.test", "test", None),
        ("spoken_test.train", "train", None),
        ("train_clean_100", "train", None),
        ("latest", None, None),
        ("eval", "test", "test"),
    ],
)
def test_names_of_splits(name: str, inside: str | None, whole: str | None) -> None:
    assert (canonical_split(name), exact_split(name)) == (inside, whole)
