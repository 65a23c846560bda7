"""What Lightning does of a run: the trainer, what happens around it, and how it ends."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from asr.errors import ConfigError, TrainingError
from asr.model.transformer import count_parameters
from asr.training.callbacks import NoDenormals, OwnCores, Pictures, Throughput, WorstBatchFirst
from asr.training.console import duration, near, rank, say
from asr.training.module import Recogniser
from asr.training.progress import Display
from asr.training.qk_clip import QkClip
from asr.training.report import finish, so_far, sources
from asr.training.saving import KeepLast, StoppedError
from asr.training.signals import SignalledError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightning.pytorch.loggers import Logger

    from asr.training.checkpoint import Trained
    from asr.training.config import TrainConfig
    from asr.training.data import Data
    from asr.training.folder import Folder, History
    from asr.training.signals import Signals


def fit(
    data: Data,
    folder: Folder,
    signals: Signals,
    *,
    asked: TrainConfig,
    source: Trained | None,
    last: Path | None,
    restart: bool,
) -> None:
    """Train, average and report. The folder is written to once nothing speaks against it any more.

    asked: the settings as they were given. source: the model begun with, which is that of `last` where there is such a
    checkpoint to go on from. Raises CepstraError; KeyboardInterrupt where the training was to stop at once.
    """
    config, throughput = data.config, Throughput()
    L.seed_everything(config.seed, verbose=False)
    earlier = (source.facts.get("earlier", []) if last else source.history) if source else []
    module = Recogniser(config, data.tokenizer, earlier)
    if source and not last:
        module.model.load_state_dict(source.model.state_dict())
    saver = KeepLast(folder.last, config, signals)
    keeper = ModelCheckpoint(
        folder.checkpoints, "step-{step:06d}", monitor="val/wer", mode="min", save_top_k=config.average,
        auto_insert_metric_name=False, enable_version_counter=False, save_weights_only=True,
    )  # fmt: skip
    shown = [Display(config.steps, throughput), Pictures(folder.path)]
    with _quiet(), _loaders_ended():
        clips = [QkClip(config.optimiser.qk_clip)] if config.optimiser.qk_clip else []
        trainer = _trainer(config, [throughput, *shown, *clips, WorstBatchFirst(), keeper, saver])
        module.story = lambda: {**so_far(trainer, data, throughput), "sources": sources(data)}
        begun = f"of {near(Path(config.start_from))}" if config.start_from else config.preset
        say(
            f"{len(data.train_data)} utterances, {duration(data.train_data.seconds().sum())}, "
            f"vocabulary {data.tokenizer.vocab_size}; "
            f"model {begun}, {count_parameters(module.model) / 1e6:.2f} M parameters"
            + (f"; going on from {near(last)}, step {source.steps}" if source and last else "")
        )
        history = folder.history(source.steps) if source and last else []
        folder.begin(asked, restart=restart)
        trainer.loggers = _loggers(folder, history)
        try:
            trainer.fit(module, datamodule=data, ckpt_path=last, weights_only=True)
            signals.patient = False
            finish(trainer, data, folder, keeper, throughput)
        except (StoppedError, SignalledError):
            if rank():
                sys.exit(0)  # the first process says it
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise TrainingError(
                f"{near(folder.path)}: can't be written ({reason}); make room there, or give it back, and the same "
                "command goes on from the last checkpoint"
            ) from error
        except SystemExit:  # Lightning's answer to KeyboardInterrupt
            raise KeyboardInterrupt from None


def _trainer(config: TrainConfig, callbacks: list[L.Callback]) -> L.Trainer:
    on_cpu = config.accelerator == "cpu" or (config.accelerator == "auto" and not torch.cuda.is_available())
    if on_cpu and config.devices > 1:  # processes share the cores
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // config.devices))
        callbacks = [OwnCores(), *callbacks]
    if on_cpu:
        callbacks = [NoDenormals(), *callbacks]
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
            logger=False,
            callbacks=callbacks,
        )
    except MisconfigurationException as error:
        raise ConfigError(f"setting accelerator or devices: {' '.join(str(error).split())}") from None


def _loggers(folder: Folder, history: History) -> list[Logger]:
    """Those of the curves, which begin with what is there already."""
    log = CSVLogger(folder.path, name="", version="", flush_logs_every_n_steps=50)
    for step, values in history:  # the logger begins with an empty file
        log.log_metrics(dict(values), step)
    log.save()
    board = TensorBoardLogger(
        folder.path, name="", version="tensorboard", purge_step=history[-1][0] + 1 if history else None
    )
    return [log, board]


@contextmanager
def _loaders_ended() -> Iterator[None]:
    """End what loads data, however the training ended.

    Those processes ignore SIGTERM, by which the interpreter ends them where an error still holds on to them: it would
    wait for ever.
    """
    before = multiprocessing.active_children()
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            heard = signal.signal(signal.SIGCHLD, signal.SIG_DFL) if hasattr(signal, "SIGCHLD") else None
            for child in multiprocessing.active_children():
                if child not in before:
                    child.kill()
                    child.join()
            if heard is not None:
                signal.signal(signal.SIGCHLD, heard)  # torch's, which takes a loader that is killed for a fault


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
