"""What came of it: commands in voices that nobody learnt from, by a model held to the phrase file."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.bundle import read_bundle
from asr.evaluation.commands import CommandEvaluation, Trial
from asr.evaluation.run import Run
from asr.evaluation.scoring import score
from asr.manifest import read_manifest
from asr.recognizer import DEFAULT_BUNDLE, Recognizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from asr.bundle import Bundle
    from asr.manifest import Utterance
    from asr.phrases import PhraseSet

BATCH = 16
CLIP_SECONDS = 2.0
TIMES = 15
_NAME = "phrases"


@dataclass(frozen=True)
class Figures:
    """Of one model."""

    commands: CommandEvaluation  # held to the phrase file
    run: Run
    wer_commands: float | None  # of the phrase file's sentences, in free text
    wer_others: float | None  # of everything else
    milliseconds: float  # for a clip of CLIP_SECONDS, held to the phrase file
    megabytes: float  # of the bundle's graphs

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "commands": self.commands.to_dict(),
            "wer_commands": self.wer_commands,
            "wer_others": self.wer_others,
            "milliseconds": round(self.milliseconds, 1),
            "megabytes": round(self.megabytes, 2),
        }


def measure(
    bundle: Bundle | None, phrases: PhraseSet, manifests: Sequence[Path], progress: Callable[[int, int], None]
) -> Figures:
    """Over all recordings of the manifests; None is the model that ships."""
    rows = [row for manifest in manifests for row in read_manifest(manifest)]
    bundle = read_bundle(DEFAULT_BUNDLE) if bundle is None else bundle
    recognizer = Recognizer(bundle, phrases={_NAME: phrases})
    trials: list[Trial] = []
    texts: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    rows.sort(key=lambda row: row.duration)
    wall = 0.0
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        began = time.perf_counter()
        held = recognizer.transcribe(part, phrases=_NAME)
        wall += time.perf_counter() - began
        free = recognizer.transcribe(part)
        for row, command, text in zip(part, held, free, strict=True):
            meant = phrases.command(row.text)
            texts[meant is not None].append((row.text, text.text))
            if command.meaning is not None:
                trials.append(Trial.of(str(row.audio_filepath), _group(row), row.text, meant, command.meaning))
        progress(start + len(part), len(rows))
    heard = Run(
        bundle.name, tuple(map(str, manifests)), "source", {"threads": 2, "phrases": phrases.name},
        sum(row.duration for row in rows), wall, (),
    )  # fmt: skip
    return Figures(
        CommandEvaluation.of(trials),
        heard,
        _wer(texts[True]),
        _wer(texts[False]),
        _milliseconds(recognizer, rows),
        (len(bundle.encoder) + len(bundle.decoder)) / 1e6,
    )


def _group(row: Utterance) -> str:
    return row.source or "recordings"


def _wer(texts: list[tuple[str, str]]) -> float | None:
    if not texts:
        return None
    return score([reference for reference, _ in texts], [hypothesis for _, hypothesis in texts]).total.wer


def _milliseconds(recognizer: Recognizer, rows: Sequence[Utterance]) -> float:
    """The median over some clips of speech, each brought to the same duration."""
    from audio.reading import read_audio  # noqa: PLC0415

    rate = recognizer.bundle.front_end.sample_rate
    longest = [row for row in rows if row.duration >= 1][-TIMES:] or list(rows[-TIMES:])
    times = []
    for row in [longest[0], *longest]:
        sound = read_audio(row.audio_filepath, sample_rate=rate, offset=row.offset, duration=row.duration)
        clip = np.resize(sound, round(CLIP_SECONDS * rate))
        start = time.perf_counter()
        recognizer.transcribe(clip, phrases=_NAME)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times[1:])
