"""What happens around the training: measuring it, keeping its best, drawing it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning as L
import torch

from asr.errors import TrainingError

if TYPE_CHECKING:
    from lightning.pytorch.utilities.types import STEP_OUTPUT

    from asr.training.data import Data, Tensors
    from asr.training.module import Recogniser


class Throughput(L.Callback):
    """Seconds of sound per second of training, and the share of the time spent waiting for data.

    Validation, pictures and checkpoints count neither as work nor as waiting.
    """

    def __init__(self, every: int = 50) -> None:
        self.every = every
        self.total = _Times()
        self.recent = _Times()
        self.speed = 0.0  # x real time, lately
        self._start = self._end = 0.0  # of the latest step
        self._waited = 0.0  # what the loader said the last time

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Begin."""
        del trainer, pl_module
        self._end = time.perf_counter()

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Tensors, batch_idx: int
    ) -> None:
        """The data is here."""
        del trainer, pl_module, batch, batch_idx
        self._start = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: STEP_OUTPUT, batch: Tensors, batch_idx: int
    ) -> None:
        """The step is done."""
        del outputs
        data: Data = trainer.datamodule  # type: ignore[attr-defined]  # set by fit(datamodule=…)
        waited = data.loader.waited if data.loader else 0.0
        sound = float(batch["lengths"].sum()) / 16000 * trainer.world_size
        now = time.perf_counter()
        step = _Times(sound, waited - self._waited, now - self._start, now - self._end)
        self._waited, self._end = waited, now
        self.total += step
        self.recent += step
        if (batch_idx + 1) % self.every == 0:
            self.speed = self.recent.speed
            pl_module.log_dict({"speed/x_real_time": self.speed, "speed/waiting_for_data": self.recent.waiting})
            self.recent = _Times()

    def report(self) -> dict[str, float]:
        """Over the whole run."""
        return {
            "wall_minutes": round(self.total.wall / 60, 1),
            "hours_of_sound": round(self.total.sound / 3600, 2),
            "training_minutes": round((self.total.waited + self.total.worked) / 60, 1),
            "x_real_time": round(self.total.speed, 1),
            "waiting_for_data": round(self.total.waiting, 4),
        }

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run adds to."""
        return asdict(self.total)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The inverse."""
        self.total = _Times(**state_dict)


@dataclass(frozen=True)
class _Times:
    """All in seconds."""

    sound: float = 0.0
    waited: float = 0.0
    worked: float = 0.0
    wall: float = 0.0  # with validation, pictures and checkpoints

    def __add__(self, other: _Times) -> _Times:
        return _Times(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def speed(self) -> float:
        return self.sound / max(1e-9, self.waited + self.worked)

    @property
    def waiting(self) -> float:
        return self.waited / max(1e-9, self.waited + self.worked)


class NoDenormals(L.Callback):
    """Numbers that are as good as zero count as zero while a model trains on a CPU.

    Softmax of scores that lie far apart is full of them, and they took 7 % of a step. Afterwards all is as before: it
    is a state of the processor, of which the rest of the program knows nothing.
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """In each process."""
        del trainer, pl_module, stage
        torch.set_flush_denormal(True)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Where it came to its end."""
        del trainer, pl_module, stage
        torch.set_flush_denormal(False)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Where it didn't."""
        del trainer, pl_module, exception
        torch.set_flush_denormal(False)


class OwnCores(L.Callback):
    """Processes that share a CPU keep to cores of their own, as do the loaders that they start.

    They wait for each other at every step: two of them on one core, while something else has the other, take twice as
    long, and schedulers do that.
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Each process takes every n-th core, where the system lets it choose."""
        del pl_module, stage
        if trainer.world_size == 1 or not hasattr(os, "sched_setaffinity"):
            return
        cores = sorted(os.sched_getaffinity(0))
        mine = cores[trainer.local_rank :: trainer.world_size] if len(cores) >= trainer.world_size else cores
        for thread in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # a thread that has just ended
                os.sched_setaffinity(int(thread.name), mine)


class WorstBatchFirst(L.Callback):
    """Runs the costliest batch once before the first step: memory runs out now or never, not hours in."""

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Forward and backward, no step."""
        data: Data = trainer.datamodule  # type: ignore[attr-defined]  # set by fit(datamodule=…)
        module: Recogniser = pl_module  # type: ignore[assignment]
        worst = data.stream().worst()
        batch = pl_module.transfer_batch_to_device(data.training_set()[worst], pl_module.device, 0)
        try:
            with trainer.precision_plugin.forward_context():
                loss, *_ = module.losses(batch)
            loss.backward()  # type: ignore[no-untyped-call]
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not isinstance(error, torch.OutOfMemoryError | MemoryError) and "memory" not in str(error):
                raise
            raise TrainingError(
                f"not enough memory for the costliest batch, {len(worst.rows)} times {worst.samples / 16000} s; lower "
                "data.seconds_per_batch or data.max_seconds"
            ) from error
        pl_module.zero_grad()


class Pictures(L.Callback):
    """Curves and attention, drawn anew at each validation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Draw."""
        if not trainer.is_global_zero or trainer.sanity_checking or trainer.state.fn != "fit":
            return
        from asr.training import pictures  # noqa: PLC0415  matplotlib takes a second that a short run need not spend

        data: Data = trainer.datamodule  # type: ignore[attr-defined]
        module: Recogniser = pl_module  # type: ignore[assignment]
        for logger in trainer.loggers:
            logger.save()
        pictures.curves(self.folder / "metrics.csv", self.folder / "curves.png")
        middle = int(data.validation_data.where[:, 2].argsort()[len(data.validation_data) * 3 // 4])
        pictures.attention(
            module, data.validation_data.samples(middle), data.validation_data.texts[middle],
            self.folder / "attention" / f"step-{trainer.global_step:06d}.png",
        )  # fmt: skip
