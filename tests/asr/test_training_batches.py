"""Batches: all of the data, few shapes, bounded cost, the same for every rank and every time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import TrainingError
from asr.manifest import Utterance
from asr.training.batches import Batch, BatchStream
from asr.training.config import DataConfig, Stage
from asr.training.corpus import Packed
from audio.augmentation import AugmentationConfig, Augmenter, length_at_speed

PLAIN = Stage(augment=False)
OFF = Augmenter(AugmentationConfig.off())
VARIED = Augmenter(replace(AugmentationConfig.off(), speed_probability=0.67, padding_probability=0.3))


def packed(seconds: list[float], repeats: list[float] | None = None, texts: list[str] | None = None) -> Packed:
    """Utterances whose sound is not there: whoever planned by reading it would fail."""
    n = len(seconds)
    where = np.array([(0, 0, round(s * 16000)) for s in seconds], np.int64)
    rows = tuple(Utterance(Path("/nowhere"), s, "") for s in seconds)
    return Packed(rows, tuple(texts or ["x"] * n), np.array(repeats or [1.0] * n), (Path("/nowhere"),), where)


def stream(
    data: Packed,
    *stages: Stage,
    config: DataConfig | None = None,
    augmenter: Augmenter = OFF,
    seed: int = 1,
    accumulate: int = 1,
    rank: int = 0,
    world: int = 1,
) -> BatchStream:
    return BatchStream(
        data, config or DataConfig(seconds_per_batch=24), stages or (PLAIN,), augmenter,
        accumulate=accumulate, seed=seed, rank=rank, world=world,
    )  # fmt: skip


def various(n: int = 300, seed: int = 0) -> list[float]:
    return list(np.random.default_rng(seed).gamma(2, 1, n).clip(0.2, 20))


def cost(batch: Batch, config: DataConfig) -> float:
    """Seconds, with what attention adds for long ones."""
    seconds = batch.samples / 16000
    return len(batch.rows) * (seconds + seconds**2 / config.quadratic_seconds)


lengths = st.lists(st.floats(0.1, 24), min_size=1, max_size=60)


@given(lengths, st.integers(1, 3), st.floats(4, 60), st.booleans(), st.integers(0, 5))
@settings(derandomize=True, max_examples=40, deadline=None)
def test_a_pass_holds_everything_once_and_what_fills_the_last_batch(
    seconds: list[float], world: int, budget: float, augment: bool, number: int
) -> None:
    data, config = packed(seconds), DataConfig(seconds_per_batch=budget)
    augmenter = VARIED if augment else OFF
    ranks = [
        stream(data, Stage(), config=config, augmenter=augmenter, rank=rank, world=world).plan(0, number)
        for rank in range(world)
    ]
    counts = Counter(row for plan in ranks for batch in plan for row in batch.rows)
    assert set(counts) == set(range(len(seconds)))
    longest = max(batch.samples for batch in ranks[0])
    filled = sum(counts.values()) - len(seconds)
    assert filled < world * max(len(b.rows) for b in ranks[0] if b.samples == longest)
    for together in zip(*ranks, strict=True):
        assert len({(batch.samples, len(batch.rows), batch.stage) for batch in together}) == 1
        assert len({batch.seed for batch in together}) == world  # each varies its utterances in its own way
        batch = together[0]
        assert batch.samples % 8000 == 0
        assert len(batch.rows) % 4 == 0 or len(batch.rows) < 4
        assert cost(batch, config) <= budget or len(batch.rows) == 1
        for part in together:
            for row, speed in zip(part.rows, part.speeds, strict=True):
                assert length_at_speed(int(data.where[row, 2]), speed) <= part.samples


def test_ranks_share_no_row_but_what_fills_up() -> None:
    data, config = packed([1.0] * 96), DataConfig(seconds_per_batch=25)  # 24 a batch, none to fill up
    plans = [stream(data, config=config, rank=rank, world=2).plan(0, 0) for rank in range(2)]
    rows = [{row for batch in plan for row in batch.rows} for plan in plans]
    assert not rows[0] & rows[1]
    assert len(rows[0] | rows[1]) == 96


def test_shapes_are_few() -> None:
    shapes = {(batch.samples, len(batch.rows)) for batch in stream(packed(various(2000))).plan(0, 0)}
    assert len(shapes) == len({samples for samples, _ in shapes}) <= 2 * 20


def test_each_pass_and_each_seed_has_its_own_order() -> None:
    data = packed(various())
    first = stream(data)
    assert first.plan(0, 0) == stream(data).plan(0, 0)
    assert [b.rows for b in first.plan(0, 0)] != [b.rows for b in first.plan(0, 1)]
    assert [b.rows for b in first.plan(0, 0)] != [b.rows for b in stream(data, seed=2).plan(0, 0)]
    assert len({batch.seed for number in range(5) for batch in first.plan(0, number)}) == sum(
        len(first.plan(0, number)) for number in range(5)
    )


@given(st.integers(0, 60), st.integers(1, 3))
@settings(derandomize=True, max_examples=30, deadline=None)
def test_starting_later_is_the_same_as_skipping(start: int, accumulate: int) -> None:
    stages = (Stage(4, max_seconds=1.5, augment=False), Stage(5), Stage())
    whole = stream(packed(various(60)), *stages, accumulate=accumulate, augmenter=VARIED)
    late = stream(packed(various(60)), *stages, accumulate=accumulate, augmenter=VARIED)
    late.start = start
    assert list(islice(late, 20)) == list(islice(whole, start, start + 20))


def test_stages_switch_at_their_steps() -> None:
    data = packed(various())
    stages = (Stage(3, max_seconds=1.0, augment=False), Stage(2, max_seconds=2.0), Stage())
    batches = list(islice(stream(data, *stages, accumulate=4, augmenter=VARIED), 200))
    assert [batch.stage for batch in batches] == [0] * 12 + [1] * 8 + [2] * 180
    for batch in batches:
        longest = stages[batch.stage].max_seconds or 99
        assert all(data.seconds()[row] <= longest for row in batch.rows)
    assert all(speed == 1 for batch in batches[:12] for speed in batch.speeds)
    assert any(speed != 1 for batch in batches[12:20] for speed in batch.speeds)


def test_a_last_stage_with_steps_ends() -> None:
    assert len(list(stream(packed([1.0]), Stage(3), Stage(4), accumulate=2))) == 14


def test_repeats_are_how_often_a_row_comes() -> None:
    repeats = [2.0, 1.0, 0.5, 1.25, 0.0]
    data = packed([1.0] * 5, repeats)
    one_row = DataConfig(seconds_per_batch=1.1)  # a batch each, none to fill up
    plans = [stream(data, config=one_row).plan(0, number) for number in range(800)]
    counts = Counter(row for plan in plans for batch in plan for row in batch.rows)
    assert counts[0] == 1600
    assert counts[1] == 800
    assert counts[2] / 800 == pytest.approx(0.5, abs=0.06)
    assert counts[3] / 800 == pytest.approx(1.25, abs=0.06)
    assert 4 not in counts


def test_rare_rows_come_in_the_end() -> None:
    plan = stream(packed([1.0, 2.0], [1e-6, 1e-6])).plan(0, 0)  # not an endless search for a row
    assert len(plan) == 1
    assert len(set(plan[0].rows)) == 1


def test_a_stage_without_utterances_is_an_error() -> None:
    with pytest.raises(TrainingError, match=r"setting stages\.1: no utterance of 0\.5 s or less .* has 1\.00 s"):
        stream(packed([1.0, 2.0]), Stage(1), Stage(max_seconds=0.5))
    with pytest.raises(TrainingError, match=r"setting stages\.0: .* repeat above 0"):
        stream(packed([1.0], [0.0]), Stage())


@given(lengths, st.floats(4, 60), st.floats(5, 40))
@settings(derandomize=True, max_examples=30, deadline=None)
def test_the_worst_batch_is_the_costliest(seconds: list[float], budget: float, quadratic: float) -> None:
    config = DataConfig(seconds_per_batch=budget, quadratic_seconds=quadratic)
    stages = (Stage(2, augment=False), Stage())
    planner = stream(packed(seconds), *stages, config=config, augmenter=VARIED)
    worst = cost(planner.worst(), config)
    for stage in range(2):
        assert all(cost(batch, config) <= worst + 1e-9 for number in range(3) for batch in planner.plan(stage, number))


def test_the_worst_batch_has_the_longest_text_that_may_stand_in_it() -> None:
    data = packed([1.0, 1.0, 1.0], texts=["a", "a long text", "a text"])
    assert set(stream(data).worst().rows) == {1}


def test_long_utterances_come_one_by_one() -> None:
    config = DataConfig(seconds_per_batch=24, quadratic_seconds=30)
    planner = stream(packed([20.0] * 3 + [5.0] * 8), config=config)
    sizes = {batch.samples // 16000: len(batch.rows) for batch in planner.plan(0, 0)}
    assert sizes == {20: 1, 5: 4}  # 5 s cost 5.83, 20 s cost 33: one is too much already
