"""espeak-ng: formant synthesis, robotic and very fast; accents, each in the timbre of dozens of variants."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Final

from audio.errors import SynthesisError
from audio.synthesis.engine import Voice
from audio.synthesis.program import listed, spoken_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from audio.synthesis.engine import Array

INSTALL: Final = "apt install espeak-ng (or your system's package of that name)"

# Variants that sound like somebody speaking (no robots, whispers, croaks), each unlike all others
_TIMBRES: Final = (
    "m1 m2 m3 m4 m5 m6 m7 m8 f1 f2 f3 f4 f5 adam Alex Alicia Andrea Andy Annie antonio aunty belinda benjamin david "
    "Denis Diogo ed edward Gene grandma grandpa gustave Henrique Hugo iven john klatt klatt2 klatt3 klatt4 Lee linda "
    "Marcelo Marco Mario max michel miguel Mike norbert pablo paul pedro quincy rob robert sandro shelby steph travis "
    "victor zac anika"
)


class Espeak:
    """The program espeak-ng. Its voices are the variants; each may speak with any of the language's accents."""

    makes_speakers = False

    def __init__(self, language: str = "en") -> None:
        if missing() is not None:
            raise SynthesisError(f"{missing()}; install it: {INSTALL}")
        rows = [line.split() for line in listed("espeak-ng", f"--voices={language}").splitlines()[1:]]
        # mb/ are voices of mbrola, whose data are another package; some variants call themselves voices
        rows = [row for row in rows if len(row) > 4 and not row[4].startswith("mb/") and row[1] != "variant"]
        self._accents = tuple(sorted({row[1] for row in rows}))
        variants = re.findall(r"!v/(\S+)", listed("espeak-ng", "--voices=variant"))
        self.voices = tuple(sorted(set(_TIMBRES.split()).intersection(variants))) or ("plain",)
        if not self._accents:
            raise SynthesisError(f"espeak-ng has no voice for the language {language!r}; see espeak-ng --voices")

    def draw(self, voice: str, others: Sequence[str], rng: np.random.Generator) -> Voice:
        """With an accent, a speed and a pitch."""
        del others
        accent = str(rng.choice(list(self._accents)))
        pitch = min(85, max(20, round(rng.normal(50, 12))))
        settings = {"accent": accent, "pitch": pitch, "speed": int(rng.integers(130, 205)), "gap": int(rng.choice(3))}
        return Voice(voice, settings)

    def speak(self, text: str, voice: Voice, rng: np.random.Generator) -> Array:
        """As `Engine.speak`."""
        del rng  # nothing is left to chance
        s = voice.settings
        name = s["accent"] if voice.name == "plain" else f"{s['accent']}+{voice.name}"
        options = ["-v", name, "-p", s["pitch"], "-s", s["speed"], "-g", s["gap"], "-z", "-b", 1]
        return spoken_by(lambda out: ["espeak-ng", *map(str, options), "--stdin", "-w", str(out)], text)


def missing() -> str | None:
    """Why it can't be used, if it can't."""
    return None if shutil.which("espeak-ng") else "the program espeak-ng isn't there"
