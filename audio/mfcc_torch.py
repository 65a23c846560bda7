"""The same front end in torch: batched, on any device with float64, differentiable, and exportable to ONNX.

It computes in float64 and answers in float32. In float32 a spectrum's small values would be differences of large sums,
wrong by 1e-3 and differently in every library (a full-scale square wave, a DC offset); and autocast and TF32, which
would leave three digits, pass float64 by. The cost is small beside the smallest encoder's.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from audio.errors import CepstraError
from audio.mfcc import MfccSpec, dct_matrix, log_unit, mel_matrix, spectrum_bins
from audio.spectrum_torch import Spectrum, count_frames, cut_frames


class Mfcc(nn.Module):
    """Samples to normalised cepstra; `Mfcc(spec)(samples, lengths) -> (features, frame_lengths)`.

    dither: standard deviation of the noise added to the samples (full scale ±1) in training mode, and only there: no
    part of the spec, so that one spec is one set of numbers, and none in evaluation mode, in an export, or in numpy.
    1e-5 is a third of a 16-bit step.
    """

    mel: Tensor
    dct: Tensor
    spread: Tensor
    parseval: Tensor

    def __init__(self, spec: MfccSpec, *, dither: float = 0.0) -> None:
        super().__init__()
        if not 0 <= dither < 1:
            raise CepstraError(f"front end: dither is {dither}; use 0 or a little more (full scale is 1)")
        self.spec = spec
        self.dither = dither
        self.spectrum = Spectrum(spec)
        mel = mel_matrix(spec)
        bins = spectrum_bins(spec)
        inner = (bins > 0) & (bins < spec.fft // 2)
        for name, table in {
            "mel": mel.T[bins],  # (bins, n_mels)
            "dct": dct_matrix(spec).T,  # (n_mels, n_cepstra)
            "spread": np.ones(spec.n_cepstra) if spec.spread is None else np.asarray(spec.spread),  # (n_cepstra,)
            "parseval": (1 + inner) / spec.fft,  # (bins,) power to energy
        }.items():
            # Not in the state: the spec says it all
            self.register_buffer(name, torch.tensor(np.ascontiguousarray(table), dtype=torch.float64), persistent=False)

    def forward(self, samples: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Cepstra of a padded batch.

        samples: (B, N) floats, full scale ±1; what lies beyond a length does not matter. lengths: (B,) in samples;
        without them nothing is padding.
        Returns (B, T, n_cepstra) with T = spec.frames(N), zero beyond each frame length, and the frame lengths (B,).
        float32, or float64 if the samples are; computed in float64, in training mode in float32 (under autocast: in
        what that says; Transformer.features switches it off).
        Raises CepstraError for samples in whole numbers.
        """
        if not samples.is_floating_point():
            raise CepstraError(f"front end: samples are {samples.dtype}; pass floats with full scale ±1")
        if self.training and self.dither:
            samples = samples + self.dither * torch.randn_like(samples)
        padded = self._padded(samples, lengths)
        total, valid = count_frames(padded, self.spec), None
        if lengths is None:
            counts = torch.full((samples.shape[0],), total, device=samples.device)  # (B,)
        else:
            counts = self.counts(lengths)
            valid = (torch.arange(total, device=samples.device) < counts[:, None])[:, :, None]  # (B, T, 1)
        cepstra = self.cepstra(padded, valid)  # (B, T, n_cepstra)
        cepstra = self._normalise(cepstra, valid, counts) / self.spread
        cepstra = _only(valid, cepstra)
        return cepstra.to(torch.promote_types(samples.dtype, torch.float32)), counts

    def cepstra(self, samples: Tensor, valid: Tensor | None) -> Tensor:
        """Before means are taken off: (B, N), a frame at least, -> (B, T, n_cepstra), of as many frames as fit.

        valid: (B, T, 1), which frames there are; None: all.
        """
        spec = self.spec
        # In training the last digits are noise among noises, and float32 takes half the time
        precision = torch.float32 if self.training and samples.dtype != torch.float64 else torch.float64
        samples = samples.to(precision)
        mel, dct = (table.to(precision) for table in (self.mel, self.dct))
        real, imaginary = self.spectrum(samples)
        power = real * real + imaginary * imaginary  # (B, T, bins)
        cepstra = self._logarithm(power @ mel, valid) @ dct  # (B, T, n_cepstra)
        if spec.c0 != "cepstrum":
            parseval = self.parseval.to(precision)
            energy = power @ parseval if spec.c0 == "energy" else self._raw_energy(cut_frames(samples, spec))  # (B, T)
            energy = energy.clamp(min=spec.energy_floor).log() * log_unit(spec)
            cepstra = torch.cat([energy[:, :, None], cepstra[:, :, 1:]], dim=2)
        return cepstra

    def counts(self, lengths: Tensor) -> Tensor:
        """spec.frames for each of (B,) lengths."""
        frame, hop = self.spec.frame, self.spec.hop
        if self.spec.edges == "snip":
            return torch.clamp(lengths - frame, min=0) // hop + 1
        if self.spec.edges == "mirror":
            return torch.clamp((lengths + hop // 2) // hop, min=1)
        return lengths // hop + 1

    def _padded(self, samples: Tensor, lengths: Tensor | None) -> Tensor:
        """What frames are cut from: (B, N) -> (B, M), of as many samples as all frames have together."""
        spec, total = self.spec, samples.shape[1]
        if lengths is None:
            lengths = torch.full((samples.shape[0],), total, device=samples.device)
        else:
            samples = _only(torch.arange(total, device=samples.device) < lengths[:, None], samples)
        if spec.edges == "snip":
            return F.pad(samples, (0, spec.frame))[:, : torch.sym_max(total, spec.frame)]
        if spec.edges == "zero":
            samples = F.pad(samples, (spec.lead, spec.frame))
        else:  # each utterance is reflected at its own end
            positions = torch.arange(-spec.lead, total + spec.frame, device=samples.device)[
                None
            ]  # (1, N + lead + frame)
            if spec.edges == "reflect":
                period = torch.clamp(2 * (lengths[:, None] - 1), min=1)  # … 2 1 [0 1 2 3] 2 1 0 …
                positions = positions % period
                positions = torch.minimum(positions, period - positions)
            else:
                period = torch.clamp(2 * lengths[:, None], min=1)  # … 1 0 [0 1 2 3] 3 2 1 …
                positions = positions % period
                positions = torch.minimum(positions, period - 1 - positions)
            samples = F.pad(samples, (0, 1)).gather(1, positions)  # one zero more, for a clip with no samples
        return samples[:, : spec.frame + (spec.frames(total) - 1) * spec.hop]

    def _raw_energy(self, frames: Tensor) -> Tensor:
        if self.spec.remove_dc:
            frames = frames - frames.mean(dim=2, keepdim=True)
        return (frames * self.spec.scale).square().sum(dim=2)

    def _logarithm(self, mel: Tensor, valid: Tensor | None) -> Tensor:
        spec = self.spec
        mel = mel.clamp(min=spec.log_floor) if spec.floor_by == "max" else mel + spec.log_floor
        if spec.top_db is not None:
            loudest = _only(valid, mel).amax(dim=(1, 2), keepdim=True)  # (B, 1, 1)
            mel = torch.maximum(mel, loudest * 10 ** (-spec.top_db / 10))
        return mel.log() * log_unit(spec)

    def _normalise(self, cepstra: Tensor, valid: Tensor | None, counts: Tensor) -> Tensor:
        if self.spec.normalisation == "utterance":
            total = _only(valid, cepstra).sum(dim=1, keepdim=True)  # (B, 1, C)
            return cepstra - total / counts[:, None, None]
        if self.spec.normalisation == "running":
            width = self.spec.running_frames
            sums = F.pad(cepstra.cumsum(dim=1), (0, 0, width, 0))  # (B, width + T, C)
            seen = torch.arange(1, cepstra.shape[1] + 1, device=cepstra.device).clamp(max=width)[:, None]  # (T, 1)
            return cepstra - (sums[:, width:] - sums[:, :-width]) / seen
        return cepstra


def _only(valid: Tensor | None, values: Tensor) -> Tensor:
    """The values, and zero where they aren't valid."""
    return values if valid is None else torch.where(valid, values, torch.zeros_like(values))
