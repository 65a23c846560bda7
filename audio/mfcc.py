"""The front end: what a frame is, and how it becomes mel-cepstral coefficients (numpy).

`MfccSpec` is the one description that travels with every checkpoint and bundle; `audio.mfcc_torch` computes the same
in torch and, exported, in ONNX.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from audio.errors import CepstraError

Array = NDArray[np.float32]


@dataclass(frozen=True)
class MfccSpec:
    """Everything that decides the features; two equal specs give equal features.

    Samples are full scale ±1 (a 16-bit sample divided by 32768); the scale is never guessed from the data.
    """

    sample_rate: int = 16000  # Hz
    frame: int = 400  # samples: 25 ms
    hop: int = 160  # samples: 10 ms
    fft: int = 512  # points; the frame is zero-padded to it
    n_mels: int = 40  # triangular filters, equally spaced in mel
    n_cepstra: int = 40  # coefficients kept, c0 first
    low_hz: float = 20.0  # lower edge of the first filter
    high_hz: float = 8000.0  # upper edge of the last filter
    remove_dc: bool = True  # take each frame's mean off before anything else
    pre_emphasis: float = 0.97  # x[n] - a x[n-1] within the frame; 0 is off
    window: Literal["povey", "hamming", "hann", "rectangular"] = "povey"
    lifter: float = 0.0  # cepstral lifter Q (Kaldi uses 22); 0 is off, since each cepstrum is divided by its spread anyway
    log_floor: float = 1e-6  # mel power below this counts as this: about the rounding noise of 16-bit samples
    normalisation: Literal["utterance", "running", "none"] = "utterance"  # which mean is taken off each cepstrum
    running_frames: int = 300  # "running": the mean of this many frames up to and including the present one
    spread: tuple[float, ...] | None = None  # standard deviation of each cepstrum over the training corpus; None: ones

    def __post_init__(self) -> None:
        if self.spread is not None and len(self.spread) != self.n_cepstra:
            raise CepstraError(f"front end: spread has {len(self.spread)} values for {self.n_cepstra} cepstra")
        if not 0 < self.hop <= self.frame <= self.fft:
            raise CepstraError("front end: 0 < hop <= frame <= fft does not hold")
        if not 0 < self.n_cepstra <= self.n_mels:
            raise CepstraError("front end: 0 < n_cepstra <= n_mels does not hold")
        if not 0 <= self.low_hz < self.high_hz <= self.sample_rate / 2:
            raise CepstraError("front end: 0 <= low_hz < high_hz <= sample_rate / 2 does not hold")

    def to_dict(self) -> dict[str, Any]:
        """As JSON would hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> MfccSpec:
        """The inverse of to_dict; unknown keys raise CepstraError, since they would change the features unseen."""
        unknown = set(values) - set(cls.__dataclass_fields__)
        if unknown:
            raise CepstraError(f"front end: unknown setting {sorted(unknown)[0]!r}")
        spread = values.get("spread")
        return cls(**{**values, "spread": None if spread is None else tuple(float(s) for s in spread)})

    def frames(self, n_samples: int) -> int:
        """Number of frames of a clip: 1 + (N - frame) // hop, at least 1 (a shorter clip is zero-padded)."""
        return 1 + max(0, n_samples - self.frame) // self.hop


def mfcc(samples: Array, spec: MfccSpec) -> Array:
    """Mel-frequency cepstral coefficients, one row per hop.

    samples: (N,) mono, spec.sample_rate Hz, full scale ±1.
    Returns (T, n_cepstra) with T = spec.frames(N).
    Follows Davis & Mermelstein (1980) with Kaldi's conventions (frames only where they fit, per-frame DC removal and
    pre-emphasis, power spectrum, natural logarithm, orthonormal DCT-II).
    """
    cepstra = log_mel(samples, spec) @ dct_matrix(spec).T
    return normalise(cepstra, spec)


def log_mel(samples: Array, spec: MfccSpec) -> Array:
    """Natural logarithm of the mel powers: (N,) -> (T, n_mels). The cepstra before the DCT."""
    n_frames = spec.frames(len(samples))
    needed = spec.frame + (n_frames - 1) * spec.hop
    if len(samples) < needed:
        samples = np.pad(samples, (0, needed - len(samples)))
    samples = np.ascontiguousarray(samples, dtype=np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(samples, spec.frame)[:: spec.hop][:n_frames]  # (T, frame)
    frames = (frames - frames.mean(axis=1, keepdims=True)) if spec.remove_dc else frames.copy()
    if spec.pre_emphasis:
        first = frames[:, 0] * np.float32(1 - spec.pre_emphasis)  # Kaldi: the sample before the first is the first
        frames[:, 1:] -= np.float32(spec.pre_emphasis) * frames[:, :-1]
        frames[:, 0] = first
    frames *= window(spec)
    spectrum = np.fft.rfft(frames, n=spec.fft)  # (T, fft/2+1)
    power = spectrum.real**2 + spectrum.imag**2
    return np.log(np.maximum(power @ mel_matrix(spec).T, np.float32(spec.log_floor)))


def normalise(cepstra: Array, spec: MfccSpec) -> Array:
    """Take the mean off each cepstrum (of the utterance, or a running one) and divide by spec.spread. (T, C) -> (T, C)."""
    if spec.normalisation == "utterance":
        cepstra = cepstra - cepstra.mean(axis=0)
    elif spec.normalisation == "running":
        offset = cepstra[0]  # keeps the sums small, so that float32 would do
        sums = np.cumsum(cepstra - offset, axis=0, dtype=np.float64)
        sums[spec.running_frames :] -= sums[: -spec.running_frames].copy()
        counts = np.minimum(np.arange(1, len(cepstra) + 1), spec.running_frames)[:, None]
        cepstra = (cepstra - offset - sums / counts).astype(np.float32)
    return cepstra if spec.spread is None else cepstra / np.asarray(spec.spread, np.float32)


@lru_cache(maxsize=8)
def window(spec: MfccSpec) -> Array:
    """(frame,) symmetric window. "povey" is Kaldi's: a Hann window to the power of 0.85."""
    phase = 2 * np.pi * np.arange(spec.frame) / max(1, spec.frame - 1)
    values = {
        "povey": (0.5 - 0.5 * np.cos(phase)) ** 0.85,
        "hann": 0.5 - 0.5 * np.cos(phase),
        "hamming": 0.54 - 0.46 * np.cos(phase),
        "rectangular": np.ones(spec.frame),
    }
    return values[spec.window].astype(np.float32)


@lru_cache(maxsize=8)
def mel_matrix(spec: MfccSpec) -> Array:
    """(n_mels, fft/2+1) triangles on the mel scale 1127 ln(1 + f/700) (O'Shaughnessy 1987; as Kaldi lays them)."""

    def mel(hz: NDArray[np.float64] | float) -> NDArray[np.float64]:
        return np.asarray(1127.0 * np.log1p(np.asarray(hz) / 700.0))

    edges = np.linspace(mel(spec.low_hz), mel(spec.high_hz), spec.n_mels + 2)
    bins = mel(np.arange(spec.fft // 2 + 1) * spec.sample_rate / spec.fft)
    left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangles = np.minimum((bins - left) / (centre - left), (right - bins) / (right - centre)).clip(0)
    triangles[:, -1] = 0  # Kaldi leaves the Nyquist bin out
    return triangles.astype(np.float32)


@lru_cache(maxsize=8)
def dct_matrix(spec: MfccSpec) -> Array:
    """(n_cepstra, n_mels) orthonormal DCT-II with the lifter 1 + Q/2 sin(πk/Q) folded in."""
    k, n = np.arange(spec.n_cepstra)[:, None], np.arange(spec.n_mels)[None]
    matrix = np.sqrt(2 / spec.n_mels) * np.cos(np.pi / spec.n_mels * (n + 0.5) * k)
    matrix[0] = np.sqrt(1 / spec.n_mels)
    if spec.lifter:
        matrix *= 1 + 0.5 * spec.lifter * np.sin(np.pi * k / spec.lifter)
    return matrix.astype(np.float32)
