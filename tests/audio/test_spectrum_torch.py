"""Spectra in torch against numpy's own DFT, frame by frame, for frames, hops and windows of every kind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.mfcc import MfccSpec, spectrum_bins, window
from audio.spectrum import folds
from audio.spectrum_torch import Spectrum, cut_frames

if TYPE_CHECKING:
    from numpy.typing import NDArray


@st.composite
def specs(draw: st.DrawFn) -> MfccSpec:
    frame = draw(st.integers(2, 60))
    return MfccSpec(
        sample_rate=1000, frame=frame, hop=draw(st.integers(1, frame)), fft=64, low_hz=0.0, high_hz=500.0, n_mels=4,
        n_cepstra=4, window=draw(st.sampled_from(["povey", "hann", "hamming", "blackman", "rectangular"])),
        periodic_window=draw(st.booleans()), pre_emphasis=draw(st.sampled_from([0.0, 0.5, 0.97])),
        remove_dc=draw(st.booleans()), scale=draw(st.sampled_from([1.0, 32768.0])),
        c0=draw(st.sampled_from(["energy", "cepstrum"])),
    )  # fmt: skip


def _plainly(frame: NDArray[np.float64], spec: MfccSpec) -> NDArray[np.float64]:
    """Power of one frame, as Kaldi describes it."""
    y = frame * spec.scale
    if spec.remove_dc:
        y = y - y.mean()
    if spec.pre_emphasis:
        y = y - spec.pre_emphasis * np.concatenate([y[:1], y[:-1]])
    return np.asarray(np.abs(np.fft.rfft(y * window(spec), n=spec.fft))[spectrum_bins(spec)] ** 2)


@settings(deadline=None)
@given(spec=specs(), extra=st.integers(0, 200), seed=st.integers(0, 2**32 - 1))
def test_power_is_that_of_each_frame_alone(spec: MfccSpec, extra: int, seed: int) -> None:
    samples = np.random.default_rng(seed).normal(size=(2, spec.frame + extra)) + 0.5
    real, imaginary = Spectrum(spec)(torch.from_numpy(samples))
    power = (real**2 + imaginary**2).numpy()
    assert power.shape[1] == 1 + extra // spec.hop
    for clip, of_clip in zip(samples, power, strict=True):
        for t, found in enumerate(of_clip):
            wanted = _plainly(clip[t * spec.hop : t * spec.hop + spec.frame], spec)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 * spec.scale**2 * spec.frame)


@settings(deadline=None)
@given(spec=specs(), extra=st.integers(0, 200))
def test_frames_are_cut_where_they_fit(spec: MfccSpec, extra: int) -> None:
    samples = torch.arange(spec.frame + extra)[None]
    starts = range(0, extra + 1, spec.hop)
    assert cut_frames(samples, spec).tolist() == [[list(range(start, start + spec.frame)) for start in starts]]


def test_the_front_end_of_every_day_folds() -> None:
    spec = MfccSpec()
    assert folds(spec)
    sizes = {name: tuple(table.shape) for name, table in Spectrum(spec).named_buffers()}
    assert sizes == {"even": (201, 255), "odd": (200, 255)}  # half a frame of 400, and a row for the mean
    # A window that counts the first sample, which pre-emphasis treats unlike the others, or one with two unlike ends
    assert not folds(replace(spec, window="hamming"))
    assert not folds(replace(spec, window="hann", periodic_window=True))
