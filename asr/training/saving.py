"""Checkpoints to go on from, and stopping so that one is there."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lightning.pytorch.callbacks import Checkpoint

from asr.errors import TrainingError
from asr.training.console import rank

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    import lightning as L
    from lightning.pytorch.utilities.types import STEP_OUTPUT

    from asr.training.config import TrainConfig
    from asr.training.data import Tensors


class StoppedError(TrainingError):
    """Training ends early, in all processes at the same step."""


class KeepLast(Checkpoint):
    """Keeps `last.ckpt`: every so many steps, after each validation, and when told to stop.

    It is written beside its place and moved there, so that a whole one is there at any time. Where a validation is due
    it waits for that: who goes on from it has neither to repeat the validation nor to do without.
    Lightning calls what derives from Checkpoint last: all that the others remember of a step is in the file.
    """

    def __init__(self, path: Path, config: TrainConfig) -> None:
        self.path, self.config = path, config
        self.step = 0  # of the latest checkpoint or look for one
        self.told: int | None = None  # signal that came

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGINT and SIGTERM end the training after the current step."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are the main thread's, and whoever started this one is to care for them
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self._listen()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Listen again: Lightning has put its own handler for SIGTERM in the place of ours."""
        del pl_module
        self.step = trainer.global_step
        if threading.current_thread() is threading.main_thread():
            self._listen()

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
        stop = trainer.strategy.reduce_boolean_decision(self.told is not None, all=False)
        if due or stop:
            for logger in trainer.loggers:  # what was measured up to here must be there as well
                logger.save()
            part = self.path.with_name(f".{self.path.name}")
            trainer.save_checkpoint(part, weights_only=False)
            if trainer.is_global_zero:
                part.replace(self.path)
        if stop and self.step < self.config.steps:
            raise StoppedError(
                f"stopped at step {self.step} of {self.config.steps}; the same command goes on from there"
            )

    def _listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.told is not None:
            raise KeyboardInterrupt
        self.told = number
        if rank() == 0:
            os.write(2, b"\nstopping after this step; once more stops at once\n")  # print might be what is interrupted
