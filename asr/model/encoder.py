"""The encoder: cepstra in, memory out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr.model.layers import FeedForward, LockedDropout, Positions, SelfAttention, unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from asr.model.config import ModelConfig


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each a pre-norm residual branch (Xiong et al. 2020)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.attention = SelfAttention(config)
        self.ff_norm = nn.LayerNorm(config.d_model)
        self.ff = FeedForward(config, config.encoder_ff)
        self.dropout = LockedDropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        x = x + self.dropout(self.attention(self.attention_norm(x), mask))
        deeper: Tensor = x + self.dropout(self.ff(self.ff_norm(x)))
        return deeper


class Encoder(nn.Module):
    """Splices frames into positions, then lets them look at each other: narrowly below, everywhere above.

    Half way up two positions may become one: half the work above, and half the memory for the decoder to look at.
    """

    def __init__(self, config: ModelConfig, n_features: int) -> None:
        super().__init__()
        self.config = config
        # Splicing and projecting is a strided convolution: position p sees frames 3p-5 … 3p+7
        self.splice = nn.Conv1d(n_features, config.d_model, config.stride + 2 * config.splice, stride=config.stride)
        # Sound must outweigh the positions, else CTC stays at chance for hundreds of steps
        self.input_scale = math.sqrt(config.d_model)
        self.positions = Positions(config, scale=0.5)
        self.dropout = LockedDropout(config.dropout)
        layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.layers = cast("list[EncoderLayer]", layers)  # ModuleList says nothing of what it holds
        self.halve = nn.Linear(2 * config.d_model, config.d_model) if config.halves else None
        self.norm = nn.LayerNorm(config.d_model)

    def forward(self, features: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Encoder memory of a padded batch.

        features: (B, F, C), zero beyond each of the lengths frames (B,).
        Returns memory (B, T, D) with T = config.memory_length(F), and its lengths (B,).
        """
        per_position = self.config.frames_per_position
        lengths = (frames + per_position - 1) // per_position  # (B,)
        x = self._embed(features)

        def masks(size: int, halvings: int) -> dict[int, Tensor]:
            return attention_masks(size, lengths * 2**halvings, self.config.windows)

        return self._mix(x, masks), lengths

    def without_padding(self, features: Tensor) -> Tensor:
        """The memory (B, T, D) of utterances of one length, (B, F, C): what is exported."""
        x = self._embed(features)

        def masks(size: int, halvings: int) -> dict[int, Tensor | None]:
            del halvings
            distance = _distances(torch.arange(size, device=x.device))
            return {0: None, **{w: unseen(distance <= w) for w in set(self.config.windows) - {0}}}

        return self._mix(x, masks)

    def _embed(self, features: Tensor) -> Tensor:
        before, after = self.config.splice, self.config.splice + self.config.frames_per_position - 1
        padded = F.pad(features.transpose(1, 2), (before, after))  # (B, C, F + 12)
        x = self.splice(padded).transpose(1, 2) * self.input_scale  # (B, T, D)
        if self.halve is not None:  # an even number of them
            x = x[:, : x.shape[1] // 2 * 2]
        embedded: Tensor = self.dropout(self.positions(x))
        return embedded

    def _mix(self, x: Tensor, masks: Callable[[int, int], Mapping[int, Tensor | None]]) -> Tensor:
        """masks: of so many positions, which are to be halved so often yet."""
        config = self.config
        seen = masks(x.shape[1], 1 if config.halves else 0)
        for i, layer in enumerate(self.layers):
            if self.halve is not None and i == config.halve_after:
                x = self.halve(x.reshape(x.shape[0], -1, 2 * config.d_model))
                seen = masks(x.shape[1], 0)
            x = layer(x, seen[config.windows[i] if i < len(config.windows) else 0])
        mixed: Tensor = self.norm(x)
        return mixed


def attention_masks(size: int, lengths: Tensor, windows: tuple[int, ...]) -> dict[int, Tensor]:
    """For each window (0: everything) the mask (B, 1, T, T), true where a position may look.

    Every position may look at itself, also on padding: a row with nothing to see would be not-a-number.
    """
    steps = torch.arange(size, device=lengths.device)
    distance = _distances(steps)
    valid = (steps < lengths[:, None])[:, None, None]  # (B, 1, 1, T)
    masks = {0: valid | (distance == 0)}
    for window in set(windows) - {0}:
        masks[window] = (valid & (distance <= window)) | (distance == 0)
    return masks


def _distances(steps: Tensor) -> Tensor:
    """Between all positions, (T,) -> (T, T)."""
    return (steps[:, None] - steps[None]).abs()
