"""Every setting of a training run, as one tree of dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from asr.model.config import ModelConfig
from audio.augmentation import AugmentationConfig
from audio.mfcc import MfccSpec
from audio.spec_augment import SpecAugmentConfig


@dataclass(frozen=True)
class Source:
    """A manifest and how to use it."""

    manifest: str
    repeat: float = 1.0  # how often its rows come in one pass; 0.5: every second row, others the next time
    sources: tuple[str, ...] = ()  # only rows whose "source" is one of these; none: all rows


@dataclass(frozen=True)
class DataConfig:
    """What is learnt from, and how it is cut into batches."""

    train: tuple[Source, ...] = ()
    validation: tuple[Source, ...] = ()
    noises: tuple[Source, ...] = ()  # recordings without speech; none: noise is generated
    rooms: tuple[Source, ...] = ()  # impulse responses; none: rooms are generated
    cache: str = "runs/cache"  # folder for the decoded sound, 16-bit at 16 kHz: 115 MB an hour
    min_seconds: float = 0.1
    max_seconds: float = 24.0  # longer utterances are left out, and counted
    seconds_per_batch: float = 48.0  # sound in one batch on one device, padding included
    quadratic_seconds: float = 30.0  # an utterance of d seconds costs d + d² / this, since attention is quadratic
    max_validation: int = 400  # utterances decoded at each validation, evenly spread
    workers: int = 1  # processes that read and vary sound, for each device


@dataclass(frozen=True)
class Stage:
    """A part of the run. Short utterances first and plain: CTC finds the words in them, and only then in sentences."""

    steps: int | None = None  # optimiser steps; None in the last stage: whatever is left
    max_seconds: float | None = None  # longer utterances wait for a later stage
    augment: bool = True
    spec_augment: bool = True


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW with a linear warm-up and a cosine decay to a hundredth."""

    learning_rate: float = 2e-3
    warmup_steps: int = 500
    weight_decay: float = 0.01  # on matrices only
    betas: tuple[float, float] = (0.9, 0.98)
    gradient_clip: float = 1.0  # largest norm
    accumulate: int = 1  # batches per step


@dataclass(frozen=True)
class LossConfig:
    """What is minimised: (1 - w) cross-entropy + w CTC, both in nats per token."""

    ctc_weight: float = 0.4
    label_smoothing: float = 0.1


@dataclass(frozen=True)
class TrainConfig:
    """The whole run."""

    output: str = "runs/cepstra"  # folder for checkpoints, logs, pictures and the report
    preset: Literal["tiny", "small", "base"] = "small"
    model: ModelConfig = field(default_factory=ModelConfig)  # starts from the preset; states only what differs
    front_end: MfccSpec = field(default_factory=MfccSpec)  # spread is measured on the training data
    vocab_size: int = 256
    language: str = "en"  # for the text normaliser
    data: DataConfig = field(default_factory=DataConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    spec_augment: SpecAugmentConfig = field(default_factory=SpecAugmentConfig)
    stages: tuple[Stage, ...] = (Stage(),)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    steps: int = 10000  # optimiser steps
    precision: Literal["32-true", "bf16-mixed"] = "bf16-mixed"
    accelerator: str = "auto"
    devices: int = 1  # GPUs, or processes on a CPU, where two of one thread each beat one of two
    validate_every: int = 500  # steps
    save_every: int = 200  # steps between two checkpoints to resume from
    average: int = 3  # the best checkpoints are averaged at the end
    start_from: str | None = None  # a checkpoint whose weights (and tokenizer and front end) to start from
    seed: int = 1
