"""What a model's evidence for a command is worth: learnt from recordings that it wasn't trained on.

Their texts make phrase files of many sizes. Each recording is compared with some that hold what it says, and with some
that don't, where whatever is found is wrong. So it is where something else is said before or after a command, or where
a file holds nearly what is said: a word more or less, or another one.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from asr.commands import chance_of_speech
from asr.errors import ConfigError
from asr.evaluation.commands import CommandEvaluation, Trial
from asr.judge import EVIDENCE, Judge
from asr.logistic import logistic_regression
from asr.phrases import Command, PhraseSet
from asr.pieces import PIECE_SECONDS
from asr.recognizer import Recognizer
from asr.text import normalise
from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.manifest.records import Utterance

SIZES = (5, 12, 30, 100, 400)  # sentences in a phrase file
WITH, WITHOUT = 2, 2  # files that each recording is compared with: that hold its text, and that don't
AROUND = 2  # of every so many comparisons with a file that holds the text, one more with other speech before or after
NEAR = 2  # of every so many recordings of several words, one comparison more with a file of what is nearly said
NEAR_SIZE = 5  # sentences in such a file
PAUSES = (0.0, 0.6)  # seconds between the two
FALSE_ACCEPTS = 0.01  # the threshold is chosen for at most this rate of them
FOLDS = 5
BATCH = 64  # recordings given to the recogniser at once, so that progress shows
LEAST_ROWS = 20  # recordings that say one of the sentences of some file, and that don't
_FREE = (EVIDENCE.index("length"),)  # more of any other evidence is never against a command


@dataclass(frozen=True)
class Observation:
    """What was found for one recording in one phrase file."""

    trial: Trial
    evidence: tuple[float, ...]
    row: int  # of the recordings: what the same one says belongs to one fold
    spoken: float = math.inf  # log-odds that anything was said at all
    hard: bool = False  # with other speech before or after it, or nearly what a file holds


@dataclass(frozen=True)
class Calibration:
    """A judge, and how good it is on recordings that it wasn't fitted to (cross-validation)."""

    judge: Judge
    evaluation: CommandEvaluation


def calibrate(
    bundle: Bundle,
    rows: Sequence[Utterance],
    *,
    seed: int = 1,
    threads: int = 2,
    speech_detection: bool = True,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Calibration:
    """Listen, fit and choose the threshold. progress: told how many comparisons of all are done.

    rows: recordings of speech, and of noise, without text. speech_detection: as the model will be used.
    Raises ConfigError where the recordings are too few, CepstraError where one can't be read.
    """
    observations = observe(
        bundle, rows, seed=seed, threads=threads, speech_detection=speech_detection, progress=progress
    )
    for commands, what in ((True, "say one of several sentences"), (False, "say something else")):
        count = len({each.row for each in observations if (each.trial.meant is not None) == commands})
        if count < LEAST_ROWS:
            raise ConfigError(
                f"only {count} recordings that {what} could be compared; {LEAST_ROWS} are needed: "
                "give a manifest with more recordings, of more different texts"
            )
    folds = np.array([each.row % FOLDS for each in observations])
    judged: list[Trial] = []  # other speech is what the threshold is chosen by, and not what is nearly a command
    for fold in range(FOLDS):
        training = [each for each, other in zip(observations, folds, strict=True) if other != fold]
        judge = fit(training)
        left_out = [each for each, its in zip(observations, folds, strict=True) if its == fold and not each.hard]
        judged += [_judged(each, judge) for each in left_out]
    judge = fit(observations)
    threshold = CommandEvaluation.of(judged).threshold_for(FALSE_ACCEPTS) or 0.0
    judge = replace(judge, threshold=min(0.99, threshold))
    accepted = [replace(trial, accepted=trial.confidence >= judge.threshold) for trial in judged]
    return Calibration(judge, CommandEvaluation.of(accepted))


def observe(
    bundle: Bundle,
    rows: Sequence[Utterance],
    *,
    seed: int,
    threads: int,
    speech_detection: bool,
    progress: Callable[[int, int], None],
) -> list[Observation]:
    """Compare each recording with phrase files that hold its text and with others."""
    draw = random.Random(seed)  # noqa: S311  reproducible, not secret
    unknown = bundle.tokenizer.unk_id
    texts = [normalise(row.text) for row in rows]
    known = [bool(text) and unknown not in bundle.tokenizer.encode(text) for text in texts]
    files = _phrase_files(
        [(row.source, text) for row, text, fits in zip(rows, texts, known, strict=True) if fits], draw
    )
    near = _near(texts, known, draw)
    jobs: dict[str, list[_Comparison]] = {name: [] for name in files}
    for index, text in enumerate(texts):
        holding = [name for name, file in files.items() if text in file]
        others = [name for name, file in files.items() if text not in file]
        for names, most in ((holding, WITH), (others, WITHOUT)):
            for name in draw.sample(names, min(most, len(names))):
                jobs[name].append(_Comparison(index, text))
        if holding and index % AROUND == 0:
            other = draw.randrange(len(rows))
            before, pause = draw.random() < 0.5, draw.uniform(*PAUSES)
            said = f"{texts[other]} {text}" if before else f"{text} {texts[other]}"
            jobs[draw.choice(holding)].append(_Comparison(index, said.strip(), other, pause, before=before))
    for index, file in near.items():
        name = f"near {index}"
        files[name], jobs[name] = file, [_Comparison(index, texts[index], near=True)]
    recognizer = Recognizer(
        bundle,
        threads=threads,
        phrases={name: PhraseSet.parse("\n".join(file), name) for name, file in files.items()},
        speech_detection=speech_detection,  # noise that it finds needs no telling apart by confidence
    )
    total, done = sum(map(len, jobs.values())), 0
    observations: list[Observation] = []
    for name, comparisons in jobs.items():
        for start in range(0, len(comparisons), BATCH):
            part = comparisons[start : start + BATCH]
            heard = recognizer.transcribe([_sound(each, rows, bundle) for each in part], phrases=name)
            for each, result in zip(part, heard, strict=True):
                meaning = result.meaning
                # Where two commands were found in one recording, its meaning is that of the first alone
                if meaning is not None and meaning.alternatives and len(result.commands) < 2:
                    meant = _command(each.text) if each.text in files[name] else None
                    found, row = meaning.alternatives[0], rows[each.row]
                    trial = Trial(
                        str(row.audio_filepath), row.source or "", each.text, meant, _command(found.command.sentence),
                        found.confidence, accepted=False,
                    )  # fmt: skip
                    observations.append(Observation(trial, found.evidence, each.row, found.spoken, each.hard))
            done += len(part)
            progress(done, total)
    return observations


@dataclass(frozen=True)
class _Comparison:
    """A recording, by itself or with another one before or after it."""

    row: int
    text: str  # all that is said
    other: int | None = None
    pause: float = 0.0  # seconds between the two
    before: bool = False
    near: bool = False  # the file holds nearly what is said

    @property
    def hard(self) -> bool:
        """Whether something else is said as well, or nearly that."""
        return self.near or self.other is not None


def _near(texts: Sequence[str], known: Sequence[bool], draw: random.Random) -> dict[int, list[str]]:
    """For some of the texts of several words, by their place: a phrase file of one like it and others."""
    pool = sorted({text for text, fits in zip(texts, known, strict=True) if fits})
    words = sorted({word for text in pool for word in text.split()})
    several = [i for i, text in enumerate(texts) if known[i] and " " in text]
    found: dict[int, list[str]] = {}
    for i in several[::NEAR]:
        others = (text for text in draw.sample(pool, min(NEAR_SIZE, len(pool))) if text != texts[i])
        found[i] = [nearly(texts[i], words, draw), *others][:NEAR_SIZE]
    return found


def nearly(text: str, words: Sequence[str], draw: random.Random) -> str:
    """A text of at least two words with some left out at an end, with one less, or with another one in its place."""
    said = text.split()
    place, kind = draw.randrange(len(said)), draw.randrange(4)
    if kind == 0:
        return " ".join(said[: max(1, place)])
    if kind == 1:
        return " ".join(said[min(len(said) - 1, place + 1) :])
    if kind == 2 or len(set(words) - {said[place]}) == 0:
        return " ".join(said[:place] + said[place + 1 :])
    return " ".join([*said[:place], draw.choice([word for word in words if word != said[place]]), *said[place + 1 :]])


def _sound(comparison: _Comparison, rows: Sequence[Utterance], bundle: Bundle) -> Utterance | NDArray[np.float32]:
    if comparison.other is None:
        return rows[comparison.row]
    rate = bundle.front_end.sample_rate
    own, other = (
        read_audio(row.audio_filepath, sample_rate=rate, offset=row.offset, duration=row.duration)
        for row in (rows[comparison.row], rows[comparison.other])
    )
    room = max(0, round(PIECE_SECONDS * rate) - len(own) - round(comparison.pause * rate))  # longer sound would be cut
    quiet = np.zeros(round(comparison.pause * rate), np.float32)
    parts = (other[-room:] if room else other[:0], quiet, own) if comparison.before else (own, quiet, other[:room])
    return np.concatenate(parts)


def _phrase_files(said: Sequence[tuple[str | None, str]], draw: random.Random) -> dict[str, list[str]]:
    """Sentences by the name of their file: of each source by itself, and of all of them, in several sizes."""
    pools: dict[str, list[str]] = {"all": sorted({text for _, text in said})}
    for source in sorted({source for source, _ in said if source}):
        pools[f"of {source}"] = sorted({text for its, text in said if its == source})
    return {
        f"{size} {name}": draw.sample(pool, min(size, len(pool)))
        for name, pool in pools.items()
        for size in SIZES
        if len(pool) > 1 and (size < 2 * len(pool) or size == SIZES[0])
    }


def _command(sentence: str) -> Command:
    return Command(sentence, {}, sentence)


def _judged(observation: Observation, judge: Judge) -> Trial:
    confidence = judge.confidence(observation.evidence)
    return replace(observation.trial, confidence=confidence * chance_of_speech(confidence, observation.spoken))


def fit(observations: Sequence[Observation], penalty: float = 1.0) -> Judge:
    """Logistic regression. Weights of evidence are never below 0 (but the length's): one that would be is left out."""
    evidence = np.array([each.evidence for each in observations])  # (N, E)
    right = np.array([each.trial.right for each in observations], np.float64)
    kept = list(range(evidence.shape[1]))
    while True:
        bias, weights = logistic_regression(evidence[:, kept], right, penalty=penalty)
        against = [place for place, w in zip(kept, weights, strict=True) if w < 0 and place not in _FREE]
        if not against:
            break
        kept = [place for place in kept if place not in against]
    full = np.zeros(evidence.shape[1])
    full[kept] = weights
    return Judge(bias, tuple(float(w) for w in full), 0.5)
