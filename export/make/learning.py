"""The training: settings for it, and a process of its own that runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import yaml

from asr.errors import TrainingError
from asr.files import write_atomically
from asr.manifest import read_manifest
from asr.manifest.parallel import cores
from asr.training.signals import HEARD, SignalledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from export.make.settings import MakeSettings, Workshop

OWN_SHARE = 0.5  # of the synthetic recordings' duration: as much do the user's own make up in a pass …
MOST_REPEATS = 20.0  # … unless each would come more often than this


def write_settings(settings: MakeSettings, place: Workshop) -> None:
    """Settings of `cepstra train`: a tenth of the learning rate from nothing, since most is known already."""
    spoken = _seconds(place.speech / "train.jsonl") + _seconds(place.others / "train.jsonl")
    train: list[dict[str, Any]] = [
        {"manifest": str(place.speech / "train.jsonl")},
        {"manifest": str(place.others / "train.jsonl")},
    ]
    if place.own("train").exists():
        repeat = min(MOST_REPEATS, max(1.0, OWN_SHARE * spoken / max(1.0, _seconds(place.own("train")))))
        train.append({"manifest": str(place.own("train")), "repeat": round(repeat, 2)})
    train += [  # as much of it as of the rest: what is to be learnt must not drown in it
        {"manifest": str(manifest), "repeat": round(min(1.0, spoken / max(1.0, _seconds(manifest))), 3)}
        for manifest in settings.base
    ]
    config = {
        "output": str(place.run),
        "start_from": str(settings.start_from),
        "steps": settings.steps,
        "validate_every": max(1, settings.steps // 2),
        "save_every": 50,
        "average": 2,
        "seed": settings.seed,
        "language": settings.language,
        "devices": _devices(),
        "model": {"dropout": 0.05},
        "optimiser": {
            "name": "muon",
            "learning_rate": 6e-4,
            "warmup_steps": min(40, max(1, settings.steps // 10)),
        },
        "loss": {"ctc_weight": 0.5},
        "data": {
            "cache": str(place.path / "cache"),
            "train": train,
            "validation": [{"manifest": str(path)} for path in place.manifests("dev")],
            "max_validation": 120,
            "max_seconds": 12,
            "seconds_per_batch": 48,
        },
        "augmentation": {"noise_probability": 0.3, "room_probability": 0.25},
        "spec_augment": {"time_masks": 2, "band_masks": 1},
    }
    write_atomically(place.training, yaml.safe_dump(config, sort_keys=False), TrainingError)


def learn(place: Workshop) -> Path:
    """Train, or go on with it; returns the checkpoint. In a process of its own, which may start others.

    Raises TrainingError where it fails, which it has said why, and SignalledError where a signal ended it.
    """
    signals: list[int] = []
    # In a group of its own, so that a terminal's Ctrl-C comes once, from here; twice would end it at once
    command = [sys.executable, "-m", "asr", "train", str(place.training), "--within-make"]
    group = 0 if os.name == "posix" else None
    # Nor is anything imported from the folder one happens to be in, by it or by the processes that it starts
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(command, process_group=group, env=environment) as process:

        def forward(number: int, frame: FrameType | None) -> None:
            del frame
            signals.append(number)
            with suppress(ProcessLookupError):
                process.send_signal(number)

        with _heard_by(forward):
            code = process.wait()
    if signals:
        raise SignalledError("stopped", signals[0])
    if code:
        raise TrainingError(f"{place.training}: the training failed; the lines above say why")
    return place.run / "best.ckpt"


@contextmanager
def _heard_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Both signals that end a training, while the block lasts; in the main thread, where they come."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in HEARD}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _devices() -> int:
    """Processes: on a CPU two of one thread each pass more sound than one of two threads."""
    import torch  # noqa: PLC0415  takes seconds, and is not wanted before

    return 1 if torch.cuda.is_available() else max(1, min(8, cores()))


def _seconds(manifest: Path) -> float:
    return sum(row.duration for row in read_manifest(manifest))
