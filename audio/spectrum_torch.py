"""Spectra of overlapping frames, as products by constant matrices: no STFT operator, which runtimes disagree about.

Scale, mean removal, pre-emphasis, window and DFT are linear in a frame, and so could be one matrix. About a frame's
middle, though, a wave is even (cosine) or odd (sine), and so is a symmetric window: where the two halves of a frame are
added for the one and subtracted for the other, both matrices are half as high.
"""

from __future__ import annotations

from math import gcd

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from audio.mfcc import MfccSpec, Table, spectrum_bins, window

MOST_BLOCKS = 16  # into which a frame is cut


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
        parts, count, step = _parts(emphasised, spec), count_frames(samples, spec), spec.hop // _block(spec)
        size = spec.frame // _block(spec)
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


def folds(spec: MfccSpec) -> bool:
    """Whether sums and differences of two halves of a frame say all of it.

    The window must be symmetric, and leave out the first sample where pre-emphasis treats that unlike the others.
    """
    taper = window(spec)
    if spec.frame // _block(spec) > MOST_BLOCKS or (spec.pre_emphasis and taper[0]):
        return False
    return bool(np.allclose(taper, taper[::-1], rtol=0, atol=1e-15))


def tables(spec: MfccSpec) -> dict[str, Table]:
    """What frames are multiplied by, float64: `even` and `odd`, (rows, bins), where a frame folds, or else `whole`."""
    bins = spectrum_bins(spec)
    if not folds(spec):
        return {"whole": _whole(spec, bins)}
    half = (spec.frame + 1) // 2
    # The middle of an odd frame is added to itself
    taper = spec.scale * window(spec)[:half] * np.where(2 * np.arange(half) == spec.frame - 1, 0.5, 1)
    # k (n - middle) in half samples, modulo fft, so that the angles stay small and exact
    angle = np.pi / spec.fft * (np.outer(2 * np.arange(half) - spec.frame + 1, bins) % (2 * spec.fft))
    even, odd = taper[:, None] * np.cos(angle), -taper[:, None] * np.sin(angle)
    if spec.remove_dc:  # a row for the mean, which is in both halves
        even = np.concatenate([even, -2 * (1 - spec.pre_emphasis) * even.sum(axis=0, keepdims=True)])
    return {"even": even, "odd": odd}


def cut_frames(samples: Tensor, spec: MfccSpec) -> Tensor:
    """(B, N) -> (B, T, frame), as many as fit; N is a frame at least."""
    size = spec.frame // _block(spec)
    if size > MOST_BLOCKS:
        return samples.unfold(1, spec.frame, spec.hop)
    parts, count, step = _parts(samples, spec), count_frames(samples, spec), spec.hop // _block(spec)
    return torch.cat([_each(parts, i, step, count) for i in range(size)], dim=2)


def count_frames(samples: Tensor, spec: MfccSpec) -> int:
    """How many fit into (B, N)."""
    return (samples.shape[1] - spec.frame) // spec.hop + 1


def _block(spec: MfccSpec) -> int:
    """Samples of the blocks that frames share."""
    return gcd(spec.frame, spec.hop)


def _parts(samples: Tensor, spec: MfccSpec) -> Tensor:
    """(B, N) -> blocks (B, K, block). Exported, that is copying, where unfold gathers sample by sample."""
    block = _block(spec)
    return samples[:, : samples.shape[1] // block * block].reshape(samples.shape[0], -1, block)


def _each(blocks: Tensor, i: int, step: int, count: int) -> Tensor:
    """The i-th block of each of so many frames, (B, K, C) -> (B, T, C)."""
    return blocks[:, i : i + (count - 1) * step + 1 : step]


def _whole(spec: MfccSpec, bins: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Table:
    """(frame, 2 bins): scale, mean removal, pre-emphasis, window and DFT as one matrix; real parts, then imaginary."""
    size = spec.frame
    matrix = np.eye(size) * spec.scale
    if spec.remove_dc:
        matrix -= matrix.mean(axis=0)
    if spec.pre_emphasis:
        shift = np.eye(size, k=-1)
        shift[0, 0] = 1
        matrix = matrix - spec.pre_emphasis * (shift @ matrix)
    matrix = window(spec)[:, None] * matrix
    # k n modulo fft, so that the angles stay small and exact
    angle = 2 * np.pi / spec.fft * (np.outer(bins, np.arange(size)) % spec.fft)
    return np.ascontiguousarray((np.concatenate([np.cos(angle), -np.sin(angle)]) @ matrix).T)
