"""The matrices that make spectra of frames, without torch.

Scale, mean removal, pre-emphasis, window and DFT are linear in a frame, and so could be one matrix. About a frame's
middle, though, a wave is even (cosine) or odd (sine), and so is a symmetric window: where the two halves of a frame are
added for the one and subtracted for the other, both matrices are half as high.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from audio.mfcc import MfccSpec, Table, spectrum_bins, window

MOST_BLOCKS = 16  # into which a frame is cut


def folds(spec: MfccSpec) -> bool:
    """Whether sums and differences of two halves of a frame say all of it.

    The window must be symmetric, and leave out the first sample where pre-emphasis treats that unlike the others.
    """
    taper = window(spec)
    if spec.frame // block(spec) > MOST_BLOCKS or (spec.pre_emphasis and taper[0]):
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


def block(spec: MfccSpec) -> int:
    """Samples of the blocks that frames share."""
    return gcd(spec.frame, spec.hop)


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
