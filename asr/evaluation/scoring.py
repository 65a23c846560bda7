"""Hypotheses against references: rates over everything and by group, confusions, the worst utterances."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asr.evaluation.alignment import Counts, Kind, Step, align, count
from asr.evaluation.bootstrap import rate_interval
from asr.text import normalise

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class UtteranceScore:
    """One utterance: what was said, what was heard, and how they differ. Both texts are normalised."""

    name: str  # which recording
    group: str
    reference: str
    hypothesis: str
    words: Counts
    characters: Counts
    seconds: float  # of sound; 0 where unknown

    @property
    def alignment(self) -> tuple[Step, ...]:
        """Word beside word; found again on each call, since few utterances are ever looked at."""
        return align(self.reference.split(), self.hypothesis.split())

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it, without the alignment."""
        return {
            "name": self.name,
            "group": self.group,
            "seconds": round(self.seconds, 3),
            "reference": self.reference,
            "hypothesis": self.hypothesis,
            "words": self.words.to_dict(),
            "characters": self.characters.to_dict(),
        }


@dataclass(frozen=True)
class GroupScore:
    """Many utterances added up."""

    name: str
    utterances: int
    wrong: int  # utterances with at least one word error
    words: Counts
    characters: Counts  # blanks between words included
    seconds: float  # of sound
    interval: tuple[float, float] | None  # 95 % confidence interval of the word error rate, by bootstrap

    @property
    def wer(self) -> float | None:
        """Word error rate; None without a reference word."""
        return self.words.rate

    @property
    def cer(self) -> float | None:
        """Character error rate; None without a reference character."""
        return self.characters.rate

    @property
    def ser(self) -> float | None:
        """Sentence error rate: the share of utterances that aren't right to the word; None without any."""
        return self.wrong / self.utterances if self.utterances else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "name": self.name,
            "utterances": self.utterances,
            "seconds": round(self.seconds, 3),
            "wer": _rounded(self.wer),
            "wer_interval": None if self.interval is None else [_rounded(bound) for bound in self.interval],
            "cer": _rounded(self.cer),
            "sentence_error_rate": _rounded(self.ser),
            "sentences_wrong": self.wrong,
            "words": self.words.to_dict(),
            "characters": self.characters.to_dict(),
        }


@dataclass(frozen=True)
class Confusion:
    """A word that became another, vanished (hypothesis None) or came from nowhere (reference None), and how often."""

    kind: Kind
    reference: str | None
    hypothesis: str | None
    count: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "kind": self.kind,
            "reference": self.reference,
            "hypothesis": self.hypothesis,
            "count": self.count,
        }


@dataclass(frozen=True)
class Evaluation:
    """All that a comparison of texts can tell."""

    total: GroupScore
    groups: tuple[GroupScore, ...]  # by name
    confusions: tuple[Confusion, ...]  # most frequent first
    utterances: tuple[UtteranceScore, ...]  # in the order given

    def worst(self, n: int = 20) -> list[UtteranceScore]:
        """The n utterances that cost most: by errors, then by rate; only ones with errors."""
        wrong = [utterance for utterance in self.utterances if utterance.words.errors]
        # without a reference word any insertion is infinitely wrong
        wrong.sort(key=lambda each: (-each.words.errors, each.words.reference))
        return wrong[:n]

    def to_dict(self, *, worst: int = 20) -> dict[str, Any]:
        """As JSON holds it, with the alignments of the `worst` utterances."""
        return {
            "total": self.total.to_dict(),
            "groups": [group.to_dict() for group in self.groups],
            "confusions": [confusion.to_dict() for confusion in self.confusions],
            "worst": [
                {
                    "name": utterance.name,
                    "alignment": [
                        {"kind": step.kind, "reference": step.reference, "hypothesis": step.hypothesis}
                        for step in utterance.alignment
                    ],
                }
                for utterance in self.worst(worst)
            ],
            "utterances": [utterance.to_dict() for utterance in self.utterances],
        }


def score(
    references: Sequence[str],
    hypotheses: Sequence[str],
    *,
    names: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    seconds: Sequence[float] | None = None,
    language: str = "en",
    resamples: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Compare what was heard with what was said; both are normalised first, by the one normaliser.

    references, hypotheses and, where given, names, groups and seconds: one entry per utterance, else ValueError.
    resamples: draws of the bootstrap; 0 leaves the confidence intervals out.
    An empty reference adds its insertions and no words; a rate without any reference word is None.
    """
    n = len(references)
    names = [str(number) for number in range(1, n + 1)] if names is None else names
    groups = ["all"] * n if groups is None else groups
    seconds = [0.0] * n if seconds is None else seconds
    if {len(hypotheses), len(names), len(groups), len(seconds)} - {n}:
        given = f"{len(hypotheses)} hypotheses, {len(names)} names, {len(groups)} groups, {len(seconds)} seconds"
        raise ValueError(f"{n} references need as many of everything; given {given}")
    utterances = tuple(
        _compare(name, group, normalise(said, language), normalise(heard, language), length)
        for name, group, said, heard, length in zip(names, groups, references, hypotheses, seconds, strict=True)
    )
    members: dict[str, list[UtteranceScore]] = {}
    for utterance in utterances:
        members.setdefault(utterance.group, []).append(utterance)
    return Evaluation(
        total=_sum("total", utterances, resamples, seed),
        groups=tuple(_sum(name, members[name], resamples, seed) for name in sorted(members)),
        confusions=_confusions(utterances),
        utterances=utterances,
    )


def _compare(name: str, group: str, reference: str, hypothesis: str, seconds: float) -> UtteranceScore:
    words = count(reference.split(), hypothesis.split())
    return UtteranceScore(name, group, reference, hypothesis, words, count(reference, hypothesis), seconds)


def _sum(name: str, utterances: Sequence[UtteranceScore], resamples: int, seed: int) -> GroupScore:
    errors = [utterance.words.errors for utterance in utterances]
    lengths = [utterance.words.reference for utterance in utterances]
    return GroupScore(
        name=name,
        utterances=len(utterances),
        wrong=sum(wrong > 0 for wrong in errors),
        words=sum((utterance.words for utterance in utterances), Counts()),
        characters=sum((utterance.characters for utterance in utterances), Counts()),
        seconds=sum(utterance.seconds for utterance in utterances),
        interval=rate_interval(errors, lengths, resamples=resamples, seed=seed),
    )


def _confusions(utterances: Sequence[UtteranceScore]) -> tuple[Confusion, ...]:
    """Counted over all utterances; equally frequent ones by their words, so that two runs give the same list."""
    steps = Counter(step for each in utterances if each.words.errors for step in each.alignment if step.kind != "equal")
    order = sorted(steps.items(), key=lambda item: (-item[1], item[0].reference or "", item[0].hypothesis or ""))
    return tuple(Confusion(step.kind, step.reference, step.hypothesis, number) for step, number in order)


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 6)
