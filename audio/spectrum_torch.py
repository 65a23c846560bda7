"""Spectra of overlapping frames, as products by constant matrices: no STFT operator, which runtimes disagree about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from audio.spectrum import MOST_BLOCKS, block, folds, tables

if TYPE_CHECKING:
    from audio.mfcc import MfccSpec


class Spectrum(nn.Module):
    """Samples to the spectra of their frames. Its tables, by name, are `tables(spec)` of the buffers here."""

    def __init__(self, spec: MfccSpec) -> None:
        super().__init__()
        self.spec = spec
        for name, table in tables(spec).items():
            self.register_buffer(name, torch.tensor(table), persistent=False)  # the spec says it all

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N), a frame at least -> real and imaginary parts, (B, T, bins) each, of as many frames as fit.

        In the precision of the samples. The bins are audio.mfcc.spectrum_bins; phases count from the start of a frame,
        or from its middle.
        """
        if not folds(self.spec):
            whole = self.get_buffer("whole").to(samples.dtype)
            real, imaginary = (cut_frames(samples, self.spec) @ whole).chunk(2, dim=2)
            return real, imaginary
        even, odd = (self.get_buffer(name).to(samples.dtype) for name in ("even", "odd"))
        sums, differences = self._folded(samples)
        return sums @ even, differences @ odd

    def _folded(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) -> what the rows of the two tables are multiplied by, (B, T, rows) each."""
        spec = self.spec
        emphasised = samples
        if spec.pre_emphasis:  # before frames are cut, since that is less to do: their first samples don't count
            emphasised = samples - spec.pre_emphasis * F.pad(samples, (1, 0))[:, :-1]
        parts, count, step = _parts(emphasised, spec), count_frames(samples, spec), spec.hop // block(spec)
        size = spec.frame // block(spec)
        sums, differences = [], []
        for i in range((size + 1) // 2):
            left, right = _each(parts, i, step, count), _each(parts.flip(2), size - 1 - i, step, count)
            if i == size - 1 - i:  # the middle is folded onto itself
                left, right = (each[:, :, : (each.shape[2] + 1) // 2] for each in (left, right))
            sums.append(left + right)
            differences.append(left - right)
        if spec.remove_dc:
            total = _parts(samples, spec).sum(dim=2, keepdim=True)
            sums.append(torch.stack([_each(total, i, step, count) for i in range(size)]).sum(dim=0) / spec.frame)
        return torch.cat(sums, dim=2), torch.cat(differences, dim=2)


def cut_frames(samples: Tensor, spec: MfccSpec) -> Tensor:
    """(B, N) -> (B, T, frame), as many as fit; N is a frame at least."""
    size = spec.frame // block(spec)
    if size > MOST_BLOCKS:
        return samples.unfold(1, spec.frame, spec.hop)
    parts, count, step = _parts(samples, spec), count_frames(samples, spec), spec.hop // block(spec)
    return torch.cat([_each(parts, i, step, count) for i in range(size)], dim=2)


def count_frames(samples: Tensor, spec: MfccSpec) -> int:
    """How many fit into (B, N)."""
    return (samples.shape[1] - spec.frame) // spec.hop + 1


def _parts(samples: Tensor, spec: MfccSpec) -> Tensor:
    """(B, N) -> blocks (B, K, block). Exported, that is copying, where unfold gathers sample by sample."""
    size = block(spec)
    return samples[:, : samples.shape[1] // size * size].reshape(samples.shape[0], -1, size)


def _each(blocks: Tensor, i: int, step: int, count: int) -> Tensor:
    """The i-th block of each of so many frames, (B, K, C) -> (B, T, C)."""
    return blocks[:, i : i + (count - 1) * step + 1 : step]
