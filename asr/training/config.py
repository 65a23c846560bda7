"""Every setting of a training run, as one tree of dataclasses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from asr.errors import ConfigError
from asr.model.config import ModelConfig, preset
from audio.augmentation import AugmentationConfig
from audio.mfcc import MfccSpec
from audio.spec_augment_config import SpecAugmentConfig


def _refuse(problem: str, *, unless: bool) -> None:
    if not unless:
        raise ConfigError(f"setting {problem}")


@dataclass(frozen=True)
class Source:
    """A manifest and how to use it."""

    manifest: str
    repeat: float = 1.0  # how often each row comes in one pass; 0.5: in half of the passes, by chance
    sources: tuple[str, ...] = ()  # only rows whose "source" is one of these; none: all rows

    def __post_init__(self) -> None:
        _refuse(f"repeat of {self.manifest} is {self.repeat}; use 0 or more", unless=0 <= self.repeat < math.inf)


@dataclass(frozen=True)
class DataConfig:
    """What is learnt from, and how it is cut into batches."""

    train: tuple[Source, ...] = ()
    validation: tuple[Source, ...] = ()
    silences: tuple[Source, ...] = ()  # recordings in which nobody says a word, learnt from as such
    noises: tuple[Source, ...] = ()  # recordings without speech; none: noise is generated
    rooms: tuple[Source, ...] = ()  # impulse responses; none: rooms are generated
    cache: str = "runs/cache"  # beside the settings' file; for the decoded sound, 16-bit at 16 kHz: 115 MB an hour
    min_seconds: float = 0.1
    max_seconds: float = 24.0  # longer utterances are left out, and counted
    seconds_per_batch: float = 48.0  # sound in one batch on one device, padding included
    quadratic_seconds: float = 30.0  # an utterance of d seconds costs d + d² / this, since attention is quadratic
    max_validation: int = 400  # utterances decoded at each validation, evenly spread
    workers: int = 1  # processes that read and vary sound, for each device

    def __post_init__(self) -> None:
        few, most = self.min_seconds, self.max_seconds
        _refuse(f"data.min_seconds: {few} is not below data.max_seconds, {most}", unless=0 <= few < most)
        for name in ("seconds_per_batch", "quadratic_seconds"):
            value = getattr(self, name)
            _refuse(f"data.{name} is {value}; use more than 0", unless=0 < value < math.inf)
        _refuse(f"data.max_validation is {self.max_validation}; use 1 or more", unless=self.max_validation >= 1)
        _refuse(f"data.workers is {self.workers}; use 0 or more", unless=self.workers >= 0)


@dataclass(frozen=True)
class Stage:
    """A part of the run. Short utterances first and plain: CTC finds the words in them, and only then in sentences."""

    steps: int | None = None  # optimiser steps; None in the last stage: whatever is left
    max_seconds: float | None = None  # longer utterances wait for a later stage
    augment: bool = True
    spec_augment: bool = True

    def __post_init__(self) -> None:
        steps, most = self.steps, self.max_seconds
        _refuse(f"steps of a stage is {steps}; use 1 or more", unless=steps is None or steps >= 1)
        _refuse(f"max_seconds of a stage is {most}; use more than 0", unless=most is None or most > 0)


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW or Muon with a linear warm-up and a cosine decay to a hundredth."""

    # muon: for the matrices of the layers, and AdamW for the rest
    name: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = 2e-3
    warmup_steps: int = 500  # settings that don't state it get a tenth of the steps, where that is fewer
    weight_decay: float = 0.01  # on matrices only
    betas: tuple[float, float] = (0.9, 0.98)
    gradient_clip: float = 1.0  # largest norm; 0: gradients are left as they are
    qk_clip: float = 0.0  # largest score of attention, held by scaling queries and keys down; 0: they may grow
    accumulate: int = 1  # batches per step

    def __post_init__(self) -> None:
        rate = self.learning_rate
        _refuse(f"optimiser.learning_rate is {rate}; use more than 0", unless=0 < rate < math.inf)
        for name in ("warmup_steps", "weight_decay", "gradient_clip", "qk_clip"):
            value = getattr(self, name)
            _refuse(f"optimiser.{name} is {value}; use 0 or more", unless=0 <= value < math.inf)
        betas = self.betas
        _refuse(f"optimiser.betas is {betas}; use numbers in [0, 1)", unless=all(0 <= beta < 1 for beta in betas))
        _refuse(f"optimiser.accumulate is {self.accumulate}; use 1 or more", unless=self.accumulate >= 1)


def usual_warmup(steps: int) -> int:
    """optimiser.warmup_steps of a run of so many steps where nothing is stated."""
    return min(OptimiserConfig.warmup_steps, max(0, steps // 10))


@dataclass(frozen=True)
class LossConfig:
    """What is minimised: (1 - w) cross-entropy + w CTC, both in nats per token."""

    ctc_weight: float = 0.4
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        _refuse(f"loss.ctc_weight is {self.ctc_weight}; use a number from 0 to 1", unless=0 <= self.ctc_weight <= 1)
        smoothing = self.label_smoothing
        _refuse(f"loss.label_smoothing is {smoothing}; use a number in [0, 1)", unless=0 <= smoothing < 1)


@dataclass(frozen=True)
class TrainConfig:
    """The whole run."""

    # Folder for checkpoints, logs, pictures and the report; settings in a file NAME.yaml get runs/NAME beside it
    output: str = "runs/cepstra"
    preset: Literal["tiny", "small", "base"] = "small"
    model: ModelConfig = field(
        default_factory=lambda: preset("small")
    )  # starts from the preset; states only what differs
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
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    devices: int = 1  # GPUs, or processes on a CPU, where two of one thread each beat one of two
    validate_every: int = 500  # steps; always after the last one
    validation_beam: int = 1  # hypotheses kept where validation decodes; 1 is greedy
    save_every: int = 200  # steps between two checkpoints to resume from
    average: int = 3  # the best checkpoints are averaged at the end
    # A checkpoint whose weights to start from; its tokenizer, front end and model (but for the dropout) come with them
    start_from: str | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "devices", "validate_every", "save_every", "average"):
            _refuse(f"{name} is {getattr(self, name)}; use 1 or more", unless=getattr(self, name) >= 1)
        _refuse(f"vocab_size is {self.vocab_size}; use at most 65536", unless=self.vocab_size <= 65536)
        _refuse(f"seed is {self.seed}; use 0 to 4294967295", unless=0 <= self.seed < 2**32)
        rate = self.front_end.sample_rate
        _refuse(f"front_end.sample_rate is {rate}; sound is read at 16000", unless=rate == 16000)
        _refuse("stages is empty; leave it out, or give at least one", unless=len(self.stages) > 0)
        planned = [stage.steps for stage in self.stages]
        _refuse("stages: only the last one may leave out its steps", unless=None not in planned[:-1])
        total = sum(steps or 0 for steps in planned)
        _refuse(
            f"stages: they end after {total} of {self.steps} steps; leave out the steps of the last one",
            unless=planned[-1] is None or total >= self.steps,
        )
