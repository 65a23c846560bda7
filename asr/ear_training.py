"""What tells words from noise with a model: learnt from recordings of speech that it wasn't trained on, and of noise.

Voices and noises are hard to come by, so each recording is also played slower and faster, which moves pitch and
formants as other people's are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from asr.errors import ConfigError
from asr.hearing import EVIDENCE, LEARNT, Ear, evidence_of_speech, speech_in
from asr.logistic import logistic_regression
from asr.runtime import OnnxBackend
from asr.search import CTC_WEIGHT, SearchOptions, decode
from asr.text import normalise
from audio.augmentation import change_speed
from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.manifest.records import Utterance

SPEEDS = (1.0, 0.8, 1.25)
LONGEST_SECONDS = 10.0  # of a recording: that is what is decoded as one
FOLDS = 5
LEAST_ROWS = 20  # recordings of speech that get a text, and of noise


@dataclass(frozen=True)
class Heard:
    """What a model made of one recording."""

    row: int  # of the recordings: what comes of the same one belongs to one fold
    noise: bool
    evidence: tuple[float, ...] | None  # None: it wrote nothing
    right: bool = False  # whether that is what was said
    varied: bool = False  # played slower or faster


@dataclass(frozen=True)
class Lesson:
    """An ear, and what it does with recordings that it wasn't fitted to (cross-validation)."""

    ear: Ear
    noises: int  # as they were recorded
    noises_written: int  # that get a text
    texts: int  # right ones of speech
    texts_lost: int  # that are taken for noise


def train_ear(
    bundle: Bundle,
    rows: Sequence[Utterance],
    noises: Sequence[Utterance],
    *,
    threads: int = 2,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Lesson:
    """Listen and fit; the line is drawn above all noise, as it was recorded, that was left out in turn.

    Raises ConfigError where the recordings are too few, CepstraError where one can't be read.
    """
    return fit_ear(listen(bundle, rows, noises, threads=threads, progress=progress))


def listen(
    bundle: Bundle,
    rows: Sequence[Utterance],
    noises: Sequence[Utterance],
    *,
    threads: int,
    progress: Callable[[int, int], None],
) -> list[Heard]:
    """Greedy decoding of everything, at several speeds."""
    backend = OnnxBackend(bundle, threads)
    rate = bundle.front_end.sample_rate
    found: list[Heard] = []
    everything = [(row, False) for row in rows] + [(row, True) for row in noises]
    for number, (row, noise) in enumerate(everything):
        samples = read_audio(
            row.audio_filepath, sample_rate=rate, offset=row.offset, duration=min(row.duration, LONGEST_SECONDS)
        )
        said = normalise(row.text)
        found += [
            replace(
                _hear(bundle, backend, change_speed(samples, speed), number, "" if noise else said), varied=speed != 1
            )
            for speed in SPEEDS
        ]
        progress(number + 1, len(everything))
    return found


def _hear(bundle: Bundle, backend: OnnxBackend, samples: NDArray[np.float32], number: int, said: str) -> Heard:
    rate = bundle.front_end.sample_rate
    speech = speech_in(samples, rate, detect=True)
    if speech is None:
        return Heard(number, not said, None)
    part = samples[speech.start : speech.end]
    seconds = len(part) / rate
    memory = backend.encode([part])
    (hypothesis,) = decode(backend, memory, [seconds], SearchOptions(ctc_weight=CTC_WEIGHT))
    evidence = evidence_of_speech(hypothesis, speech, memory.ctc[0, : memory.lengths[0]], seconds)
    return Heard(number, not said, evidence, bool(said) and bundle.tokenizer.decode(hypothesis.tokens) == said)


def fit_ear(heard: Sequence[Heard]) -> Lesson:
    """Weights by logistic regression, noise and speech counting alike; the bias by what noise came to when left out.

    Noise that was played slower or faster teaches the weights, but doesn't move the bias: nobody recorded that. Only
    where none that was recorded gets a text it does.
    """
    written = [each for each in heard if each.evidence is not None]
    noise = np.array([each.noise for each in written], bool)
    for count, what in ((int((~noise).sum()), "speech"), (int(noise.sum()), "noise")):
        if count < LEAST_ROWS:
            raise ConfigError(
                f"only {count} recordings of {what} get a text at all; {LEAST_ROWS} are needed: give more recordings"
            )
    evidence = np.array([each.evidence for each in written], np.float64)  # (N, E)
    folds = np.array([each.row % FOLDS for each in written])
    scores = np.zeros(len(written))
    for fold in range(FOLDS):
        ear = _line(evidence[folds != fold], noise[folds != fold])
        scores[folds == fold] = ear.bias + evidence[folds == fold] @ np.array(ear.weights)
    recorded = noise & ~np.array([each.varied for each in written], bool)
    limit = float(scores[recorded if recorded.any() else noise].max())
    ear = _line(evidence, noise)
    right = np.array([each.right for each in written], bool)
    return Lesson(
        Ear(ear.bias - limit, ear.weights),
        sum(each.noise and not each.varied for each in heard),
        int((scores[recorded] > limit).sum()),
        int(right.sum()),
        int((scores[right] <= limit).sum()),
    )


def _line(evidence: NDArray[np.float64], noise: NDArray[np.bool_]) -> Ear:
    shares = np.where(noise, (~noise).sum() / max(1, noise.sum()), 1.0)
    bias, weights = logistic_regression(evidence[:, :LEARNT], (~noise).astype(np.float64), shares=shares)
    return Ear(bias, (*(float(w) for w in weights), *[0.0] * (len(EVIDENCE) - LEARNT)))
