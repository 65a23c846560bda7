"""The same front end in torch: batched, on any device, differentiable, and exportable to ONNX.

Everything up to the spectrum is linear in a frame, so mean removal, pre-emphasis, window and DFT are folded into one
matrix: no STFT operator, which runtimes disagree about.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from audio.mfcc import MfccSpec, dct_matrix, mel_matrix, window


class Mfcc(nn.Module):
    """Samples to normalised cepstra; `Mfcc(spec)(samples, lengths) -> (features, frame_lengths)`."""

    spread: Tensor

    def __init__(self, spec: MfccSpec) -> None:
        super().__init__()
        self.spec = spec
        spread = np.ones(spec.n_cepstra) if spec.spread is None else np.asarray(spec.spread)
        for name, value in {
            "dft": _frame_to_spectrum(spec).T,  # (frame, 2 bins)
            "mel": mel_matrix(spec).T,  # (bins, n_mels)
            "dct": dct_matrix(spec).T,  # (n_mels, n_cepstra)
            "spread": spread,  # (n_cepstra,)
        }.items():
            # Not in the state: the spec says it all
            self.register_buffer(name, torch.tensor(np.ascontiguousarray(value), dtype=torch.float32), persistent=False)

    def forward(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Cepstra of a padded batch.

        samples: (B, N) full scale ±1, zero beyond each length; lengths: (B,) in samples.
        Returns (B, T, n_cepstra), zero beyond each frame length, and the frame lengths (B,).
        """
        frame, hop = self.spec.frame, self.spec.hop
        samples = F.pad(samples, (0, frame))  # at least one frame; what is too much is cut off below
        frames = torch.clamp(lengths - frame, min=0) // hop + 1  # (B,)
        spectrum = samples.unfold(1, frame, hop) @ self.dft  # (B, T, 2 bins)
        real, imaginary = spectrum.chunk(2, dim=2)
        power = real.square() + imaginary.square()  # (B, T, bins)
        mel = (power @ self.mel).clamp(min=self.spec.log_floor).log()  # (B, T, n_mels)
        cepstra = mel @ self.dct  # (B, T, n_cepstra)
        steps = torch.arange(cepstra.shape[1], device=samples.device)
        valid = (steps < frames[:, None])[..., None]  # (B, T, 1)
        return self._normalise(cepstra, valid, frames), frames

    def _normalise(self, cepstra: Tensor, valid: Tensor, frames: Tensor) -> Tensor:
        zero = torch.zeros((), dtype=cepstra.dtype, device=cepstra.device)
        if self.spec.normalisation == "utterance":
            total = torch.where(valid, cepstra, zero).sum(dim=1, keepdim=True)  # (B, 1, C)
            cepstra = cepstra - total / frames[:, None, None]
        elif self.spec.normalisation == "running":
            width = self.spec.running_frames
            offset = cepstra[:, :1]
            padded = F.pad((cepstra - offset).transpose(1, 2), (width - 1, 0))  # (B, C, T + width - 1)
            sums = F.avg_pool1d(padded, width, stride=1).transpose(1, 2) * width
            counts = torch.arange(1, cepstra.shape[1] + 1, device=cepstra.device).clamp(max=width)
            cepstra = cepstra - offset - sums / counts[:, None]
        return torch.where(valid, cepstra / self.spread, zero)


def _frame_to_spectrum(spec: MfccSpec) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(2 bins, frame): mean removal, pre-emphasis, window and DFT as one matrix; real parts first, then imaginary."""
    size = spec.frame
    matrix = np.eye(size)
    if spec.remove_dc:
        matrix -= np.full((size, size), 1 / size)
    if spec.pre_emphasis:
        shift = np.eye(size, k=-1)
        shift[0, 0] = 1
        matrix = matrix - spec.pre_emphasis * (shift @ matrix)
    matrix = window(spec).astype(np.float64)[:, None] * matrix
    # k n modulo fft, so that the angles stay small and exact
    angle = 2 * np.pi / spec.fft * (np.outer(np.arange(spec.fft // 2 + 1), np.arange(size)) % spec.fft)
    return np.concatenate([np.cos(angle), -np.sin(angle)]) @ matrix
