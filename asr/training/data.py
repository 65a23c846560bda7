"""From a batch's plan to tensors, in worker processes ahead of the training."""

from __future__ import annotations

import hashlib
import signal
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import lightning as L
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from asr.search.hypothesis import BOS, EOS
from asr.training.batches import Batch, BatchStream
from asr.training.console import say
from asr.training.corpus import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from asr.tokenizer import Tokenizer
    from asr.training.config import TrainConfig
    from asr.training.corpus import Packed
    from audio.augmentation import Augmenter

IGNORED = -100  # target of what is only padding
TOKEN_GRAIN = 8


Clips: TypeAlias = list[tuple[NDArray[np.float32], str]]  # samples and texts of some utterances


class Tensors(TypedDict):
    """A batch as the model takes it."""

    samples: Tensor  # (B, N)
    lengths: Tensor  # (B,) samples
    inputs: Tensor  # (B, U) BOS and the text
    targets: Tensor  # (B, U) the text and EOS, then IGNORED
    target_lengths: Tensor  # (B,) tokens of the text without EOS
    spec_augment: bool


class TrainingSet(Dataset[Tensors]):
    """Maps a Batch to its tensors."""

    def __init__(self, data: Packed, tokenizer: Tokenizer, augmenter: Augmenter, config: TrainConfig) -> None:
        self.data, self.augmenter, self.stages = data, augmenter, config.stages
        self.tokens = [tokenizer.encode(text) for text in data.texts]

    def __getitem__(self, batch: Batch) -> Tensors:
        """The utterances of the batch, varied as its seed says, padded to its duration."""
        stage = self.stages[batch.stage]
        rng = np.random.default_rng(batch.seed)
        samples = np.zeros((len(batch.rows), batch.samples), np.float32)
        lengths = np.zeros(len(batch.rows), np.int64)
        for i, (row, speed) in enumerate(zip(batch.rows, batch.speeds, strict=True)):
            clip = self.data.samples(row)
            if stage.augment:
                clip = self.augmenter(clip, rng, speed, samples.shape[1])
            lengths[i] = min(len(clip), batch.samples)  # only the worst batch, a made-up one, may need cutting
            samples[i, : lengths[i]] = clip[: lengths[i]]
        return _tensors(samples, lengths, [self.tokens[row] for row in batch.rows], spec_augment=stage.spec_augment)


class ValidationSet(Dataset[Clips]):
    """Utterances of about the same length together, at most a minute."""

    def __init__(self, data: Packed, rank: int = 0, world: int = 1) -> None:
        self.data = data
        self.groups: list[list[int]] = []
        order = np.argsort(-data.where[:, 2], kind="stable")[rank::world]
        for i in order:
            longest = data.where[self.groups[-1][0], 2] if self.groups else 0
            if not self.groups or (len(self.groups[-1]) + 1) * longest > 60 * SAMPLE_RATE or len(self.groups[-1]) >= 32:
                self.groups.append([])
            self.groups[-1].append(int(i))

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> Clips:
        """Samples and texts of one group."""
        return [(self.data.samples(i), self.data.texts[i]) for i in self.groups[index]]


class Timed:
    """The batches of a loader, and how long they were waited for."""

    def __init__(self, loader: Iterable[Tensors]) -> None:
        self.loader = loader
        self.waited = 0.0  # seconds

    def __iter__(self) -> Iterator[Tensors]:
        batches = iter(self.loader)
        while True:
            start = time.perf_counter()
            batch = next(batches, None)
            self.waited += time.perf_counter() - start
            if batch is None:
                return
            yield batch


class Data(L.LightningDataModule):
    """Both sets; remembers in checkpoints how far the training got."""

    def __init__(
        self, train: Packed, validation: Packed, tokenizer: Tokenizer, augmenter: Augmenter, config: TrainConfig
    ) -> None:
        super().__init__()
        self.train_data, self.validation_data, self.tokenizer = train, validation, tokenizer
        self.augmenter, self.config = augmenter, config
        self.used = 0  # batches per rank
        self.loader: Timed | None = None

    def stream(self) -> BatchStream:
        """The batches of this rank."""
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        config = self.config
        return BatchStream(
            self.train_data, config.data, config.stages, self.augmenter,
            accumulate=config.optimiser.accumulate, seed=config.seed, rank=rank, world=world,
        )  # fmt: skip

    def training_set(self) -> TrainingSet:
        """The tensors of a batch."""
        return TrainingSet(self.train_data, self.tokenizer, self.augmenter, self.config)

    def train_dataloader(self) -> Timed:
        """Endless; starts behind the batches that a resumed run had used."""
        stream = self.stream()
        stream.start = self.used
        workers = self.config.data.workers
        self.loader = Timed(
            DataLoader(
                self.training_set(), batch_size=None, sampler=stream, num_workers=workers,
                prefetch_factor=4 if workers else None, generator=torch.Generator().manual_seed(0),
                pin_memory=torch.cuda.is_available(), worker_init_fn=_ignore_signals,
            )
        )  # fmt: skip
        return self.loader

    def val_dataloader(self) -> DataLoader[Any]:
        """This rank's share of the validation utterances."""
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        data = ValidationSet(self.validation_data, rank, world)
        return DataLoader(data, batch_size=None, generator=torch.Generator().manual_seed(0))

    def state_dict(self) -> dict[str, Any]:
        """Batches used, accumulate per step, and of what."""
        steps = self.trainer.global_step if self.trainer else 0
        return {"used": steps * self.config.optimiser.accumulate, "recordings": self.recordings}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The inverse."""
        self.used = int(state_dict["used"])
        if state_dict.get("recordings", self.recordings) != self.recordings:
            say("the training data has changed since the run was begun; it goes on with the new one")

    def transfer_batch_to_device(
        self, batch: Tensors | Clips, device: torch.device, dataloader_idx: int
    ) -> Tensors | Clips:
        """Training batches go to the device; validation clips stay numpy, since the search pads them itself."""
        if isinstance(batch, list):
            return batch
        moved: Tensors = super().transfer_batch_to_device(batch, device, dataloader_idx)
        return moved

    @cached_property
    def recordings(self) -> str:
        """A digest of what is learnt from and in which order it lies."""
        content = repr((self.train_data.texts, self.train_data.where.tolist(), self.train_data.repeats.tolist()))
        return hashlib.sha256(content.encode()).hexdigest()


def _ignore_signals(worker: int) -> None:
    """Whoever stops the training stops the main process, which still needs a batch or two."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _tensors(
    samples: NDArray[np.float32],
    lengths: NDArray[np.int64],
    tokens: Sequence[list[int]],
    *,
    spec_augment: bool,
) -> Tensors:
    longest = max(len(t) for t in tokens) + 1
    width = -(-longest // TOKEN_GRAIN) * TOKEN_GRAIN
    inputs = np.full((len(tokens), width), EOS, np.int64)
    targets = np.full((len(tokens), width), IGNORED, np.int64)
    for i, t in enumerate(tokens):
        inputs[i, : len(t) + 1] = [BOS, *t]
        targets[i, : len(t) + 1] = [*t, EOS]
    return {
        "samples": torch.from_numpy(samples),
        "lengths": torch.from_numpy(lengths),
        "inputs": torch.from_numpy(inputs),
        "targets": torch.from_numpy(targets),
        "target_lengths": torch.tensor([len(t) for t in tokens]),
        "spec_augment": spec_augment,
    }
