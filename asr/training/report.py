"""What comes of a run: the model to keep, and what there is to say about it."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from asr.errors import TrainingError
from asr.files import write_atomically
from asr.training.checkpoint import average, read_checkpoint
from asr.training.console import duration, near, say
from asr.training.module import Recogniser

if TYPE_CHECKING:
    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint

    from asr.training.callbacks import Throughput
    from asr.training.data import Data
    from asr.training.folder import Folder


def finish(trainer: L.Trainer, data: Data, folder: Folder, keeper: ModelCheckpoint, throughput: Throughput) -> None:
    """Average the best checkpoints, keep the average if it is no worse than the best, and report.

    Raises TrainingError where none of the best is there any more.
    """
    ranked = sorted((float(wer), name) for name, wer in keeper.best_k_models.items() if Path(name).exists())
    if not ranked:
        raise TrainingError(f"{folder.checkpoints}: the checkpoints are gone; begin anew with --restart")
    best, names = ranked[0][0], [Path(name) for _, name in ranked]
    averaged = _validate_average(trainer, data, folder, names) if len(names) > 1 else None
    if not trainer.is_global_zero:
        return
    if averaged is None or averaged > best:
        names = names[:1]
    report: dict[str, Any] = {
        "validation_wer": round(best if averaged is None else min(best, averaged), 5),
        "best_single_wer": round(best, 5),
        "averaged_wer": None if averaged is None else round(averaged, 5),
        "checkpoints": [name.name for name in names],
        **so_far(trainer, data, throughput),
    }
    average(names, folder.best, training={**report, "sources": sources(data)})
    text = told(report)
    write_atomically(folder.report.with_suffix(".txt"), text, TrainingError)
    write_atomically(folder.report, json.dumps(report, indent=2) + "\n", TrainingError)
    say(f"{text}best model: {near(folder.best)}")


def so_far(trainer: L.Trainer, data: Data, throughput: Throughput) -> dict[str, Any]:
    """What there is to say about a run at any time of it: what it has learnt from, for how long, and where."""
    return {
        "steps": trainer.global_step,
        **throughput.report(),
        "hours_of_data": round(float(data.train_data.seconds().sum()) / 3600, 3),
        "utterances": len(data.train_data),
        "validation_utterances": len(data.validation_data),
        "precision": data.config.precision,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
    }


def sources(data: Data) -> list[str]:
    """The sets that its training data come from, by name."""
    return sorted({u.source or "unnamed" for u in data.train_data.utterances})


def told(report: dict[str, Any]) -> str:
    """The report for people: a line for each thing there is to know, aligned."""
    steps = [str(int(name.removeprefix("step-").removesuffix(".ckpt"))) for name in sorted(report["checkpoints"])]
    wer, single, averaged = (report[name] for name in ("validation_wer", "best_single_wer", "averaged_wer"))
    if len(steps) > 1:
        model = f"average of the checkpoints of steps {', '.join(steps)} (the best alone: {single:.1%})"
    else:
        model = f"checkpoint of step {steps[0]}" + ("" if averaged is None else f" (averaged: {averaged:.1%})")
    lines = {
        "word error rate": f"{wer:.1%} of {report['validation_utterances']} validation utterances",
        "model": model,
        "learnt from": f"{report['utterances']} utterances, {duration(3600 * report['hours_of_data'])}",
        "training": f"{report['steps']} steps in {duration(60 * report['wall_minutes'])}, validations included",
        "speed": f"{report['x_real_time']:.0f} x real time, {report['waiting_for_data']:.1%} of it waiting for data",
        "machine": f"{report['machine']}, {report['precision']}",
    }
    width = max(map(len, lines)) + 2
    return "".join(f"{name:<{width}}{value}\n".replace("%", " %") for name, value in lines.items())


def _validate_average(trainer: L.Trainer, data: Data, folder: Folder, names: list[Path]) -> float:
    """Word error rate of the mean of these checkpoints."""
    trial = folder.path / ".averaged.ckpt"
    if trainer.is_global_zero:
        average(names, trial)
    trainer.strategy.barrier()
    mean = read_checkpoint(trial).model
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        trial.unlink()
    module = Recogniser(data.config, data.tokenizer)
    module.model.load_state_dict(mean.state_dict())
    trainer.loggers = []  # this is no point of the curves
    return float(trainer.validate(module, datamodule=data, verbose=False)[0]["val/wer"])
