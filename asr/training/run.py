"""A training run from settings to checkpoint and report; started again, it goes on where it stopped."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import lightning as L
import numpy as np
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from asr.errors import ConfigError, ManifestError, TrainingError
from asr.model.transformer import count_parameters
from asr.tokenizer import Tokenizer
from asr.training.callbacks import OwnCores, Pictures, Throughput, WorstBatchFirst
from asr.training.checkpoint import Trained, read_checkpoint
from asr.training.console import rank, say
from asr.training.corpus import Packed, load, shared, usable
from asr.training.data import Data
from asr.training.folder import Folder, History
from asr.training.module import Recogniser
from asr.training.progress import Display
from asr.training.report import finish
from asr.training.saving import KeepLast, StoppedError
from audio.augmentation import Augmenter
from audio.mfcc import MfccSpec, mfcc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.training.config import TrainConfig


def train(config: TrainConfig, *, restart: bool = False) -> Path:
    """Train as configured; returns the checkpoint to export, `best.ckpt` in the output folder.

    A run that was interrupted goes on from its last checkpoint, unless restart. Raises CepstraError.
    """
    folder = Folder(Path(config.output))
    last = folder.begin(config, restart=restart)
    if last and folder.report.exists() and folder.best.exists():
        say(f"{folder.path}: this run is finished, its model is {folder.best}; --restart begins anew")
        return folder.best
    resumed = read_checkpoint(last) if last else None
    training, validation, augmenter = _load(config)
    tokenizer, config, start = _start(config, training, resumed)
    training, validation = _usable(training, validation, tokenizer, augmenter, config)
    L.seed_everything(config.seed, verbose=False)
    module = Recogniser(config, tokenizer)
    if start:
        module.model.load_state_dict(start.model.state_dict())
    say(
        f"{len(training)} utterances, {training.seconds().sum() / 3600:.2f} h, vocabulary {tokenizer.vocab_size}; "
        f"model {config.preset}, {count_parameters(module.model) / 1e6:.2f} M parameters"
        + (f"; going on from {last}, step {resumed.steps}" if resumed else "")
    )
    data = Data(training, validation, tokenizer, augmenter, config)
    with _quiet():
        _fit(module, data, folder, last, history=folder.history(resumed.steps) if resumed else [])
    return folder.best


def _fit(module: Recogniser, data: Data, folder: Folder, last: Path | None, *, history: History) -> None:
    config, throughput = data.config, Throughput()
    saver = KeepLast(folder.last, config)
    keeper = ModelCheckpoint(
        folder.checkpoints, "step-{step:06d}", monitor="val/wer", mode="min", save_top_k=config.average,
        auto_insert_metric_name=False, enable_version_counter=False, save_weights_only=True,
    )  # fmt: skip
    shown = [Display(config.steps, throughput), Pictures(folder.path)]
    trainer = _trainer(config, folder, [throughput, *shown, WorstBatchFirst(), keeper, saver], history)
    try:
        with saver.listening():
            trainer.fit(module, datamodule=data, ckpt_path=last, weights_only=True)
    except StoppedError:
        if rank():
            sys.exit(0)  # the first process says it
        raise
    except SystemExit:  # Lightning's answer to KeyboardInterrupt
        raise TrainingError(f"stopped at once; the same command goes on from {folder.last}, if it is there") from None
    finish(trainer, data, folder, keeper, throughput)


def _load(config: TrainConfig) -> tuple[Packed, Packed, Augmenter]:
    for name, example in (("train", "train.jsonl"), ("validation", "dev.jsonl")):
        if not getattr(config.data, name):
            raise ConfigError(
                f"setting data.{name}: names no manifest; write data.{name}=[{{manifest: {example}}}]"
                + ("" if name == "train" else ", and split one off with `cepstra manifest split`")
            )
    cache = Path(config.data.cache)
    training = load(config.data.train, cache, config.language, "training")
    validation = load(config.data.validation, cache, config.language, "validation")
    both = shared(training, validation)
    if both:
        raise ManifestError(
            f"{both[0].audio_filepath} and {len(both) - 1} other utterances of the validation are in the training data "
            "too; take them out of one"
        )
    noises = load(config.data.noises, cache, config.language, "noise")
    rooms = load(config.data.rooms, cache, config.language, "rooms")
    augmenter = Augmenter(
        config.augmentation,
        [noises.samples(i) for i in range(len(noises))],
        [rooms.samples(i) for i in range(len(rooms))],
    )
    return training, validation, augmenter


def _start(
    config: TrainConfig, training: Packed, resumed: Trained | None
) -> tuple[Tokenizer, TrainConfig, Trained | None]:
    """Vocabulary, front end and shape of the model: from the checkpoint gone on or started from, else from the data.

    Returns the model to take the weights of as well, where that is not Lightning's to do.
    """
    source = resumed or (read_checkpoint(Path(config.start_from)) if config.start_from else None)
    if source:
        shape = replace(source.model.config, dropout=config.model.dropout)
        return (
            source.tokenizer,
            replace(config, model=shape, front_end=source.model.spec),
            None if resumed else source,
        )
    tokenizer = Tokenizer.train([t for t in training.texts if t], config.vocab_size)
    spec = config.front_end
    if spec.spread is None:
        spec = replace(spec, spread=measure_spread(training, spec))
    return tokenizer, replace(config, front_end=spec), None


def measure_spread(data: Packed, spec: MfccSpec, most: int = 1000) -> tuple[float, ...]:
    """Standard deviation of each cepstrum around its utterance's mean, over up to `most` utterances."""
    squares, count = np.zeros(spec.n_cepstra), 0
    for i in np.linspace(0, len(data) - 1, min(most, len(data))).astype(int):
        cepstra = mfcc(data.samples(int(i)), replace(spec, spread=None, normalisation="utterance")).astype(np.float64)
        squares += (cepstra**2).sum(axis=0)
        count += len(cepstra)
    spread = np.sqrt(squares / max(1, count))
    # A cepstrum that never moves tells nothing: it is left as it is, not blown up
    return tuple(float(s) if s > 1e-6 else 1.0 for s in spread.round(5))


def _usable(
    training: Packed, validation: Packed, tokenizer: Tokenizer, augmenter: Augmenter, config: TrainConfig
) -> tuple[Packed, Packed]:
    """Both without what can't be learnt from, the training data also when it is played fast and its start is lost."""
    spec, stride = config.front_end, config.model.stride
    fastest = max((1.0, *(config.augmentation.speed_factors if config.augmentation.speed_probability else ())))

    def positions(samples: int) -> int:
        return -(-spec.frames(samples) // stride)

    training = usable(
        training, tokenizer, config.data, lambda n: positions(augmenter.min_length(n, fastest)), "training"
    )
    validation = usable(validation, tokenizer, config.data, positions, "validation")
    evenly = np.linspace(0, len(validation) - 1, min(config.data.max_validation, len(validation)))
    if len(evenly) < config.devices:
        raise ConfigError(f"setting devices: {config.devices} can't share {len(evenly)} validation utterances")
    return training, validation.take(evenly.astype(np.int64))


def _trainer(config: TrainConfig, folder: Folder, callbacks: list[L.Callback], history: History) -> L.Trainer:
    on_cpu = config.accelerator == "cpu" or (config.accelerator == "auto" and not torch.cuda.is_available())
    if on_cpu and config.devices > 1:  # processes share the cores
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // config.devices))
        callbacks = [OwnCores(), *callbacks]
    log = CSVLogger(folder.path, name="", version="", flush_logs_every_n_steps=50)
    for step, values in history:  # the logger begins with an empty file
        log.log_metrics(dict(values), step)
    log.save()
    board = TensorBoardLogger(
        folder.path, name="", version="tensorboard", purge_step=history[-1][0] + 1 if history else None
    )
    try:
        return L.Trainer(
            accelerator="cpu" if on_cpu else config.accelerator,
            devices=config.devices,
            strategy="ddp" if config.devices > 1 else "auto",
            precision=config.precision,
            max_steps=config.steps,
            max_epochs=-1,
            val_check_interval=config.validate_every * config.optimiser.accumulate,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            gradient_clip_val=config.optimiser.gradient_clip,
            accumulate_grad_batches=config.optimiser.accumulate,
            use_distributed_sampler=False,
            log_every_n_steps=10,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=[log, board],
            callbacks=callbacks,
        )
    except MisconfigurationException as error:
        raise ConfigError(f"setting accelerator or devices: {' '.join(str(error).split())}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's advice, and what it tells about the machine; errors are raised, not logged."""
    names = ("lightning.pytorch", "lightning.fabric")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning|torch")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
