"""The front end in numpy: samples to mel-cepstral coefficients.

`MfccSpec` is the one description that travels with every checkpoint and bundle; `audio.mfcc_torch` computes the same
in torch and, exported, in ONNX.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from audio.errors import CepstraError
from audio.mfcc_spec import MfccSpec

__all__ = ["MEL_SCALES", "MfccSpec", "dct_matrix", "log_mel", "log_unit", "mel_matrix", "mfcc", "normalise", "window"]

Array = NDArray[np.float32]
Table = NDArray[np.float64]

_CHUNK = 128  # frames at a time: their spectra stay in the cache, and an hour of sound needs no gigabytes


def mfcc(samples: Array, spec: MfccSpec) -> Array:
    """Mel-frequency cepstral coefficients, one row per hop.

    samples: (N,) mono, spec.sample_rate Hz, full scale ±1.
    Returns (T, n_cepstra) with T = spec.frames(N). Raises CepstraError for whole numbers and for several channels.
    Follows Davis & Mermelstein (1980) with Kaldi's conventions (frames only where they fit, per-frame DC removal and
    pre-emphasis, power spectrum, natural logarithm, orthonormal DCT-II), or others where the spec says so.
    """
    power, energy = _mel_power(samples, spec)
    cepstra = _logarithm(power, spec) @ dct_matrix(spec).T  # float64: with silence in it, c0 is a sum of large numbers
    if energy is not None:
        cepstra[:, 0] = log_unit(spec) * np.log(np.maximum(energy, spec.energy_floor))
    return normalise(cepstra, spec)


def log_mel(samples: Array, spec: MfccSpec) -> Array:
    """Logarithm of the mel powers: (N,) -> (T, n_mels). The cepstra before the DCT."""
    return _logarithm(_mel_power(samples, spec)[0], spec)


def normalise(cepstra: NDArray[np.floating], spec: MfccSpec) -> Array:
    """Take off each cepstrum's mean (of the utterance, or running) and divide by spec.spread. (T, C) -> (T, C)."""
    cepstra = np.asarray(cepstra, np.float64)
    if spec.normalisation == "utterance":
        cepstra = cepstra - cepstra.mean(axis=0)
    elif spec.normalisation == "running":
        sums = np.cumsum(cepstra, axis=0)
        sums[spec.running_frames :] -= sums[: -spec.running_frames].copy()
        counts = np.minimum(np.arange(1, len(cepstra) + 1), spec.running_frames)[:, None]
        cepstra = cepstra - sums / counts
    return (cepstra if spec.spread is None else cepstra / np.asarray(spec.spread)).astype(np.float32)


def _mel_power(samples: Array, spec: MfccSpec) -> tuple[Array, Table | None]:
    """Mel powers (T, n_mels) and, if c0 is to hold it, each frame's energy (T,). (N,) in."""
    frames = _frames(samples, spec)
    mel = mel_matrix(spec).T.astype(np.float32)  # (fft/2+1, n_mels)
    taper, mean = window(spec), np.full(spec.frame, 1 / spec.frame)
    power = np.empty((len(frames), spec.n_mels), np.float32)
    energy = None if spec.c0 == "cepstrum" else np.empty(len(frames))
    for start in range(0, len(frames), _CHUNK):
        part = slice(start, start + _CHUNK)
        # float64, because the spectrum of a loud frame is full of differences between large sums: float32 leaves an
        # error of 1e-3 in the quiet bands of a full-scale square wave. (numpy's FFT is no slower for it.)
        chunk = frames[part].astype(np.float64)  # (t, frame)
        if spec.scale != 1:
            chunk *= spec.scale
        if spec.remove_dc:
            chunk -= (chunk @ mean)[:, None]
        if energy is not None and spec.c0 == "raw_energy":
            energy[part] = np.square(chunk).sum(axis=1)
        if spec.pre_emphasis:
            first = chunk[:, 0] * (1 - spec.pre_emphasis)  # Kaldi: the sample before the first is the first
            chunk[:, 1:] -= spec.pre_emphasis * chunk[:, :-1]
            chunk[:, 0] = first
        chunk *= taper
        if energy is not None and spec.c0 == "energy":
            energy[part] = np.square(chunk).sum(axis=1)
        # From here on everything is a product or a sum of positive numbers, so float32 will do
        spectrum = np.fft.rfft(chunk, n=spec.fft).astype(np.complex64)  # (t, fft/2+1)
        power[part] = (spectrum.real**2 + spectrum.imag**2) @ mel
    return power, energy


def _frames(samples: Array, spec: MfccSpec) -> Array:
    """(N,) -> (T, frame), a view where nothing has to be added at the ends."""
    samples = np.asarray(samples)
    if samples.ndim != 1:
        raise CepstraError(f"front end: samples have shape {samples.shape}; pass one channel, of shape (N,)")
    if not np.issubdtype(samples.dtype, np.floating):
        raise CepstraError(
            f"front end: samples are {samples.dtype}; pass floats of full scale ±1 (int16: divide by 32768)"
        )
    n_frames = spec.frames(len(samples))
    missing = spec.frame + (n_frames - 1) * spec.hop - spec.lead - len(samples)
    if spec.lead or missing > 0:
        mode = {"reflect": "reflect", "mirror": "symmetric"}.get(spec.edges, "constant") if len(samples) else "constant"
        samples = np.pad(samples, (spec.lead, max(0, missing)), mode=mode)  # type: ignore[call-overload] # mode is a str
    return np.lib.stride_tricks.sliding_window_view(samples, spec.frame)[:: spec.hop][:n_frames]


def _logarithm(power: Array, spec: MfccSpec) -> Array:
    floor = np.float32(spec.log_floor)
    power = np.maximum(power, floor) if spec.floor_by == "max" else power + floor
    if spec.top_db is not None:
        power = np.maximum(power, power.max() * np.float32(10 ** (-spec.top_db / 10)))
    return np.log(power) * np.float32(log_unit(spec))


def log_unit(spec: MfccSpec) -> float:
    """What a natural logarithm is multiplied by to be in the spec's unit."""
    return 1.0 if spec.log == "natural" else 10 / math.log(10)


@lru_cache(maxsize=8)
def window(spec: MfccSpec) -> Table:
    """(frame,). "povey" is Kaldi's: a Hann window to the power of 0.85."""
    phase = 2 * np.pi * np.arange(spec.frame) / (spec.frame if spec.periodic_window else spec.frame - 1)
    hann = 0.5 - 0.5 * np.cos(phase)
    values = {
        "povey": hann**0.85,
        "hann": hann,
        "hamming": 0.54 - 0.46 * np.cos(phase),
        "blackman": 0.42 - 0.5 * np.cos(phase) + 0.08 * np.cos(2 * phase),
        "rectangular": np.ones(spec.frame),
    }
    return _constant(values[spec.window])


@lru_cache(maxsize=8)
def mel_matrix(spec: MfccSpec) -> Table:
    """(n_mels, fft/2+1) triangles, equally spaced on the mel scale. One narrower than a bin may be empty."""
    mel, hz = MEL_SCALES[spec.mel_scale]
    low, high = mel(np.array([spec.low_hz, spec.high_hz]))
    edges = np.linspace(low, high, spec.n_mels + 2)
    bins = np.arange(spec.fft // 2 + 1, dtype=np.float64) * (spec.sample_rate / spec.fft)  # Hz
    axis, corners = (mel(bins), edges) if spec.mel_slopes == "mel" else (bins, hz(edges))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    triangles = np.minimum((axis - left) / (centre - left), (right - axis) / (right - centre)).clip(0)
    if spec.mel_norm == "area":
        triangles *= (2 / (hz(edges[2:]) - hz(edges[:-2])))[:, None]
    triangles[:, -1] = 0  # at the Nyquist frequency all have ended; what rounding left goes
    return _constant(triangles)


def spectrum_bins(spec: MfccSpec) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Numbers of the DFT's bins that matter, those that a mel filter or the energy reads."""
    return np.flatnonzero(mel_matrix(spec).any(axis=0) | (spec.c0 == "energy"))


def _htk_mel(hz: Table) -> Table:
    """O'Shaughnessy (1987), as HTK and Kaldi write it."""
    return np.asarray(1127 * np.log1p(hz / 700))


def _htk_hz(mel: Table) -> Table:
    return np.asarray(700 * np.expm1(mel / 1127))


def _slaney_mel(hz: Table) -> Table:
    """Slaney's Auditory Toolbox (1998): 200/3 Hz per mel up to 1 kHz, then 27 mel for each factor of 6.4."""
    return np.where(hz < 1000, hz * 3 / 200, 15 + 27 * np.log(np.maximum(hz, 1000) / 1000) / math.log(6.4))


def _slaney_hz(mel: Table) -> Table:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * math.log(6.4) / 27))


# name: (Hz to mel, mel to Hz)
MEL_SCALES = {"htk": (_htk_mel, _htk_hz), "slaney": (_slaney_mel, _slaney_hz)}


@lru_cache(maxsize=8)
def dct_matrix(spec: MfccSpec) -> Table:
    """(n_cepstra, n_mels) orthonormal DCT-II with the lifter 1 + Q/2 sin(πk/Q) folded in."""
    k, n = np.arange(spec.n_cepstra)[:, None], np.arange(spec.n_mels)[None]
    matrix = np.sqrt(2 / spec.n_mels) * np.cos(np.pi / spec.n_mels * (n + 0.5) * k)
    matrix[0] = np.sqrt(1 / spec.n_mels)
    if spec.lifter:
        matrix *= 1 + 0.5 * spec.lifter * np.sin(np.pi * k / spec.lifter)
    return _constant(matrix)


def _constant(table: Table) -> Table:
    table.flags.writeable = False  # it is shared by all who ask for it
    return table
