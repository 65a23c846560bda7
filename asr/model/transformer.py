"""The whole model: front end, encoder, CTC head, decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from asr.model.decoder import Decoder
from asr.model.encoder import Encoder
from audio.mfcc_torch import Mfcc

if TYPE_CHECKING:
    from asr.model.config import ModelConfig
    from audio.mfcc import MfccSpec


class Transformer(nn.Module):
    """Samples to text scores, twice: by CTC from the encoder, and autoregressively by the decoder."""

    def __init__(self, config: ModelConfig, spec: MfccSpec, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.front_end = Mfcc(spec)
        self.encoder = Encoder(config, spec.n_cepstra)
        self.ctc_head = nn.Linear(config.d_model, vocab_size)
        self.decoder = Decoder(config, vocab_size)
        self.apply(_initialise)
        # Residual branches start small, so that depth does not add up to noise (as in GPT-2)
        layers = config.encoder_layers + config.decoder_layers
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if name.endswith((".out.weight", ".down.weight")):
                    weight.div_((2 * layers) ** 0.5)
            if self.encoder.halve is not None:  # of two positions their mean, to begin with
                self.encoder.halve.weight.copy_(torch.eye(config.d_model).repeat(1, 2) / 2)

    @property
    def spec(self) -> MfccSpec:
        """What a frame is."""
        return self.front_end.spec

    def features(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Samples (B, N) -> cepstra (B, F, C) and frame lengths (B,), always in float32."""
        with torch.autocast(samples.device.type, enabled=False):
            features, frames = self.front_end(samples.float(), lengths)
        return features, frames

    def forward(self, features: Tensor, frames: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Training: what the decoder and the CTC head say.

        features: (B, F, C) cepstra, zero beyond the lengths frames (B,); tokens: (B, U) the text so far, from BOS on.
        Returns decoder logits (B, U, V), CTC logits (B, T, V) and the lengths of T (B,).
        """
        memory, lengths = self.encoder(features, frames)
        return self.decoder(tokens, memory, lengths), self.ctc_head(memory), lengths

    def encode(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What decoding needs of the sound.

        samples: (B, N) full scale ±1, zero beyond the lengths (B,).
        Returns memory_k, memory_v (L, B, H, T, K), CTC log-probabilities (B, T, V) and memory lengths (B,).
        """
        memory, positions = self.encoder(*self.features(samples, lengths))
        memory_k, memory_v = self.decoder.project_memory(memory)
        return memory_k, memory_v, self.ctc_head(memory).float().log_softmax(dim=2), positions

    def encode_alone(self, samples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same of one utterance (1, N), or of several of one length: the exported encoder graph."""
        features, _ = self.front_end(samples)
        memory = self.encoder.without_padding(features)
        memory_k, memory_v = self.decoder.project_memory(memory)
        return memory_k, memory_v, self.ctc_head(memory).log_softmax(dim=2)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv1d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


def count_parameters(model: nn.Module) -> int:
    """Number of trained values, tied ones once."""
    return sum(p.numel() for p in model.parameters())
