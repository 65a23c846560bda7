"""What decides the features: `MfccSpec`, its checks, and its form in JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from audio.errors import CepstraError


@dataclass(frozen=True)
class MfccSpec:
    """Everything that decides the features; two equal specs give equal features.

    Samples are full scale ±1 (a 16-bit sample divided by 32768); the scale is never guessed from the data. Dither is
    not here: it is noise for training, and what a spec describes is the same in every run (see `audio.mfcc_torch`).

    The defaults follow Kaldi. The fields marked "Kaldi: …; librosa: …" say what other libraries do; docs/features.md
    has whole specs that give their numbers.
    """

    sample_rate: int = 16000  # Hz
    frame: int = 400  # samples: 25 ms
    hop: int = 160  # samples from one frame's start to the next's: 10 ms
    fft: int = 512  # points, even; the frame is zero-padded to it
    # Which frames there are. "snip": only those that fit into the clip. "zero", "reflect": one centred on every
    # hop-th sample, with zeros, or the clip mirrored at its first and last sample, beyond the ends (librosa,
    # torchaudio.transforms). "mirror": one centred on every hop, the clip mirrored between samples (Kaldi without
    # snip_edges).
    edges: Literal["snip", "zero", "reflect", "mirror"] = "snip"
    scale: float = 1.0  # samples are multiplied by this first; Kaldi's recipes read 16-bit numbers: 32768
    remove_dc: bool = True  # take each frame's mean off before anything else; librosa: False
    pre_emphasis: float = 0.97  # x[n] - a x[n-1] within the frame; 0 is off
    window: Literal["povey", "hamming", "hann", "blackman", "rectangular"] = "povey"
    periodic_window: bool = False  # period frame instead of frame - 1; librosa, torchaudio.transforms: True
    n_mels: int = 40  # triangular filters, equally spaced in mel
    low_hz: float = 20.0  # lower edge of the first filter
    high_hz: float = 8000.0  # upper edge of the last filter
    mel_scale: Literal["htk", "slaney"] = "htk"  # 1127 ln(1 + f/700), or linear up to 1 kHz, then logarithmic (librosa)
    mel_slopes: Literal["mel", "hz"] = "mel"  # the axis on which the triangles have straight sides; librosa: "hz"
    mel_norm: Literal["peak", "area"] = "peak"  # height 1, or area 1 over Hz (librosa: "area")
    log_floor: float = 1e-6  # mel power, by default about the rounding noise of 16-bit samples
    floor_by: Literal["max", "add"] = "max"  # less power counts as log_floor, or log_floor is added to all
    top_db: float | None = None  # power this much below the clip's loudest counts as that; librosa: 80; None is off
    log: Literal["natural", "decibel"] = "natural"  # of power; decibel is 10 log10
    n_cepstra: int = 40  # coefficients kept, c0 first
    c0: Literal["cepstrum", "energy", "raw_energy"] = "cepstrum"  # or the frame's log energy, after or before windowing
    energy_floor: float = 1e-6  # of the energy in c0, in units of the scaled samples squared
    lifter: float = 0.0  # cepstral lifter Q (Kaldi: 22), which makes high cepstra larger; 0 is off
    normalisation: Literal["utterance", "running", "none"] = "utterance"  # which mean is taken off each cepstrum
    running_frames: int = 300  # "running": the mean of this many frames up to and including the present one
    # What each cepstrum is divided by; None: ones. A training that states none takes the standard deviation of all
    # cepstra over its corpus, the same number for each
    spread: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, hint in _types().items():
            _check_type(name, getattr(self, name), hint)
        positive = ("sample_rate", "running_frames", "scale", "log_floor", "energy_floor")
        rules = [(f"{name} is above 0", getattr(self, name) > 0) for name in positive]
        rules += [
            # Bounds far beyond use, so that no setting asks for more memory than a computer has
            ("scale is at most 1e9", self.scale <= 1e9),
            ("running_frames is at most 1000000", self.running_frames <= 1_000_000),
            ("n_mels is at most 1024", self.n_mels <= 1024),
            ("0 < hop <= frame <= fft", 0 < self.hop <= self.frame <= self.fft),
            ("frame is 2 samples or more", self.frame >= 2),
            ("fft is even and at most 8192", self.fft % 2 == 0 and self.fft <= 8192),
            ("n_mels <= fft", self.n_mels <= self.fft),
            ("0 < n_cepstra <= n_mels", 0 < self.n_cepstra <= self.n_mels),
            ("0 <= low_hz < high_hz <= sample_rate / 2", 0 <= self.low_hz < self.high_hz <= self.sample_rate / 2),
            ("0 <= pre_emphasis <= 1", 0 <= self.pre_emphasis <= 1),
            ("lifter is 0 or more", self.lifter >= 0),
            ("top_db is above 0", self.top_db is None or self.top_db > 0),
            ("spread has n_cepstra values", self.spread is None or len(self.spread) == self.n_cepstra),
            ("spread is above 0", self.spread is None or min(self.spread) > 0),
        ]
        for rule, holds in rules:
            if not holds:
                named = [field.name for field in fields(self) if field.name in rule.split()]
                raise CepstraError(f"front end: {rule} does not hold; got {self._state(named)}")

    def _state(self, names: list[str]) -> str:
        return ", ".join(f"{name} {getattr(self, name)!r}" for name in names)

    def to_dict(self) -> dict[str, Any]:
        """As JSON would hold it, but for spread, a tuple."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> MfccSpec:
        """The inverse of to_dict, through JSON or not; a key left out has its default.

        Unknown keys raise CepstraError, since they would change the features unseen; so do values that do not fit.
        """
        if not isinstance(values, dict):
            raise CepstraError(f"front end: settings are {type(values).__name__}, not a mapping of names to values")
        known = _types()
        for key in values:
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise CepstraError(f"front end: unknown setting {key!r}{hint}")
        spread = values.get("spread")
        return cls(**{**values, "spread": tuple(spread) if isinstance(spread, list) else spread})

    def frames(self, n_samples: int) -> int:
        """Number of frames of a clip, at least 1.

        edges "snip": 1 + (N - frame) // hop (a clip shorter than a frame is zero-padded); "zero", "reflect":
        1 + N // hop; "mirror": N / hop, rounded half up.
        """
        if self.edges == "snip":
            return 1 + max(0, n_samples - self.frame) // self.hop
        if self.edges == "mirror":
            return max(1, (n_samples + self.hop // 2) // self.hop)
        return 1 + n_samples // self.hop

    @property
    def lead(self) -> int:
        """Samples of the first frame that lie before the clip's first sample."""
        if self.edges == "snip":
            return 0
        if self.edges == "mirror":
            return self.frame // 2 - self.hop // 2
        return self.fft // 2 - (self.fft - self.frame) // 2  # the frame sits in the middle of its FFT


@cache
def _types() -> dict[str, Any]:
    return get_type_hints(MfccSpec)


def _check_type(name: str, value: object, hint: object) -> None:
    if not _fits(value, hint):
        choices = " or ".join(map(repr, get_args(hint))) if get_origin(hint) is Literal else ""
        wanted = choices or _WANTED.get(hint, "one number for each cepstrum, or nothing")
        raise CepstraError(f"front end: {name} is {value!r}; it takes {wanted}")


_WANTED: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    float | None: "a finite number or nothing",
}


def _fits(value: object, hint: object) -> bool:
    origin = get_origin(hint)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if origin is tuple:
        return isinstance(value, tuple) and bool(value) and all(_fits(item, float) for item in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300
    if hint is NoneType:
        return value is None
    return type(value) is hint  # bool and int are told apart
