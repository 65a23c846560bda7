"""How far the training is: a bar in a terminal, and a line for each validation anywhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import lightning as L
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from asr.training.console import console, say

if TYPE_CHECKING:
    from lightning.pytorch.utilities.types import STEP_OUTPUT

    from asr.training.callbacks import Throughput
    from asr.training.data import Tensors
    from asr.training.module import Recogniser


class Display(L.Callback):
    """Step, loss, word error rate and speed."""

    def __init__(self, steps: int, throughput: Throughput) -> None:
        self.steps, self.throughput = steps, throughput
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(" of "),
            TextColumn("{task.fields[figures]}"), TimeElapsedColumn(), TextColumn("+"), TimeRemainingColumn(),
            console=console(), transient=True, expand=True, refresh_per_second=2,
        )  # fmt: skip
        self.task = self.bar.add_task("step", total=steps, figures="")
        self.losses: list[float] = []  # since the latest validation
        self.wer: float | None = None
        self._started = time.monotonic()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Show the bar, where there is a terminal to show it in."""
        del pl_module
        self._started = time.monotonic()
        self.bar.reset(self.task, total=self.steps, completed=trainer.global_step, figures="")
        if console().is_terminal:
            self.bar.start()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: STEP_OUTPUT, batch: Tensors, batch_idx: int
    ) -> None:
        """Move it."""
        del outputs, batch, batch_idx
        module: Recogniser = pl_module  # type: ignore[assignment]
        self.losses.append(float(module.loss))
        if self.bar.live.is_started:
            self.bar.update(self.task, completed=trainer.global_step, figures=self._figures(self.losses[-50:]))

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Say what takes so long."""
        del trainer, pl_module
        self.bar.update(self.task, description="validating after step")

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """One line that stays."""
        del pl_module
        self.bar.update(self.task, description="step")
        if trainer.state.fn == "fit" and self.losses:
            self.wer = float(trainer.callback_metrics["val/wer"])
            minutes = (time.monotonic() - self._started) / 60
            say(f"step {trainer.global_step} of {self.steps}: {self._figures(self.losses)}, {minutes:.1f} min")
            self.losses = []

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Take the bar away."""
        del trainer, pl_module
        self._stop()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """The same: what is said next must not be drawn over."""
        del trainer, pl_module, exception
        self._stop()

    def _stop(self) -> None:
        if self.bar.live.is_started:
            self.bar.stop()

    def _figures(self, losses: list[float]) -> str:
        figures = [f"loss {sum(losses) / len(losses):.3f}"]
        if self.wer is not None:
            figures.append(f"WER {100 * self.wer:.1f} %")
        if self.throughput.speed:
            figures.append(f"{self.throughput.speed:.0f} x real time")
        return ", ".join(figures)
