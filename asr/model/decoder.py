"""The decoder: text so far and the encoder memory in, the next token's scores out. Its cache is data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr.model.layers import (
    CrossAttention,
    FeedForward,
    LockedDropout,
    Positions,
    SelfAttention,
    attend,
    split_heads,
    unseen,
)

if TYPE_CHECKING:
    from asr.model.config import ModelConfig

KeysValues: TypeAlias = tuple[Tensor, Tensor]


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention and feed-forward, each a pre-norm residual branch."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_norm = nn.LayerNorm(config.d_model)
        self.self_attention = SelfAttention(config)
        self.cross_norm = nn.LayerNorm(config.d_model)
        self.cross_attention = CrossAttention(config)
        self.ff_norm = nn.LayerNorm(config.d_model)
        self.ff = FeedForward(config, config.decoder_ff)
        self.dropout = LockedDropout(config.dropout)

    def forward(self, x: Tensor, memory: KeysValues, memory_mask: Tensor) -> Tensor:
        """All tokens at once, each seeing only itself and those before it. (B, U, D) -> (B, U, D)."""
        x = x + self.dropout(self.self_attention(self.self_norm(x), None, causal=True))
        return self._see_memory(x, memory, memory_mask)

    def step(
        self, x: Tensor, past: KeysValues, memory: KeysValues, mask: Tensor, memory_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """S tokens (B, S, D) with the keys and values of those before, (B, H, U, K); returns them S longer.

        mask: (S, U + S), and memory_mask, as in attend.
        """
        q, new_k, new_v = self.self_attention.project(self.self_norm(x))
        k, v = torch.cat([past[0], new_k], dim=2), torch.cat([past[1], new_v], dim=2)
        x = x + self.self_attention.out(attend(q, k, v, mask))
        return self._see_memory(x, memory, memory_mask), k, v

    def attention_map(self, x: Tensor, k: Tensor, memory_mask: Tensor) -> Tensor:
        """(B, U, D) -> the weights with which each token looks at the memory, (B, H, U, T)."""
        x = x + self.self_attention(self.self_norm(x), None, causal=True)
        q = split_heads(self.cross_attention.q(self.cross_norm(x)), self.cross_attention.heads)
        scores: Tensor = q @ k.transpose(2, 3) * q.shape[3] ** -0.5
        return scores.masked_fill(~memory_mask, float("-inf")).softmax(dim=3)

    def _see_memory(self, x: Tensor, memory: KeysValues, memory_mask: Tensor) -> Tensor:
        x = x + self.dropout(self.cross_attention(self.cross_norm(x), *memory, memory_mask))
        deeper: Tensor = x + self.dropout(self.ff(self.ff_norm(x)))
        return deeper


class Decoder(nn.Module):
    """Autoregressive text model that looks at the encoder memory; output tied to the embedding."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(vocab_size, config.d_model)
        self.positions = Positions(config, scale=0.5)
        self.dropout = LockedDropout(config.dropout)
        layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.layers = cast("list[DecoderLayer]", layers)  # ModuleList says nothing of what it holds
        self.norm = nn.LayerNorm(config.d_model)

    def project_memory(self, memory: Tensor) -> KeysValues:
        """(B, T, D) -> each layer's keys and values of the memory, (L, B, H, T, K) both."""
        pairs = [layer.cross_attention.project_memory(memory) for layer in self.layers]
        return torch.stack([k for k, _ in pairs]), torch.stack([v for _, v in pairs])

    def forward(self, tokens: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """Teacher forcing: tokens (B, U), memory (B, T, D) of the given lengths (B,) -> logits (B, U, V)."""
        memory_mask = _memory_mask(memory.shape[1], lengths)
        x = self._embed(tokens, 0)
        for layer in self.layers:
            x = layer(x, layer.cross_attention.project_memory(memory), memory_mask)
        return self._logits(x)

    def step(
        self, tokens: Tensor, past: KeysValues, memory: KeysValues, lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The logits of what comes after each of the latest tokens.

        tokens: (B, S) the latest ones, each of which sees those before it; past: keys and values (L, B, H, U, K) of
        the U tokens before them, U may be 0; memory: (L, B, H, T, K) both, by project_memory; lengths: (B,) of it.
        Returns logits (B, S, V) and the past, keys and values, S tokens longer.
        """
        memory_mask = unseen(_memory_mask(memory[0].shape[3], lengths))
        before, count = past[0].shape[3], tokens.shape[1]
        steps = torch.arange(before + count, device=tokens.device)
        mask = unseen(steps <= (torch.arange(count, device=tokens.device) + before)[:, None])  # (S, U + S)
        x = self._embed(tokens, before)  # (B, S, D)
        keys, values = [], []
        for i, layer in enumerate(self.layers):
            x, k, v = layer.step(x, (past[0][i], past[1][i]), (memory[0][i], memory[1][i]), mask, memory_mask)
            keys.append(k)
            values.append(v)
        return self._logits(x), torch.stack(keys), torch.stack(values)

    def attention_maps(self, tokens: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """Where each token (B, U) looks in the memory, for pictures: (L, B, H, U, T), every row sums to 1."""
        memory_mask = _memory_mask(memory.shape[1], lengths)
        x = self._embed(tokens, 0)
        maps = []
        for layer in self.layers:
            keys_values = layer.cross_attention.project_memory(memory)
            maps.append(layer.attention_map(x, keys_values[0], memory_mask))
            x = layer(x, keys_values, memory_mask)
        return torch.stack(maps)

    def _embed(self, tokens: Tensor, start: int) -> Tensor:
        # Small at initialisation for the tied output's sake, so scaled up here (Vaswani et al. 2017, section 3.4)
        x = self.embedding(tokens) * math.sqrt(self.config.d_model)
        embedded: Tensor = self.dropout(self.positions(x, start))
        return embedded

    def _logits(self, x: Tensor) -> Tensor:
        return F.linear(self.norm(x), self.embedding.weight)


def _memory_mask(size: int, lengths: Tensor) -> Tensor:
    """(B, 1, 1, T), true on the memory's valid positions."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None]
