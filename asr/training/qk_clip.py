"""Holds the scores of attention down while training: where they grow without end, a query sees one key and learns
nothing about the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lightning as L
import torch
import torch.distributed as dist

from asr.model.layers import CrossAttention, SelfAttention

if TYPE_CHECKING:
    from torch import Tensor, nn

EVERY = 10  # steps
GENTLY = 0.8  # of a score that is left each time, at least: the rest of the network is to follow


class QkClip(L.Callback):
    """Queries and keys of a head are scaled down where their scores exceed a number (Kimi Team 2025, section 2.1)."""

    def __init__(self, most: float) -> None:
        self.most = most
        self._attentions: list[SelfAttention | CrossAttention] = []

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Find every attention there is."""
        del trainer
        self._attentions = [m for m in pl_module.modules() if isinstance(m, SelfAttention | CrossAttention)]

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: object) -> None:
        """Have the scores looked at."""
        del pl_module
        for attention in self._attentions:
            attention.watching = trainer.global_step % EVERY == 0

    @torch.no_grad()
    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: object) -> None:
        """Scale down what was too large, the same in all processes."""
        watched = [attention for attention in self._attentions if attention.watching]
        if not watched:
            return
        peaks = torch.stack([attention.peaks for attention in watched])  # (attentions, H)
        if trainer.world_size > 1:
            dist.all_reduce(peaks, dist.ReduceOp.MAX)
        pl_module.log("train/attention_peak", peaks.max())
        for attention, peak in zip(watched, peaks, strict=True):
            attention.watching = False
            scale = (self.most / peak).clamp(min=GENTLY, max=1).sqrt()  # (H,)
            for layer, start in attention.queries_and_keys():
                _scale_rows(layer, start, scale)


def _scale_rows(layer: nn.Linear, start: int, scale: Tensor) -> None:
    width = layer.in_features
    rows = scale.repeat_interleave(width // len(scale))
    layer.weight[start : start + width] *= rows[:, None]
    layer.bias[start : start + width] *= rows
