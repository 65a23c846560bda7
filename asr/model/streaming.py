"""The encoder block by block: truncated self-attention, with what later blocks still need of this one as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr.model.layers import attend, split_heads
from asr.model.stream_shape import StreamShape
from audio.spectrum_torch import count_frames

if TYPE_CHECKING:
    from asr.model.encoder import EncoderLayer
    from asr.model.transformer import Transformer
    from asr.search.backend import Floats, Ints

ENDLESS = 1 << 62  # samples of a stream whose end isn't known: more than will come


class StreamingEncoder(nn.Module):
    """Transformer.encode for sound that comes in blocks.

    What isn't complete when a block has come is answered with a later one, always by the same number of frames or
    positions, so that a step is the same whether the stream begins, goes on or ends. Raises ConfigError for a model
    that needs the whole of the sound.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.shape = StreamShape(model.config, model.spec)
        self.model = model
        self.vocab_size = model.ctc_head.out_features

    def forward(
        self, samples: Tensor, position: Tensor, total: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """B streams, n blocks further.

        samples: (B, n, shape.block), full scale ±1; what lies after the end does not matter. position: (B,) blocks that
        came before. total: (B,) samples of the whole stream, or -1 while its end hasn't come. state: (B, shape.state),
        zeros at the beginning.
        Returns memory_k, memory_v (L, B, H, n, K) and CTC log-probabilities (B, n, V) of the positions from
        position - shape.lag on, of which those before 0 and after the end mean nothing, and the next state.
        """
        encoder, stride = self.model.encoder, self.shape.config.stride
        tails = _Tails(state, self.shape.parts)
        total = torch.where(total < 0, ENDLESS, total)
        frames = self.model.front_end.counts(total)  # (B,)
        features = tails.join(self._features(samples.flatten(1), position, total, frames, tails))
        x = encoder.splice(features.transpose(1, 2)).transpose(1, 2) * encoder.input_scale  # (B, n, D)
        first = position - self.shape.splice_lag  # (B,)
        x = x + encoder.positions.at(_from(first, x.shape[1]))
        positions = (frames + stride - 1) // stride  # (B,)
        for layer, window in zip(encoder.layers, self.shape.windows, strict=True):
            x = _attend(layer, window, x, tails, (first, positions))
            first = first - window
        memory = encoder.norm(x)
        memory_k, memory_v = self.model.decoder.project_memory(memory)
        return memory_k, memory_v, self.model.ctc_head(memory).log_softmax(dim=2), tails.state

    @torch.inference_mode()
    def step(
        self, samples: Floats, position: Ints, total: Ints, state: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """The same in numpy."""
        k, v, ctc, state_ = self(*(torch.from_numpy(each) for each in (samples, position, total, state)))
        return k.numpy(), v.numpy(), ctc.numpy(), state_.numpy()

    def _features(self, samples: Tensor, position: Tensor, total: Tensor, frames: Tensor, tails: _Tails) -> Tensor:
        """Samples (B, N) -> cepstra (B, N / hop, C), zero where there is no frame. As Mfcc.forward."""
        shape, front_end = self.shape, self.model.front_end
        spec = front_end.spec
        there = _from(position * shape.block, samples.shape[1]) < total[:, None]
        samples = tails.join(torch.where(there, samples, torch.zeros_like(samples))[:, :, None])[:, :, 0]
        numbers = _from(position * shape.config.stride - shape.frame_lag, count_frames(samples, spec))  # (B, F)
        valid = ((numbers >= 0) & (numbers < frames[:, None]))[:, :, None]
        cepstra = front_end.cepstra(samples, valid)
        cepstra = torch.where(valid, cepstra, torch.zeros_like(cepstra))
        seen = tails.join(cepstra.float())  # (B, mean_tail + F, C)
        if spec.normalisation == "running":
            sums = F.pad(seen.double().cumsum(dim=1), (0, 0, 1, 0))
            counts = (numbers + 1).clamp(1, spec.running_frames)[:, :, None]
            cepstra = cepstra - (sums[:, spec.running_frames :] - sums[:, : -spec.running_frames]) / counts
        return torch.where(valid, cepstra / front_end.spread, torch.zeros_like(cepstra)).float()


class _Tails:
    """The state in parts: each in its turn is put before what is new, and the end of both is kept for the next step."""

    def __init__(self, state: Tensor, parts: tuple[int, ...]) -> None:
        self._parts = iter(torch.split(state, list(parts), dim=1))
        self._kept: list[Tensor] = []

    def join(self, new: Tensor) -> Tensor:
        """(B, m, C) -> (B, tail + m, C)."""
        tail = next(self._parts)
        if not tail.shape[1]:
            return new
        joined = torch.cat([tail.reshape(tail.shape[0], tail.shape[1] // new.shape[2], new.shape[2]), new], dim=1)
        self._kept.append(joined[:, new.shape[1] :].flatten(1))
        return joined

    @property
    def state(self) -> Tensor:
        """Of the next step, (B, S)."""
        return torch.cat(self._kept, dim=1)


def _attend(layer: EncoderLayer, window: int, x: Tensor, tails: _Tails, where: tuple[Tensor, Tensor]) -> Tensor:
    """EncoderLayer.forward, `window` positions later.

    x: (B, n, D). where: the position at which it begins, (B,), and how many positions there are, (B,). Returns
    (B, n, D), which begins `window` positions earlier.
    """
    first, positions = where
    size, width = x.shape[1], x.shape[2]
    seen = tails.join(torch.cat([x, layer.attention.qkv(layer.attention_norm(x))], dim=2))  # (B, 2 window + n, 4 D)
    x, q = seen[:, window : window + size, : 2 * width].chunk(2, dim=2)
    k, v = seen[:, :, 2 * width :].chunk(2, dim=2)
    numbers = _from(first - 2 * window, seen.shape[1])  # (B, 2 window + n)
    valid = ((numbers >= 0) & (numbers < positions[:, None]))[:, None, None]
    steps = torch.arange(seen.shape[1], device=x.device)
    distance = (steps[window : window + size, None] - steps[None]).abs()  # (n, 2 window + n)
    # As in attention_masks: every position sees itself
    mask = (valid & (distance <= window)) | (distance == 0)
    heads = layer.attention.heads
    q, k, v = (split_heads(each, heads) for each in (q, k, v))
    x = x + layer.attention.out(attend(q, k, v, mask))
    deeper: Tensor = x + layer.ff(layer.ff_norm(x))
    return deeper


def _from(first: Tensor, size: int) -> Tensor:
    """The whole numbers from each of (B,) on: (B, size)."""
    return first[:, None] + torch.arange(size, device=first.device)
