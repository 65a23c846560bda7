"""What happens around the training: measuring it, keeping its best, drawing it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning as L
import torch

from asr.errors import TrainingError
from asr.training.batches import Batch

if TYPE_CHECKING:
    from asr.training.data import Data, Tensors
    from asr.training.module import Recogniser


class Throughput(L.Callback):
    """Seconds of sound per second of training, and the share of the time spent waiting for data."""

    def __init__(self, every: int = 50) -> None:
        self.every = every
        self.sound = self.waited = self.worked = 0.0
        self.total_sound = self.total_waited = self.total_worked = 0.0
        self._mark = time.perf_counter()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock."""
        del trainer, pl_module
        self._mark = time.perf_counter()

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Tensors, batch_idx: int) -> None:
        """The data is here."""
        del trainer, pl_module, batch, batch_idx
        now = time.perf_counter()
        self.waited += now - self._mark
        self._mark = now

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Tensors, batch_idx: int
    ) -> None:
        """The step is done."""
        del outputs
        now = time.perf_counter()
        self.worked += now - self._mark
        self._mark = now
        self.sound += float(batch["lengths"].sum()) / 16000 * trainer.world_size
        if (batch_idx + 1) % self.every == 0:
            elapsed = self.waited + self.worked
            speed, waiting = self.sound / elapsed, self.waited / elapsed
            pl_module.log_dict({"speed/x_real_time": speed, "speed/waiting_for_data": waiting})
            pl_module.log("x_rt", speed, prog_bar=True, logger=False)
            self._add_up()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Validation counts neither as work nor as waiting."""
        del trainer, pl_module
        self._mark = time.perf_counter()

    def totals(self) -> dict[str, float]:
        """Over the whole run (since it was last resumed)."""
        self._add_up()
        elapsed = max(1e-9, self.total_waited + self.total_worked)
        return {
            "hours_of_sound": round(self.total_sound / 3600, 2),
            "training_minutes": round(elapsed / 60, 1),
            "x_real_time": round(self.total_sound / elapsed, 1),
            "waiting_for_data": round(self.total_waited / elapsed, 4),
        }

    def _add_up(self) -> None:
        self.total_sound += self.sound
        self.total_waited += self.waited
        self.total_worked += self.worked
        self.sound = self.waited = self.worked = 0.0


class WorstBatchFirst(L.Callback):
    """Runs the costliest batch once before the first step: memory runs out now or never, not hours in."""

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Forward and backward, no step."""
        data: Data = trainer.datamodule  # type: ignore[attr-defined]  # set by fit(datamodule=…)
        module: Recogniser = pl_module  # type: ignore[assignment]
        worst: Batch = data.stream().worst()
        batch = data.training_set()[worst]
        batch = pl_module.transfer_batch_to_device(batch, pl_module.device, 0)
        try:
            with trainer.precision_plugin.forward_context():
                loss, *_ = module.losses(batch)
            loss.backward()  # type: ignore[no-untyped-call]
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not isinstance(error, torch.OutOfMemoryError | MemoryError) and "memory" not in str(error):
                raise
            raise TrainingError(
                f"not enough memory for the costliest batch ({len(worst.rows)} utterances of {worst.seconds} s): "
                "lower data.seconds_per_batch or data.max_seconds"
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
