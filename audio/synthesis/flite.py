"""flite: four recorded people (CMU Arctic and others), fast, a little muffled."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from audio.errors import SynthesisError
from audio.synthesis.engine import Voice
from audio.synthesis.program import listed, spoken_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from audio.synthesis.engine import Array

INSTALL: Final = "apt install flite (or your system's package of that name)"

# The speakers, with the pitch (Hz) that may be asked for; None: the voice has its own whatever is asked
_PITCHES: Final[dict[str, tuple[float, float] | None]] = {
    "awb": None,
    "kal16": (80.0, 135.0),
    "rms": None,
    "slt": (135.0, 215.0),
}


class Flite:
    """The program flite."""

    makes_speakers = False

    def __init__(self) -> None:
        if missing() is not None:
            raise SynthesisError(f"{missing()}; install it: {INSTALL}")
        there = listed("flite", "-lv").partition(":")[2].split()
        self.voices = tuple(name for name in _PITCHES if name in there)
        if not self.voices:
            raise SynthesisError(f"flite has none of the voices {', '.join(_PITCHES)}; install it: {INSTALL}")

    def draw(self, voice: str, others: Sequence[str], rng: np.random.Generator) -> Voice:
        """With a speed and, where it can be changed, a pitch."""
        del others
        settings = {"duration_stretch": float(rng.uniform(0.8, 1.3)), "int_f0_target_stddev": float(rng.uniform(8, 30))}
        if (pitches := _PITCHES[voice]) is not None:
            settings["int_f0_target_mean"] = float(rng.uniform(*pitches))
        return Voice(voice, settings)

    def speak(self, text: str, voice: Voice, rng: np.random.Generator) -> Array:
        """As `Engine.speak`."""
        del rng  # nothing is left to chance
        options = [part for key, value in voice.settings.items() for part in ("--setf", f"{key}={value:.4f}")]
        return spoken_by(
            lambda out: ["flite", "-voice", voice.name, *options, "-f", "/dev/stdin", "-o", str(out)], text
        )


def missing() -> str | None:
    """Why it can't be used, if it can't."""
    return None if shutil.which("flite") else "the program flite isn't there"
