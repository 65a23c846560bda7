"""What rounding the weights costs: error rates of the float32 bundle and of the one to be written, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asr.errors import CepstraError, ManifestError
from asr.evaluation.bootstrap import rate_interval
from asr.evaluation.run import transcribe_all
from asr.evaluation.scoring import score
from asr.manifest import read_manifest
from asr.manifest.sounds import check_sounds
from asr.recognizer import Recognizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from asr.bundle import Bundle
    from asr.evaluation.alignment import Counts
    from asr.manifest.records import Utterance

BEAMS = (1, 4)
MAX_WER_LOSS = 0.3  # points of word error rate
NOT_MEASURED = "not measured"


class LossError(CepstraError):
    """Rounding the weights costs more than it may."""


@dataclass(frozen=True)
class Loss:
    """Word error rates of one search over the same utterances."""

    beam: int
    float32: float
    written: float  # of what is, or was to be, written
    utterances: int
    # Of the difference, in points, 95 %, by drawing utterances again (both of a pair)
    interval: tuple[float, float] | None = None

    @property
    def search(self) -> str:
        """What the search is called."""
        return "greedy" if self.beam == 1 else f"beam {self.beam}"

    @property
    def points(self) -> float:
        """By how much more of a hundred words are wrong."""
        return 100 * (self.written - self.float32)

    def told(self, precision: str) -> str:
        """For a person."""
        rates = f"{self.search} {100 * self.float32:.2f} % in float32, {100 * self.written:.2f} % in {precision}"
        return (
            rates if self.interval is None else f"{rates} ({self.interval[0]:+.2f} to {self.interval[1]:+.2f} points)"
        )


def read_development(manifests: Sequence[Path]) -> list[Utterance]:
    """Everything in the manifests.

    Raises ManifestError for one that can't be read or holds nothing to count, and where sound isn't there.
    """
    utterances: list[Utterance] = []
    for path in manifests:
        rows = read_manifest(path)
        if not any(row.text.split() for row in rows):
            raise ManifestError(f"{path}: holds no text; error rates need recordings with their words")
        check_sounds(path, rows)
        utterances += rows
    return utterances


def measure_loss(
    reference: Bundle, written: Bundle, utterances: Sequence[Utterance], stage: Callable[[str], None]
) -> list[Loss]:
    """Both bundles over the same recordings, greedily and with a beam of 4; stage is told what begins.

    Raises CepstraError where a recording can't be transcribed: it would be in no figure; ManifestError without words.
    """
    losses = []
    for beam in BEAMS:
        counts = []
        for bundle in (reference, written):
            stage(f"error rate in {bundle.precision}, beam {beam}")
            counts.append(_word_errors(bundle, beam, utterances))
        before, after = ([each.errors for each in of_bundle] for of_bundle in counts)
        lengths = [each.reference for each in counts[0]]
        total = sum(lengths)
        if not total:
            raise ManifestError("the manifests hold no word: there is no error rate to compare")
        more = rate_interval([b - a for a, b in zip(before, after, strict=True)], lengths)
        interval = None if more is None else (100 * more[0], 100 * more[1])
        losses.append(Loss(beam, sum(before) / total, sum(after) / total, len(utterances), interval))
    return losses


def as_fact(losses: Sequence[Loss]) -> dict[str, Any] | str:
    """For a bundle's facts."""
    if not losses:
        return NOT_MEASURED
    rates = {loss.search: {"float32": round(loss.float32, 6), "written": round(loss.written, 6)} for loss in losses}
    return {"utterances": losses[0].utterances, **rates}


def _word_errors(bundle: Bundle, beam: int, utterances: Sequence[Utterance]) -> list[Counts]:
    texts = []
    for answer in transcribe_all(Recognizer(bundle, beam=beam), utterances).answers:
        if isinstance(answer, CepstraError):
            raise CepstraError(f"{answer}; mend or leave out that row: every one is to be in both error rates")
        texts.append(answer.text)
    said = [utterance.text for utterance in utterances]
    return [each.words for each in score(said, texts, language=bundle.language, resamples=0).utterances]
