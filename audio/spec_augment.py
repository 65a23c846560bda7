"""SpecAugment (Park et al. 2019) on normalised cepstra: stretches of time and bands of frequency are blotted out.

A band of frequency is no band of cepstra: each cepstrum weighs all of the mel bands. So bands are masked in the log-mel
domain, the way there and back folded into one small matrix per utterance.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from audio.mfcc import MfccSpec, dct_matrix
from audio.spec_augment_config import SpecAugmentConfig

__all__ = ["SpecAugment", "SpecAugmentConfig"]


class SpecAugment(nn.Module):
    """Masks features while training; in evaluation mode it passes them on.

    What is masked becomes the utterance's mean, the least telling value: zero where the spec takes the mean off.
    """

    to_mel: Tensor
    to_cepstra: Tensor

    def __init__(self, config: SpecAugmentConfig, spec: MfccSpec) -> None:
        super().__init__()
        self.config = config
        self.spec = spec
        dct = dct_matrix(spec).astype(np.float64)  # (C, M)
        spread = np.ones(spec.n_cepstra) if spec.spread is None else np.asarray(spec.spread)
        # With all cepstra and no lifter the inverse is the transpose; with fewer it gives the smoothed log-mel spectrum
        inverse = np.linalg.pinv(dct)  # (M, C)
        # Not in the state: the spec says it all
        self.register_buffer("to_mel", torch.tensor(inverse * spread, dtype=torch.float32), persistent=False)
        self.register_buffer("to_cepstra", torch.tensor(dct / spread[:, None], dtype=torch.float32), persistent=False)

    def forward(self, features: Tensor, lengths: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Mask a padded batch.

        features: (B, T, C) normalised cepstra, zero beyond each length; lengths: (B,) in frames. They are not changed.
        generator: on the CPU, so that the masks are the same on every device; None is torch's own. How many numbers are
        drawn depends on B alone.
        Returns (B, T, C); what lies beyond the lengths is as it was.
        """
        config = self.config
        bands, times = config.band_masks * config.band_width > 0, config.time_masks * config.time_mask_seconds > 0
        if not self.training or not (bands or times):
            return features
        steps = torch.arange(features.shape[1], device=features.device)  # (T,)
        valid = (steps < lengths[:, None])[..., None]  # (B, T, 1)
        with torch.autocast(
            features.device.type, enabled=False
        ):  # the way to log-mel and back is not for half precision
            clean = features.float()
            mean = torch.where(valid, clean, 0).sum(1, keepdim=True) / lengths.clamp(min=1)[:, None, None]  # (B, 1, C)
            masked = clean
            if bands:
                hidden = self.band_mask(len(features), generator).to(features.device)  # (B, M)
                blot = (self.to_cepstra * hidden[:, None]) @ self.to_mel  # (B, C, C): to log-mel, keep the hidden, back
                masked = torch.baddbmm(clean, clean - mean, blot.transpose(1, 2), alpha=-1)
            if times:
                hidden = self.time_mask(lengths, features.shape[1], generator)  # (B, T)
                masked = torch.where(hidden[..., None], mean, masked)
            return torch.where(valid, masked, clean).to(features.dtype)

    def time_mask(self, lengths: Tensor, steps: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw the frames to hide: lengths (B,) -> (B, steps) boolean, on the lengths' device."""
        config, hop = self.config, self.spec.hop / self.spec.sample_rate
        frames_per_mask = max(1, round(config.seconds_per_time_mask / hop))
        count = ((lengths + frames_per_mask - 1) // frames_per_mask).clamp(1, config.time_masks)  # (B,)
        widest = (lengths * config.time_fraction / count).floor().clamp(max=round(config.time_mask_seconds / hop))
        given = torch.arange(config.time_masks, device=lengths.device) < count[:, None]  # (B, n)
        return _stretches(torch.where(given, widest[:, None], 0), lengths[:, None], steps, generator)

    def band_mask(self, batch: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw the mel filters to hide: (batch, n_mels) boolean."""
        config, bands = self.config, self.spec.n_mels
        widest = min(config.band_width, int(bands * config.band_fraction / config.band_masks))
        return _stretches(torch.full((batch, config.band_masks), widest), torch.tensor(bands), bands, generator)


def _stretches(widest: Tensor, length: Tensor, size: int, generator: torch.Generator | None) -> Tensor:
    """Union of n stretches per row, 0 to widest wide, anywhere in the first `length`: (B, n) -> (B, size) boolean."""
    draws = torch.rand(2, *widest.shape, generator=generator).to(widest.device)
    width = (draws[0] * (widest + 1)).floor()
    start = (draws[1] * (length - width + 1)).floor()[..., None]  # (B, n, 1)
    place = torch.arange(size, device=widest.device)
    inside: Tensor = (place >= start) & (place < start + width[..., None])  # (B, n, size)
    return inside.any(dim=1)
