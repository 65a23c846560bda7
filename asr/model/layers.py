"""Attention, feed-forward and positions: what both halves of the Transformer are made of.

Letters in shape comments: B utterances, T positions of sound, U tokens, D d_model, H heads, K = D / H.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from asr.model.config import ModelConfig


UNSEEN = -1e30  # added to the score of what a query may not see: cheaper than to choose between two numbers
# Below the highest score of a query: a weight of exp(-60) is lost in rounding, but is no denormal number yet, which
# take a CPU's softmax seven times as long
NEGLIGIBLE = -60.0


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, H K) -> (B, H, T, K)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, causal: bool = False) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1), heads joined again.

    q: (B, H, Q, K); k, v: (B, H, S, K); mask: broadcastable to (B, H, Q, S), true where a query may look, or numbers
    that are added to the scores, or None; causal takes its place: query i sees the keys up to i. Returns (B, Q, D).
    """
    if q.device.type == "cpu":
        # Written out: torch's fused kernel for CPUs needs four times as long forward and backward in bfloat16,
        # and exported this is three plain operators
        scores = (q * q.shape[3] ** -0.5) @ k.transpose(2, 3)  # (B, H, Q, S)
        if causal:
            mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).tril()
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        if not torch.is_grad_enabled():
            scores = torch.maximum(scores, scores.amax(dim=3, keepdim=True) + NEGLIGIBLE)
        mixed: Tensor = scores.softmax(dim=3) @ v  # (B, H, Q, K)
    else:
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    return mixed.transpose(1, 2).flatten(2)


def unseen(mask: Tensor) -> Tensor:
    """A mask, true where a query may look, as numbers to be added to the scores."""
    return torch.where(mask, 0.0, UNSEEN)


def peak_scores(q: Tensor, k: Tensor) -> Tensor:
    """The largest score of each head, by magnitude. (B, H, Q, K), (B, H, S, K) -> (H,)."""
    scores = (q.detach() * q.shape[3] ** -0.5) @ k.detach().transpose(2, 3)
    peaks: Tensor = scores.abs().amax(dim=(0, 2, 3)).float()
    return peaks


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.watching = False  # whether to note in peaks, (H,), how large scores are
        self.peaks = torch.zeros(config.heads)
        self.heads = config.heads
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model)
        self.out = nn.Linear(config.d_model, config.d_model)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, D) -> queries, keys and values, (B, H, T, K) each."""
        q, k, v = self.qkv(x).chunk(3, dim=2)
        return split_heads(q, self.heads), split_heads(k, self.heads), split_heads(v, self.heads)

    def forward(self, x: Tensor, mask: Tensor | None, *, causal: bool = False) -> Tensor:
        """(B, T, D) -> (B, T, D); mask as in attend."""
        q, k, v = self.project(x)
        if self.watching:
            self.peaks = peak_scores(q, k)
        mixed: Tensor = self.out(attend(q, k, v, mask, causal=causal))
        return mixed

    def queries_and_keys(self) -> list[tuple[nn.Linear, int]]:
        """The layers that make them, and the first of their rows."""
        return [(self.qkv, 0), (self.qkv, self.qkv.in_features)]


class CrossAttention(nn.Module):
    """Multi-head attention of the text to the encoder memory."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.watching, self.peaks = False, torch.zeros(config.heads)  # as in SelfAttention
        self.heads = config.heads
        self.q = nn.Linear(config.d_model, config.d_model)
        self.kv = nn.Linear(config.d_model, 2 * config.d_model)
        self.out = nn.Linear(config.d_model, config.d_model)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, D) -> keys and values, (B, H, T, K) each; once per utterance."""
        k, v = self.kv(memory).chunk(2, dim=2)
        return split_heads(k, self.heads), split_heads(v, self.heads)

    def forward(self, x: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """(B, U, D) and the projected memory -> (B, U, D)."""
        q = split_heads(self.q(x), self.heads)
        if self.watching:
            self.peaks = peak_scores(q, k)
        mixed: Tensor = self.out(attend(q, k, v, mask))
        return mixed

    def queries_and_keys(self) -> list[tuple[nn.Linear, int]]:
        """The layers that make them, and the first of their rows."""
        return [(self.q, 0), (self.kv, 0)]


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between, at each position alone."""

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(config.d_model, width)
        self.down = nn.Linear(width, config.d_model)
        self.activation = F.relu if config.activation == "relu" else F.gelu

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        mapped: Tensor = self.down(self.activation(self.up(x)))
        return mapped


class LockedDropout(nn.Module):
    """Dropout with one mask for all positions of an utterance (Gal & Ghahramani 2016).

    On a CPU, drawing a random number per value would cost a seventh of a training step.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        if not self.training or not self.rate:
            return x
        keep = 1 - self.rate
        return x * x.new_empty(x.shape[0], 1, x.shape[2]).bernoulli_(keep).div_(keep)


class Positions(nn.Module):
    """Adds where each vector stands, so that attention can tell."""

    def __init__(self, config: ModelConfig, scale: float) -> None:
        super().__init__()
        self.d_model, self.scale = config.d_model, scale
        self.table = (
            nn.Parameter(torch.randn(config.max_positions, config.d_model) * 0.7)
            if config.positions == "learned"
            else None
        )

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(B, T, D) -> (B, T, D); the first vector stands at position start."""
        # In x's own type: under autocast the residual stream stays bfloat16, which saves a tenth of a training step
        return x + self.at(torch.arange(start, start + x.shape[1], device=x.device)).to(x.dtype)

    def at(self, steps: Tensor) -> Tensor:
        """What is added at these positions, whole numbers (…) -> (…, D)."""
        if self.table is not None:
            # What lies beyond the table stands at its end: a long recording is no reason to fail
            return self.scale * self.table[steps.clamp(max=self.table.shape[0] - 1)]
        # Computed, not stored: no longest length, and no table in the exported graph
        # sin and cos of position / 10000^(2i/D) (Vaswani et al. 2017, section 3.5), sines first
        octave = torch.arange(0, self.d_model, 2, device=steps.device, dtype=torch.float32) / self.d_model
        angle = steps[..., None].float() * torch.exp(octave * -math.log(10000.0))  # (…, D/2)
        return self.scale * torch.cat([angle.sin(), angle.cos()], dim=-1)
