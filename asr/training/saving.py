"""Checkpoints to go on from, and stopping so that one is there."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from lightning.pytorch.callbacks import Checkpoint

from asr.errors import TrainingError
from asr.training.console import near
from asr.training.signals import SignalledError

if TYPE_CHECKING:
    from pathlib import Path

    import lightning as L
    from lightning.pytorch.utilities.types import STEP_OUTPUT

    from asr.training.config import TrainConfig
    from asr.training.data import Tensors
    from asr.training.signals import Signals


class StoppedError(TrainingError):
    """Training ends early, in all processes at the same step."""


class KeepLast(Checkpoint):
    """Keeps `last.ckpt`: every so many steps, after each validation, and when told to stop.

    It is written beside its place and moved there, so that a whole one is there at any time. Where a validation is due
    it waits for that: who goes on from it has neither to repeat the validation nor to do without.
    Lightning calls what derives from Checkpoint last: all that the others remember of a step is in the file.
    """

    def __init__(self, path: Path, config: TrainConfig, signals: Signals) -> None:
        self.path, self.config, self.signals = path, config, signals
        self.step = 0  # of the latest checkpoint or look for one

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Listen again: Lightning has put its own handler for SIGTERM in the place of ours."""
        del pl_module
        self.step = trainer.global_step
        self.signals.listen()
        self.signals.patient = True

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: STEP_OUTPUT, batch: Tensors, batch_idx: int
    ) -> None:
        """Save or stop, at the end of a step only: gradients that are half added up are in no checkpoint."""
        del pl_module, outputs, batch, batch_idx
        if trainer.global_step == self.step:
            return
        self.step = trainer.global_step
        if self.step >= self.config.steps:
            trainer.should_stop = True  # makes Lightning validate what the last step has come to
        elif self.step % self.config.validate_every:
            self._save(trainer, due=self.step % self.config.save_every == 0)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save."""
        del pl_module
        if trainer.state.fn == "fit":
            self._save(trainer, due=True)

    def _save(self, trainer: L.Trainer, *, due: bool) -> None:
        stop = trainer.strategy.reduce_boolean_decision(self.signals.told is not None, all=False)
        if due or stop:
            for logger in trainer.loggers:  # what was measured up to here must be there as well
                logger.save()
            part = self.path.with_name(f".{self.path.name}")
            try:
                trainer.save_checkpoint(part, weights_only=False)
                if trainer.is_global_zero:
                    part.replace(self.path)
            finally:
                if trainer.is_global_zero:  # half a checkpoint on a full disk
                    part.unlink(missing_ok=True)
        if stop:
            raise SignalledError(
                f"stopped at step {self.step} of {self.config.steps}; the same command goes on from there, and "
                f"{near(self.path)} can be exported as it is",
                self.signals.told or signal.SIGTERM,  # another process was told
            )
