"""Many utterances through a recogniser: in batches, timed, going on past what can't be read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from asr.errors import CepstraError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from asr.manifest.records import Utterance
    from asr.results import Result

BATCH = 8  # utterances decoded together; they are of about the same length, so few frames are padding


class Transcriber(Protocol):
    """What turns sound into results: a recogniser, or a stand-in for one."""

    def transcribe(self, sources: list[Utterance], /) -> Sequence[Result]:
        """One result per utterance, in order. Raises CepstraError if one of them can't be read."""
        ...


@dataclass(frozen=True)
class Failure:
    """An utterance that couldn't be transcribed. It is in no score."""

    name: str
    message: str


@dataclass(frozen=True)
class Run:
    """What was measured with what, and how long it took."""

    model: str
    manifests: tuple[str, ...]
    by: str  # what the groups are: source or speaker
    settings: dict[str, Any]  # those that bear on text or speed: beam, threads
    audio_seconds: float  # of sound transcribed
    wall_seconds: float  # in the recogniser, reading and decoding the files included
    failures: tuple[Failure, ...]
    digest: str | None = None  # of the model; None where a stand-in was measured

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of work per second of sound: below 1 is faster than speech. None without sound."""
        return self.wall_seconds / self.audio_seconds if self.audio_seconds else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        factor = self.real_time_factor
        return {
            "model": self.model,
            **({} if self.digest is None else {"digest": self.digest}),
            "manifests": list(self.manifests),
            "by": self.by,
            "settings": self.settings,
            "audio_seconds": round(self.audio_seconds, 3),
            "wall_seconds": round(self.wall_seconds, 3),
            "real_time_factor": None if factor is None else round(factor, 4),
            "failures": [{"name": failure.name, "message": failure.message} for failure in self.failures],
        }


@dataclass(frozen=True)
class Transcripts:
    """Answers to a list of utterances, in its order."""

    answers: tuple[Result | CepstraError, ...]
    wall_seconds: float


def transcribe_all(
    transcriber: Transcriber,
    utterances: Sequence[Utterance],
    *,
    batch: int = BATCH,
    done: Callable[[Utterance, Result | CepstraError], None] = lambda _utterance, _answer: None,
) -> Transcripts:
    """Transcribe everything that can be transcribed; an utterance that can't has its error for an answer.

    done: called with each utterance and its answer as soon as that is there (shortest sound first, since batches are
    made of utterances of about the same length).
    """
    order = sorted(range(len(utterances)), key=lambda index: utterances[index].duration)
    answers: dict[int, Result | CepstraError] = {}
    wall = 0.0
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        began = time.perf_counter()
        found = _batch(transcriber, [utterances[index] for index in chosen])
        wall += time.perf_counter() - began
        for index, answer in zip(chosen, found, strict=True):
            answers[index] = answer
            done(utterances[index], answer)
    return Transcripts(tuple(answers[index] for index in range(len(utterances))), wall)


def _batch(transcriber: Transcriber, utterances: list[Utterance]) -> list[Result | CepstraError]:
    """A batch as one; if that fails, one by one, so that a bad file takes no good one with it."""
    try:
        return list(transcriber.transcribe(utterances))
    except CepstraError as error:
        if len(utterances) == 1:
            return [error]
    return [answer for utterance in utterances for answer in _batch(transcriber, [utterance])]
