"""The torch model as a back end of the search: validation decodes with the code that deployment runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from asr.search.backend import AT_ONCE, Cache, Memory, pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.model.transformer import Transformer
    from asr.search.backend import Floats, Ints


class TorchBackend:
    """Runs in float32 on the model's device; the model is to be in evaluation mode."""

    at_once = AT_ONCE

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.device = next(model.parameters()).device

    @torch.inference_mode()
    def encode(self, samples: Sequence[Floats]) -> Memory:
        """Clips (N,) -> encoder memory."""
        batch, lengths = pad(samples)
        with torch.autocast(self.device.type, enabled=False):
            k, v, ctc, positions = self.model.encode(
                torch.from_numpy(batch).to(self.device), torch.from_numpy(lengths).to(self.device)
            )
        past = k.new_zeros((*k.shape[:3], 0, k.shape[4]))
        return Memory(Cache(past, past, k, v, positions), ctc.cpu().numpy(), positions.cpu().numpy())

    @torch.inference_mode()
    def step(self, tokens: Ints, cache: Cache) -> tuple[Floats, Cache]:
        """Tokens (B, S) -> log-probabilities (B, S, V) and the longer cache."""
        with torch.autocast(self.device.type, enabled=False):
            logits, past_k, past_v = self.model.decoder.step(
                torch.from_numpy(tokens).to(self.device),
                (cache.past_k, cache.past_v),
                (cache.memory_k, cache.memory_v),
                cache.lengths,
            )
            log_probs = logits.float().log_softmax(dim=2).cpu().numpy()
        return log_probs, Cache(past_k, past_v, cache.memory_k, cache.memory_v, cache.lengths)
