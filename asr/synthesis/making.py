"""One utterance: an engine and a voice drawn, the text spoken and looked at, the level set, the file written."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import soundfile

from asr.errors import AudioError, CepstraError, SynthesisError
from asr.files import write_atomically
from asr.manifest.check_settings import CheckSettings, SoundLimits
from asr.manifest.check_sound import check_level
from asr.synthesis.engines import open_all
from asr.synthesis.prompts import spoken
from asr.synthesis.surroundings import Surroundings, augmenter
from audio.speech import speech_power
from audio.synthesis import SAMPLE_RATE, EngineSpec

if TYPE_CHECKING:
    from pathlib import Path

    from audio.augmentation import Augmenter
    from audio.synthesis.engine import Array

SLOWEST: Final = (2.0, 0.3)  # s that a text may last at most, and s more for each of its letters
LOUDNESS_DB: Final = (-24.0, 5.0)  # dBFS while something is said: mean and spread, as recordings have it
LOUDNESS_LIMITS_DB: Final = (-36.0, -14.0)
HIGHEST_PEAK: Final = 0.95


@dataclass(frozen=True)
class Job:
    """What is to be said by whom: the same job gives the same sound."""

    index: int
    say: str
    text: str  # normalised
    split: str
    extra: dict[str, Any] = field(default_factory=dict, hash=False)  # goes into the manifest


@dataclass(frozen=True)
class Setup:
    """What all utterances have in common."""

    seed: int
    engines: tuple[EngineSpec, ...]
    voices: dict[str, dict[str, tuple[str, ...]]]  # split to engine to its voices there
    surroundings: Surroundings | None


@dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    index: int
    row: dict[str, Any] = field(default_factory=dict)  # duration, speaker, source; empty: nothing was made
    left_out: str = ""  # what was wrong with the sound, twice
    failure: str = ""  # the engine's, twice
    engine: str = ""
    faults: list[list[str]] = field(default_factory=list, hash=False)  # [engine, reason] of each try that failed
    fatal: str = ""  # nothing more can be made: the disk is full, an engine can't be opened


class UnusableError(CepstraError):
    """Sound that isn't what the text says, most likely. The message is the kind of fault."""


class Maker:
    """Makes utterances, one after the other: `maker.make(job, path)`."""

    def __init__(self, setup: Setup) -> None:
        """Opens the engines. Raises SynthesisError."""
        self._setup = setup
        self._engines = open_all(setup.engines)
        self._weights = {spec.name: spec.weight for spec in setup.engines}
        self._augment: Augmenter | None = None if setup.surroundings is None else augmenter(setup.surroundings)

    def make(self, job: Job, path: Path) -> Outcome:
        """Write the utterance to a path. What fails is tried once more, with another voice."""
        used: set[tuple[str, str]] = set()
        outcome = Outcome(job.index)
        faults: list[list[str]] = []
        for attempt in range(2):
            rng = np.random.default_rng([self._setup.seed, job.index, attempt])
            engine, voice = self._draw(job.split, rng, used)
            used.add((engine, voice))
            try:
                samples, speaker = self._said(job, engine, voice, rng, attempt)
            except UnusableError as error:
                outcome = Outcome(job.index, left_out=str(error), engine=engine, faults=faults)
            except Exception as error:  # noqa: BLE001  engines are other people's programs
                reason = " ".join(str(error).split())
                if not isinstance(error, SynthesisError | AudioError):
                    reason = f"{type(error).__name__}: {reason:.300}"
                faults.append([engine, reason])
                outcome = Outcome(job.index, failure=f"{engine}: {reason}", engine=engine, faults=faults)
            else:
                write_flac(path, samples)
                row = {"duration": round(len(samples) / SAMPLE_RATE, 3), "speaker": speaker, "source": engine}
                return Outcome(job.index, row, engine=engine, faults=faults)
        return outcome

    def _draw(self, split: str, rng: np.random.Generator, used: set[tuple[str, str]]) -> tuple[str, str]:
        """An engine, by weight, and one of its voices, another than those used where there is one."""
        pools = self._setup.voices[split]
        free = {name: [voice for voice in pool if (name, voice) not in used] for name, pool in pools.items()}
        free = {name: pool for name, pool in free.items() if pool} or {name: list(pool) for name, pool in pools.items()}
        names = list(free)
        weights = np.array([self._weights[name] for name in names])
        name = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        return name, free[name][int(rng.integers(len(free[name])))]

    def _said(self, job: Job, name: str, voice: str, rng: np.random.Generator, attempt: int) -> tuple[Array, str]:
        """(N,) samples, and the speaker. Raises UnusableError, and what engines raise."""
        engine = self._engines[name]
        pool = self._setup.voices[job.split][name]
        drawn = engine.draw(voice, [other for other in pool if other != voice], rng)
        samples = engine.speak(spoken(job.say), drawn, rng)
        check(samples, job.text)
        samples = levelled(samples, rng)
        if self._augment is not None:
            samples = self._augment(samples, rng)
        own = f"-{self._setup.seed}-{job.index}" + (f"-{attempt}" if attempt else "")
        return samples, name + own if engine.makes_speakers else f"{name}-{drawn.name}"


def check(samples: Array, text: str) -> None:
    """Raise UnusableError unless (N,) samples at 16 kHz may be this text, as far as length and level tell."""
    letters = len(text.replace(" ", ""))
    seconds = len(samples) / SAMPLE_RATE
    if not np.isfinite(samples).all():
        raise UnusableError("not finite")
    if not len(samples) or next(check_level([samples], SAMPLE_RATE, SoundLimits(clipped_share=1)), None):
        raise UnusableError("silent")
    if next(check_level([samples], SAMPLE_RATE, SoundLimits()), None):
        raise UnusableError("clipped")
    if letters > seconds * CheckSettings.max_characters_per_second:
        raise UnusableError("too short for its text")
    if seconds > SLOWEST[0] + SLOWEST[1] * letters:
        raise UnusableError("too long for its text")


def levelled(samples: Array, rng: np.random.Generator) -> Array:
    """As loud as recordings are, some more and some less; nothing is clipped."""
    wanted = float(np.clip(rng.normal(*LOUDNESS_DB), *LOUDNESS_LIMITS_DB))
    gain = math.sqrt(10 ** (wanted / 10) / speech_power(samples, SAMPLE_RATE))
    return samples * np.float32(min(gain, HIGHEST_PEAK / float(np.abs(samples).max())))


def write_flac(path: Path, samples: Array) -> None:
    """(N,) as 16-bit FLAC, whole or not at all. Raises CepstraError."""
    data = io.BytesIO()
    soundfile.write(data, samples, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    write_atomically(path, data.getvalue())
