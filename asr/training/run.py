"""A training run from settings to checkpoint and report; started again, it goes on where it stopped."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning as L
import numpy as np
import torch
import yaml
from lightning.pytorch.callbacks import ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from rich.console import Console

from asr.errors import ConfigError, ManifestError
from asr.model.transformer import count_parameters
from asr.tokenizer import Tokenizer
from asr.training.callbacks import Pictures, Throughput, WorstBatchFirst
from asr.training.checkpoint import average, read_checkpoint
from asr.training.corpus import Packed, load, usable
from asr.training.data import Data
from asr.training.module import Recogniser
from audio.augmentation import Augmenter
from audio.mfcc import MfccSpec, mfcc

if TYPE_CHECKING:
    from asr.training.config import TrainConfig

LAST, BEST = "last.ckpt", "best.ckpt"


def train(config: TrainConfig, *, restart: bool = False) -> Path:
    """Train as configured; returns the checkpoint to export, `best.ckpt` in the output folder.

    A run that was interrupted goes on from its last checkpoint, unless restart. Raises CepstraError.
    """
    folder = Path(config.output)
    console = Console(stderr=True, quiet=_rank() != 0)
    resume_from = _prepare(folder, config, restart=restart)
    _set_threads(config)
    with console.status("reading manifests"):
        training, validation, augmenter = _load(config)
    tokenizer, config = _text_and_front_end(config, training, folder, console)
    positions = config.front_end.sample_rate / config.front_end.hop / config.model.stride
    fastest = max(config.augmentation.speed_factors) if config.augmentation.speed_probability else 1.0
    training = usable(training, tokenizer, config.data, positions, fastest)
    validation = _evenly(usable(validation, tokenizer, config.data, positions, 1.0), config.data.max_validation)
    L.seed_everything(config.seed, verbose=False)
    module = Recogniser(config, tokenizer)
    if config.start_from and not resume_from:
        module.model.load_state_dict(read_checkpoint(Path(config.start_from)).model.state_dict())
    console.print(
        f"{len(training)} utterances, {training.seconds().sum() / 3600:.2f} h, vocabulary {tokenizer.vocab_size}; "
        f"model {config.preset}, {count_parameters(module.model) / 1e6:.2f} M parameters"
        + (f"; going on from {resume_from}" if resume_from else "")
    )
    throughput = Throughput()
    keeper = ModelCheckpoint(
        folder / "checkpoints", "step-{step:06d}", monitor="val/wer", mode="min", save_top_k=max(1, config.average),
        auto_insert_metric_name=False,
    )  # fmt: skip
    trainer = _trainer(config, folder, [throughput, keeper])
    data = Data(training, validation, tokenizer, augmenter, config)
    started = time.time()
    with warnings.catch_warnings():
        # Lightning's advice about workers and logging intervals; ours are chosen
        warnings.filterwarnings("ignore", module="lightning|torch")
        trainer.fit(module, datamodule=data, ckpt_path=resume_from, weights_only=True)
        finished = trainer.global_step >= config.steps
        if finished:
            _finish(config, folder, keeper, throughput, trainer, data, console, time.time() - started)
    if not finished:
        console.print(f"stopped at step {trainer.global_step} of {config.steps}; the same command goes on from there")
    return folder / (BEST if finished else LAST)


def _load(config: TrainConfig) -> tuple[Packed, Packed, Augmenter]:
    if not config.data.train:
        raise ConfigError("setting data.train: names no manifest, such as data.train=[{manifest: train.jsonl}]")
    cache = Path(config.data.cache)
    training = load(config.data.train, cache, config.language, "training")
    validation = load(config.data.validation, cache, config.language, "validation")
    if not len(validation):
        raise ConfigError("setting data.validation: names no manifest; split one off with `cepstra manifest split`")
    both = {str(u.audio_filepath) + f"@{u.offset}" for u in training.utterances}
    shared = [u for u in validation.utterances if str(u.audio_filepath) + f"@{u.offset}" in both]
    if shared:
        raise ManifestError(f"{shared[0].audio_filepath} is in training and validation alike; take it out of one")
    noises = load(config.data.noises, cache, config.language, "noise")
    rooms = load(config.data.rooms, cache, config.language, "rooms")
    augmenter = Augmenter(
        config.augmentation, [noises.samples(i) for i in range(len(noises))], [rooms.samples(i) for i in range(len(rooms))]
    )
    return training, validation, augmenter


def _text_and_front_end(
    config: TrainConfig, training: Packed, folder: Path, console: Console
) -> tuple[Tokenizer, TrainConfig]:
    """The vocabulary and the spread of the cepstra: from the model started from, else learnt from the training data."""
    if config.start_from:
        started = read_checkpoint(Path(config.start_from))
        return started.tokenizer, replace(config, model=started.model.config, front_end=started.model.spec)
    tokenizer = Tokenizer.train([t for t in training.texts if t], config.vocab_size)
    spec = config.front_end
    if spec.spread is None:
        file = folder / "spread.json"
        if not file.exists():
            with console.status("measuring the spread of the cepstra"):
                spread = measure_spread(training, spec)
            file.write_text(json.dumps(spread))
        spec = replace(spec, spread=tuple(json.loads(file.read_text())))
    return tokenizer, replace(config, front_end=spec)


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


def _trainer(config: TrainConfig, folder: Path, callbacks: list[L.Callback]) -> L.Trainer:
    on_cpu = config.accelerator == "cpu" or (config.accelerator == "auto" and not torch.cuda.is_available())
    steps = config.validate_every * config.optimiser.accumulate
    return L.Trainer(
        accelerator="cpu" if on_cpu else config.accelerator,
        devices=config.devices,
        strategy="ddp" if config.devices > 1 else "auto",
        precision=config.precision,
        max_steps=config.steps,
        max_epochs=-1,
        val_check_interval=steps,
        check_val_every_n_epoch=None,
        limit_val_batches=None,
        num_sanity_val_steps=0,
        gradient_clip_val=config.optimiser.gradient_clip,
        accumulate_grad_batches=config.optimiser.accumulate,
        use_distributed_sampler=False,
        log_every_n_steps=10,
        enable_model_summary=False,
        logger=[
            CSVLogger(folder, name="", version="", flush_logs_every_n_steps=50),
            TensorBoardLogger(folder, name="", version="tensorboard"),
        ],
        callbacks=[
            *callbacks,
            ModelCheckpoint(folder, "last", every_n_train_steps=config.save_every, save_top_k=1, enable_version_counter=False),
            WorstBatchFirst(),
            Pictures(folder),
            RichProgressBar(leave=True),
        ],
    )


def _finish(
    config: TrainConfig, folder: Path, keeper: ModelCheckpoint, throughput: Throughput, trainer: L.Trainer, data: Data,
    console: Console, seconds: float,
) -> None:  # fmt: skip
    """Average the best checkpoints, keep the average if it is better than the best, and report."""
    ranked = sorted(keeper.best_k_models.items(), key=lambda item: float(item[1]))
    names = [name for name, _ in ranked]
    if not names:
        raise ConfigError(f"no validation in {config.steps} steps; set validate_every to at most that")
    wer = float(ranked[0][1])
    chosen, report = names[:1], {"averaged": None}
    if len(names) > 1:
        trial = folder / ".averaged.ckpt"
        if trainer.is_global_zero:
            average([Path(n) for n in names], trial)
        trainer.strategy.barrier()
        module = Recogniser(config, data.tokenizer)
        module.model.load_state_dict(read_checkpoint(trial).model.state_dict())
        averaged = float(trainer.validate(module, datamodule=data, verbose=False)[0]["val/wer"])
        report = {"averaged": averaged}
        if averaged <= wer:
            chosen, wer = names, averaged
        if trainer.is_global_zero:
            trial.unlink()
    if not trainer.is_global_zero:
        return
    report |= {
        "validation_wer": wer,
        "best_single_wer": float(ranked[0][1]),
        "checkpoints": [Path(n).name for n in chosen],
        "steps": config.steps,
        "wall_minutes": round(seconds / 60, 1),
        **throughput.totals(),
        "hours_of_data": round(float(data.train_data.seconds().sum()) / 3600, 3),
        "utterances": len(data.train_data),
        "precision": config.precision,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
    }
    sources = sorted({u.source or "unnamed" for u in data.train_data.utterances})
    average([Path(n) for n in chosen], folder / BEST, training={**report, "sources": sources})
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    lines = [f"{name.replace('_', ' ')}: {value}" for name, value in report.items()]
    (folder / "report.txt").write_text("\n".join(lines) + "\n")
    console.print("\n".join(lines), markup=False, highlight=False)
    console.print(f"best model: {folder / BEST}; next: cepstra export {folder / BEST} -o model.cepstra")


def _prepare(folder: Path, config: TrainConfig, *, restart: bool) -> Path | None:
    """The output folder with its settings written down; the checkpoint to go on from, if any."""
    last, settings = folder / LAST, folder / "config.yaml"
    text = yaml.safe_dump(json.loads(json.dumps(asdict(config))), sort_keys=False)
    if _rank() != 0:
        return last if last.exists() else None
    if restart and settings.exists():
        shutil.rmtree(folder)
    if last.exists() and settings.exists() and settings.read_text() != text:
        changed = _difference(yaml.safe_load(settings.read_text()), yaml.safe_load(text))
        raise ConfigError(f"{folder}: holds a run with other settings ({changed}); choose another output, or --restart")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        settings.write_text(text)
    except OSError as error:
        raise ConfigError(f"{folder}: can't be written ({error.strerror}); choose another output") from None
    return last if last.exists() else None


def _difference(old: Any, new: Any, name: str = "") -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        parts = [_difference(old.get(k), new.get(k), f"{name}.{k}" if name else k) for k in {**old, **new}]
        return ", ".join(p for p in parts if p)
    return "" if old == new else name


def _evenly(data: Packed, most: int) -> Packed:
    return data.take(np.linspace(0, len(data) - 1, min(most, len(data))).astype(np.int64))


def _set_threads(config: TrainConfig) -> None:
    """All cores once: processes on the CPU share them."""
    if config.devices > 1 and not torch.cuda.is_available():
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // config.devices))


def _rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))
