"""From a batch to tensors: what is padding, what is text, and chance that depends on the batch alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from asr.tokenizer import Tokenizer
from asr.training.batches import Batch
from asr.training.corpus import load
from asr.training.data import IGNORED, Data, Tensors, Timed, TrainingSet, ValidationSet
from audio.augmentation import Augmenter

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.training.config import TrainConfig
    from asr.training.corpus import Packed


@pytest.fixture
def config(chirp_config: Callable[..., TrainConfig]) -> TrainConfig:
    return chirp_config()


@pytest.fixture
def packed(config: TrainConfig) -> Packed:
    return load(config.data.train, Path(config.data.cache), "en", "training")


@pytest.fixture
def tokenizer(packed: Packed) -> Tokenizer:
    return Tokenizer.train(packed.texts, 40)


def same(left: Tensors, right: Tensors) -> bool:
    pairs = [(value, dict(right)[name]) for name, value in left.items()]
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)  # type: ignore[arg-type]  # alike


def test_a_plain_batch_is_the_sound_and_the_text(packed: Packed, tokenizer: Tokenizer, config: TrainConfig) -> None:
    stage = replace(config.stages[0], augment=False, spec_augment=False)
    dataset = TrainingSet(packed, tokenizer, Augmenter(config.augmentation), replace(config, stages=(stage,)))
    batch = dataset[Batch((3, 5), (1.0, 1.0), 40000, (1, 0, 0, 0, 0), 0)]
    assert batch["samples"].shape == (2, 40000)
    assert not batch["spec_augment"]
    for i, row in enumerate((3, 5)):
        sound, tokens = packed.samples(row), tokenizer.encode(packed.texts[row])
        n, u = len(sound), len(tokens)
        assert batch["lengths"][i] == n
        np.testing.assert_array_equal(batch["samples"][i, :n].numpy(), sound)
        assert not batch["samples"][i, n:].any()
        assert batch["target_lengths"][i] == u
        assert batch["inputs"][i, : u + 1].tolist() == [tokenizer.bos_id, *tokens]
        assert batch["targets"][i, : u + 1].tolist() == [*tokens, tokenizer.eos_id]
        assert (batch["targets"][i, u + 1 :] == IGNORED).all()
    assert batch["inputs"].shape == batch["targets"].shape
    assert batch["inputs"].shape[1] % 8 == 0


def test_chance_is_the_batch_seed_alone(packed: Packed, tokenizer: Tokenizer, config: TrainConfig) -> None:
    augmenter = Augmenter(config.augmentation)
    dataset = TrainingSet(packed, tokenizer, augmenter, config)
    batch = Batch((3, 5, 7, 9), (1.1, 1.0, 0.9, 1.0), 64000, (1, 0, 0, 0, 0), 0)
    again = TrainingSet(packed, tokenizer, augmenter, config)
    again[replace(batch, rows=(1, 2, 3, 4))]  # what came before does not matter
    assert same(dataset[batch], again[batch])
    assert not same(dataset[batch], dataset[replace(batch, seed=(1, 0, 0, 0, 1))])  # another rank


def test_varied_sound_stays_within_its_batch(packed: Packed, tokenizer: Tokenizer, config: TrainConfig) -> None:
    data = Data(packed, packed, tokenizer, Augmenter(config.augmentation), config)
    dataset = data.training_set()
    for batch in islice(data.stream(), 25):
        tensors = dataset[batch]
        assert tensors["samples"].shape == (len(batch.rows), batch.samples)
        assert (tensors["lengths"] > 0).all()
        assert float(tensors["samples"].abs().max()) <= 1
    worst = data.stream().worst()
    assert dataset[worst]["samples"].shape == (len(worst.rows), worst.samples)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_goes_on_behind_what_was_used(
    packed: Packed, tokenizer: Tokenizer, config: TrainConfig, workers: int
) -> None:
    config = replace(config, data=replace(config.data, workers=workers))
    augmenter = Augmenter(config.augmentation)
    whole = list(islice(Data(packed, packed, tokenizer, augmenter, config).train_dataloader(), 9))
    late = Data(packed, packed, tokenizer, augmenter, config)
    late.load_state_dict({"used": 5, "recordings": late.recordings})
    loader = late.train_dataloader()
    for left, right in zip(whole[5:], islice(loader, 4), strict=True):
        assert same(left, right)
    assert loader.waited > 0


def test_changed_recordings_are_said(
    packed: Packed, tokenizer: Tokenizer, config: TrainConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    augmenter = Augmenter(config.augmentation)
    before = Data(packed, packed, tokenizer, augmenter, config).state_dict()
    Data(packed, packed, tokenizer, augmenter, config).load_state_dict(before)
    assert not capsys.readouterr().err
    Data(packed.take(np.arange(9)), packed, tokenizer, augmenter, config).load_state_dict(before)
    assert "the training data has changed" in capsys.readouterr().err


def test_validation_is_shared_out_whole(packed: Packed) -> None:
    groups = [group for rank in range(3) for group in ValidationSet(packed, rank, 3).groups]
    assert sorted(i for group in groups for i in group) == list(range(len(packed)))
    one = ValidationSet(packed)
    assert len(one) == len(one.groups)
    samples, text = one[0][0]
    assert len(samples) == packed.where[:, 2].max()  # the longest first
    assert text == packed.texts[one.groups[0][0]]


def test_waiting_is_measured_where_it_happens() -> None:
    batch = Tensors(
        samples=torch.zeros(1), lengths=torch.zeros(1), inputs=torch.zeros(1), targets=torch.zeros(1),
        target_lengths=torch.zeros(1), spec_augment=False,
    )  # fmt: skip
    loader = Timed([batch, batch])
    assert list(loader) == [batch, batch]
    assert 0 < loader.waited < 1
