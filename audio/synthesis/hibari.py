"""hibari-tts: one natural English voice, of which every utterance makes another speaker.

hibari's network predicts spectra and pitch, and a vocoder turns them into sound. Between the two, pitch and its
liveliness are scaled, the spectral envelope is stretched and bent (a longer or shorter vocal tract), and level over
frequency, breathiness and speed vary.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import soxr

from audio.errors import SynthesisError
from audio.synthesis.engine import SAMPLE_RATE, Voice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from audio.synthesis.engine import Array

INSTALL: Final = "pip install 'cepstra[synthesis]'"

_RATE: Final = 24000  # Hz, of the vocoder
_BINS: Final = np.arange(601)  # of its spectra, 0 to 12 kHz
_UNVOICED: Final = 40.0  # Hz; the network's pitch below it is none


class Hibari:
    """The package hibari-tts with the voice that is in it."""

    voices = ("heart",)
    makes_speakers = True

    def __init__(self) -> None:
        if missing() is not None:
            raise SynthesisError(f"{missing()}; install it: {INSTALL}")

    def draw(self, voice: str, others: Sequence[str], rng: np.random.Generator) -> Voice:
        """A speaker; a little over half are lower than the voice itself, as men's voices are."""
        del others
        low = rng.random() < 0.6
        tract = float(np.clip(rng.normal(0.93 if low else 1.02, 0.07), 0.76, 1.2))
        pitch = float(np.clip(rng.normal(0.55 if tract < 0.95 else 1.05, 0.12), 0.35, 1.5))
        bends = np.r_[1, rng.normal(1, 0.04, 4), 1] * tract
        colour = np.interp(_BINS, [0, 20, 60, 120, 250, 400, 600], rng.normal(0, 0.35, 7))
        return Voice(
            voice,
            {
                "pitch": pitch,
                "liveliness": float(rng.uniform(0.5, 1.4)),
                "speed": float(rng.uniform(0.78, 1.35)),
                "bins": _BINS / np.interp(_BINS, [0, 30, 75, 140, 220, 600], bends),
                "colour": colour.astype(np.float32)[:, None],
                "breath": np.float32(rng.normal(0, 0.3)),
            },
        )

    def speak(self, text: str, voice: Voice, rng: np.random.Generator) -> Array:
        """As `Engine.speak`."""
        parts = [self._sentence(phonemes, voice, rng) for phonemes in _loaded().phonemize(text)]
        parts = [part for part in parts if len(part)]
        if not parts:
            raise SynthesisError("says nothing of this text")
        sound: Array = soxr.resample(np.concatenate(parts), _RATE, SAMPLE_RATE)
        return sound * np.float32(min(1, 0.5 / max(1e-9, np.abs(sound).max())))

    def _sentence(self, phonemes: str, voice: Voice, rng: np.random.Generator) -> Array:
        """(N,) at _RATE; empty where there is nothing to say."""
        s, ids = voice.settings, _loaded().ids(phonemes)
        if len(ids) < 3:  # the pauses around it alone
            return np.zeros(0, np.float32)
        feed = {"ids": np.asarray([ids], np.int64), "speed": np.asarray([s["speed"]], np.float32)}
        harmonic, phase, noise, rest, rest_phase, f0 = (part[0] for part in _loaded().sess.run(None, feed))
        voiced = f0 > _UNVOICED
        if voiced.any():
            log_f0 = np.log(np.maximum(f0, _UNVOICED))
            mean = log_f0[voiced].mean()
            scaled = np.exp(mean + (log_f0 - mean) * s["liveliness"]) * s["pitch"]
            f0 = np.where(voiced, scaled, 0).astype(np.float32)
        # Fewer harmonics under the same envelope, or more: as loud as before
        harmonic = _stretched(harmonic, s["bins"]) + s["colour"] + np.float32(0.5 * np.log(s["pitch"]))
        noise = _stretched(noise, s["bins"]) + s["colour"] + s["breath"]
        rest = _stretched(rest, s["bins"]) + s["colour"]
        sound: Array = importlib.import_module("hibari.dsp").synth(harmonic, phase, noise, rest, rest_phase, f0, rng)
        return sound


@cache
def _loaded() -> Any:  # noqa: ANN401  the package is optional, and so are its types
    return importlib.import_module("hibari").Hibari(threads=1)


def _stretched(spectrum: Array, bins: NDArray[np.float64]) -> Array:
    """(601, frames) log magnitudes, read at fractional bins (601,)."""
    bins = np.clip(bins, 0, _BINS[-1] - 1e-3)
    low = bins.astype(int)
    part = (bins - low)[:, None].astype(np.float32)
    read: Array = spectrum[low] * (1 - part) + spectrum[low + 1] * part
    return read


def missing() -> str | None:
    """Why it can't be used, if it can't."""
    return None if find_spec("hibari") else "the package hibari-tts isn't installed"
