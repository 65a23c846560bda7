"""Variations of a recording that a recogniser should not mind: speed, level, room, noise, telephone, cut edges.

Runs in the data loader's worker processes beside the training itself, so every part is cheap (hundreds of times faster
than real time in all) and needs numpy and soxr only. Everything random comes from the generator that is passed in: the
same generator state gives the same samples, so a resumed run repeats what an uninterrupted one does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np
import soxr
from numpy.typing import NDArray

from audio.errors import CepstraError
from audio.speech import frame_energies, speech_power

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = NDArray[np.float32]

QUIETEST_NOISE: Final = 1e-7  # mean power, -70 dBFS: an excerpt below this is a hole in the recording, not noise


@dataclass(frozen=True)
class AugmentationConfig:
    """What is varied, how often and how far. A probability is per utterance; 0 switches the part off.

    Pairs are (least, most), drawn from uniformly.
    """

    speed_probability: float = 0.67
    speed_factors: tuple[float, ...] = (0.9, 1.1)  # one is drawn; 1.1 is faster and higher, 1/1.1 of the duration
    crop_probability: float = 0.3
    crop_ms: float = 50.0  # most that is cut off the start, as if recording began late; never above a tenth of the clip
    padding_probability: float = 0.3
    padding_seconds: float = 0.3  # most that is put before, and most that is put after; both are drawn
    room_probability: float = 0.3
    room_seconds: float = 0.3  # impulse responses are cut this long after the direct sound
    room_generated_share: float = 0.5  # of the rooms: generated though impulse responses are given
    room_rt60_seconds: tuple[float, float] = (0.1, 0.7)  # generated: time in which the reverberation falls by 60 dB
    room_direct_db: tuple[float, float] = (-3.0, 12.0)  # generated: direct sound over reverberation
    noise_probability: float = 0.5
    noise_snr_db: tuple[float, float] = (0.0, 30.0)  # speech (without its pauses) over noise
    noise_generated_share: float = 0.2  # of the noises: generated though recordings are given
    gain_probability: float = 0.5
    gain_db: tuple[float, float] = (-20.0, 6.0)  # what then exceeds full scale is clipped, as a microphone does
    narrow_band_probability: float = 0.1  # telephone: nothing above 4 kHz is left
    mu_law_share: float = 0.5  # of the telephones: 8-bit mu-law companded as well

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.name.endswith(("_probability", "_share"))):
            if not 0 <= getattr(self, name) <= 1:
                raise CepstraError(f"augmentation: {name} is {getattr(self, name)}; use a number from 0 to 1")
        for name in ("crop_ms", "padding_seconds", "room_seconds"):
            if not 0 <= getattr(self, name) < math.inf:
                raise CepstraError(f"augmentation: {name} is {getattr(self, name)}; use 0 or more")
        for name in ("room_rt60_seconds", "room_direct_db", "noise_snr_db", "gain_db"):
            low, high = getattr(self, name)
            if not -math.inf < low <= high < math.inf:
                raise CepstraError(f"augmentation: {name} is ({low}, {high}); use (least, most)")
        if not self.speed_factors or not all(0.5 <= factor <= 2 for factor in self.speed_factors):
            raise CepstraError(f"augmentation: speed_factors is {self.speed_factors}; use factors from 0.5 to 2")
        if self.room_rt60_seconds[0] <= 0:
            raise CepstraError(f"augmentation: room_rt60_seconds is {self.room_rt60_seconds}; use times above 0")

    @classmethod
    def off(cls) -> AugmentationConfig:
        """Nothing is varied."""
        return cls(
            speed_probability=0,
            crop_probability=0,
            padding_probability=0,
            room_probability=0,
            noise_probability=0,
            gain_probability=0,
            narrow_band_probability=0,
        )


class Augmenter:
    """Varies utterances: `Augmenter(config, noises, rooms)(samples, rng, speed) -> samples`.

    noises: recordings (N,) to lay under the speech; they are not copied, so they may be memory maps. rooms: impulse
    responses (N,), of which the part around and after the direct sound is kept. Both at sample_rate (Hz); where none
    are given, or for the share that the config says, they are generated.
    The order is that of the way of sound: the speaker's speed, the start and end of the recording, the room, the noise,
    the microphone's gain, the telephone line.
    """

    def __init__(
        self,
        config: AugmentationConfig,
        noises: Sequence[Array] = (),
        rooms: Sequence[Array] = (),
        *,
        sample_rate: int = 16000,
    ) -> None:
        self.config = config
        self.sample_rate = sample_rate
        self.noises = [noise for noise in noises if len(noise)]
        self.rooms = [trim_room(room, sample_rate, config.room_seconds) for room in rooms]
        self._generated = _noise_bank(sample_rate) if config.noise_probability or config.padding_probability else []

    def speed_factor(self, rng: np.random.Generator) -> float:
        """Draw the speed of an utterance (1.0: as it is), apart from the rest since batches are made up by duration."""
        return float(self.speed_factors(rng, 1)[0])

    def speed_factors(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """The same for many utterances at once: (count,)."""
        changed = rng.random(count) < self.config.speed_probability
        return np.where(changed, rng.choice(np.array(self.config.speed_factors), count), 1.0)

    def max_length(self, n_samples: int, speed: float = 1.0) -> int:
        """Most samples that an utterance of n_samples may get."""
        padding = self._samples(self.config.padding_seconds) if self.config.padding_probability else 0
        return length_at_speed(n_samples, speed) + 2 * padding

    def min_length(self, n_samples: int, speed: float = 1.0) -> int:
        """Fewest samples that an utterance of n_samples may get; its text must still fit."""
        length = length_at_speed(n_samples, speed)
        return length - (self._most_cropped(length) if self.config.crop_probability else 0)

    def __call__(
        self, samples: Array, rng: np.random.Generator, speed: float = 1.0, longest: int | None = None
    ) -> Array:
        """Vary one utterance.

        samples: (N,) float32, finite, full scale ±1; N may be 0. They are not changed. speed: from speed_factor.
        longest: silence is put around it only up to this many samples in all; None is no limit.
        Returns (M,) float32 with min_length <= M <= max_length, every value within ±1 (what exceeds it is clipped);
        where chance leaves all as it is, the samples themselves.
        """
        config = self.config
        varied = change_speed(samples, speed)
        if rng.random() < config.crop_probability:
            varied = varied[rng.integers(self._most_cropped(len(varied)), endpoint=True) :]
        if rng.random() < config.padding_probability:
            varied = self._padded(varied, rng, longest)
        if rng.random() < config.room_probability:
            varied = reverberate(varied, *self._room(rng))
        if rng.random() < config.noise_probability:
            varied = self._noisy(varied, rng)
        if rng.random() < config.gain_probability:
            varied = varied * np.float32(10 ** (rng.uniform(*config.gain_db) / 20))
        if rng.random() < config.narrow_band_probability:
            varied = narrow_band(varied, self.sample_rate, mu_law=bool(rng.random() < config.mu_law_share))
        return varied if varied is samples else np.clip(varied, np.float32(-1), np.float32(1))

    def _samples(self, seconds: float) -> int:
        return int(seconds * self.sample_rate)

    def _most_cropped(self, length: int) -> int:
        return min(self._samples(self.config.crop_ms / 1000), length // 10)

    def _padded(self, samples: Array, rng: np.random.Generator, longest: int | None) -> Array:
        """Silence around the clip: digital silence, or hiss as loud as the clip's own quietest 10 ms, half and half."""
        most = self._samples(self.config.padding_seconds)
        before, after = (int(n) for n in rng.integers(most, size=2, endpoint=True))
        if longest is not None and before + after > (room := max(0, longest - len(samples))):
            before, after = before * room // (before + after), after * room // (before + after)
        padded = np.zeros(before + len(samples) + after, dtype=np.float32)
        padded[before : before + len(samples)] = samples
        frame = self.sample_rate // 100
        if rng.random() < 0.5 and len(samples) >= frame:
            floor = np.float32(math.sqrt(frame_energies(samples, frame).min()))
            hiss = floor * _excerpt(self._generated[rng.integers(3)], before + after, rng)  # not hum
            padded[:before] = hiss[:before]
            padded[before + len(samples) :] = hiss[before:]
        return padded

    def _noisy(self, samples: Array, rng: np.random.Generator) -> Array:
        """Samples with noise at a signal-to-noise ratio from the config's range; silence stays silence."""
        speech = speech_power(samples, self.sample_rate)
        ratio = 10 ** (rng.uniform(*self.config.noise_snr_db) / 10)
        noise, power = None, 0.0
        if self.noises and rng.random() >= self.config.noise_generated_share:
            noise = _excerpt(self.noises[rng.integers(len(self.noises))], len(samples), rng)
            power = _mean_power(noise)
        if noise is None or power < QUIETEST_NOISE:
            noise = _excerpt(self._generated[rng.integers(len(self._generated))], len(samples), rng)
            power = _mean_power(noise)
        if power == 0 or speech == 0:
            return samples
        return samples + np.float32(math.sqrt(speech / ratio / power)) * noise

    def _room(self, rng: np.random.Generator) -> tuple[Array, int]:
        if self.rooms and rng.random() >= self.config.room_generated_share:
            return self.rooms[rng.integers(len(self.rooms))]
        rt60, direct = rng.uniform(*self.config.room_rt60_seconds), rng.uniform(*self.config.room_direct_db)
        return generated_room(rng, self.sample_rate, rt60, direct, self.config.room_seconds), 0


def length_at_speed(n_samples: int, speed: float) -> int:
    """Samples that n_samples become: n_samples / speed, rounded; at least one of at least one."""
    return n_samples if speed == 1 else max(min(1, n_samples), round(n_samples / speed))


def change_speed(samples: Array, speed: float) -> Array:
    """Play faster (speed > 1) or slower; pitch and formants move along, as with a tape. (N,) -> (length_at_speed,)."""
    if speed == 1 or not len(samples):
        return samples
    # soxr's high quality costs no more than linear interpolation in numpy, which would alias
    return _fit(soxr.resample(samples, speed, 1.0, quality="HQ"), length_at_speed(len(samples), speed))


def reverberate(samples: Array, room: Array, direct: int = 0) -> Array:
    """Samples as heard in a room: (N,) -> (N,), as loud in all as before.

    room: (L,) impulse response with the direct sound at index `direct`; that delay is taken out, so the speech stays
    where it is. The reverberation of its end is cut. Overlap-save convolution (Stockham 1966) in blocks that stay in
    the cache, two to three times faster than one long transform.
    """
    if not len(samples):
        return samples
    block = 1 << max(14, (3 * len(room)).bit_length())
    step = block - len(room) + 1
    needed = len(samples) + direct
    n_blocks = -(-needed // step)
    padded = np.zeros(len(room) - 1 + n_blocks * step, dtype=np.float32)
    padded[len(room) - 1 : len(room) - 1 + len(samples)] = samples
    blocks = np.lib.stride_tricks.sliding_window_view(padded, block)[::step]  # (n_blocks, block), overlapping
    spectrum = np.fft.rfft(blocks) * np.fft.rfft(room, block)
    wet = np.fft.irfft(spectrum, block).astype(np.float32, copy=False)  # float32 already
    wet = wet[:, len(room) - 1 :].reshape(-1)[direct : direct + len(samples)]
    before, after = _mean_power(samples), _mean_power(wet)
    return wet * np.float32(math.sqrt(before / after) if after > 0 else 0)


def trim_room(room: Array, sample_rate: int, seconds: float) -> tuple[Array, int]:
    """Cut an impulse response from 1 ms before its direct sound to `seconds` after; returns it and the index of that.

    The direct sound is where the response first reaches half of its peak: in a live room a reflection may be louder.
    The last quarter fades, so that the cut can't be heard. Raises CepstraError when there is no sound in it.
    """
    room = np.asarray(room, dtype=np.float32)
    if room.ndim != 1 or not len(room) or not np.isfinite(room).all() or not room.any():
        raise CepstraError("augmentation: an impulse response is silent or no row of finite numbers; leave it out")
    size = np.abs(room)
    direct = int((size >= size.max() / 2).argmax())
    lead = min(direct, sample_rate // 1000)
    kept = room[direct - lead : direct + max(1, int(seconds * sample_rate))] / size.max()
    fade = (len(kept) - lead) // 4
    if fade:
        kept[-fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
    return kept, lead


def generated_room(rng: np.random.Generator, sample_rate: int, rt60: float, direct_db: float, seconds: float) -> Array:
    """A simple room: the direct sound at index 0, then noise that decays exponentially (Polack 1988). (L,) float32.

    rt60: seconds in which the reverberation falls by 60 dB; direct_db: energy of direct sound over reverberation.
    The first reflection comes after 2 to 10 ms; high frequencies are damped, as walls and air do.
    """
    length = max(2, int(min(seconds, rt60) * sample_rate))
    room = rng.standard_normal(length, dtype=np.float32)
    room[1:] += room[:-1].copy()
    room *= np.exp(np.arange(length, dtype=np.float32) * np.float32(-math.log(1e3) / (rt60 * sample_rate)))
    room[: int(rng.uniform(0.002, 0.010) * sample_rate)] = 0
    energy = float(np.dot(room, room))
    if energy > 0:
        room *= np.float32(math.sqrt(10 ** (-direct_db / 10) / energy))
    room[0] = 1
    return room


def narrow_band(samples: Array, sample_rate: int, *, mu_law: bool = False) -> Array:
    """Samples as after a telephone line: sampled at 8 kHz, if wanted in 8-bit mu-law (ITU-T G.711). (N,) -> (N,)."""
    if not len(samples):
        return samples
    line = soxr.resample(samples, sample_rate, 8000, quality="HQ") if sample_rate > 8000 else samples
    if mu_law:
        line = _mu_law_round_trip(line)
    return _fit(soxr.resample(line, 8000, sample_rate, quality="HQ"), len(samples)) if sample_rate > 8000 else line


def _mu_law_round_trip(samples: Array) -> Array:
    """Quantise as mu-law does: 255 steps, even in sign(x) ln(1 + 255 |x|) / ln 256."""
    codes = np.log1p(np.float32(255) * np.minimum(np.abs(samples), np.float32(1)))  # 0 .. ln 256
    codes = np.rint(codes * np.float32(127 / math.log(256))).astype(np.intp)
    steps = (np.expm1(np.arange(128) * (math.log(256) / 127)) / 255).astype(np.float32)
    quantised: Array = np.copysign(steps[codes], samples)
    return quantised


def _noise_bank(sample_rate: int) -> list[Array]:
    """Ten seconds of each of white, pink and brown noise, 50 Hz and 60 Hz hum; mean power 1, no seam where they loop.

    Always the same ones. Drawn as spectra from 20 Hz up: power even over frequency, or falling with it (pink) or with
    its square (brown); hum is lines at the harmonics of the mains, the odd ones the stronger.
    """
    rng = np.random.default_rng(0)
    n = 10 * sample_rate
    hz = np.fft.rfftfreq(n, 1 / sample_rate)
    audible = hz >= 20
    white = (rng.standard_normal(len(hz)) + 1j * rng.standard_normal(len(hz))) * audible
    laws = [hz * 0 + 1, np.maximum(hz, 20) ** -0.5, np.maximum(hz, 20) ** -1.0]
    spectra = [white * law for law in laws]
    for mains in (50, 60):
        lines = np.zeros(len(hz), dtype=np.complex128)
        harmonics = np.arange(1, 21)
        strength = rng.uniform(0.3, 1, 20) / harmonics * np.where(harmonics % 2, 1.0, 0.4)
        lines[harmonics * mains * 10] = strength * np.exp(2j * np.pi * rng.random(20))
        spectra.append(lines)
    waves = [np.fft.irfft(spectrum, n) for spectrum in spectra]
    return [(wave / np.sqrt(np.mean(wave**2))).astype(np.float32) for wave in waves]


def _excerpt(recording: Array, length: int, rng: np.random.Generator) -> Array:
    """`length` samples from a random place; where the recording ends, it starts again."""
    start = int(rng.integers(len(recording)))
    if start + length <= len(recording):
        return recording[start : start + length]
    rounds = -(-(start + length) // len(recording))
    return np.concatenate([recording[start:], *[recording] * (rounds - 1)])[:length]


def _mean_power(samples: Array) -> float:
    return float(np.dot(samples, samples)) / max(1, len(samples))


def _fit(samples: Array, length: int) -> Array:
    """Cut or zero-padded to the length (a resampler may be off by one)."""
    return samples[:length] if len(samples) >= length else np.pad(samples, (0, length - len(samples)))
