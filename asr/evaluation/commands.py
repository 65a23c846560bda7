"""How well commands are understood: which were right, wrong or refused, and what else was taken for a command."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from asr.commands import command_to_dict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from asr.commands import Meaning, Reason
    from asr.phrases import Command

BINS = 10  # of the calibration error
RATES = (0.001, 0.01, 0.05)  # of false accepts, for which thresholds are named


@dataclass(frozen=True)
class Trial:
    """One recording that was compared with a phrase file."""

    name: str
    group: str
    reference: str  # what was said
    meant: Command | None  # None: what was said is none of the file's sentences
    likeliest: Command | None  # what was found, whether or not it was taken for a command
    confidence: float  # 0 … 1, of that
    accepted: bool  # by the recogniser, at its own threshold
    rejected: Reason | None = None

    @classmethod
    def of(cls, name: str, group: str, reference: str, meant: Command | None, meaning: Meaning) -> Trial:
        """What a recogniser with phrases said of a recording."""
        likeliest = meaning.alternatives[0].command if meaning.alternatives else None
        return cls(
            name, group, reference, meant, meaning.command or likeliest, meaning.confidence,
            meaning.command is not None, meaning.rejected,
        )  # fmt: skip

    @property
    def right(self) -> bool:
        """Whether what was found is the command that was meant: the same intent and the same slots, in any wording."""
        found, meant = self.likeliest, self.meant
        return found is not None and meant is not None and (found.intent, found.slots) == (meant.intent, meant.slots)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "name": self.name,
            "group": self.group,
            "reference": self.reference,
            "meant": None if self.meant is None else command_to_dict(self.meant),
            "likeliest": None if self.likeliest is None else command_to_dict(self.likeliest),
            "confidence": round(self.confidence, 4),
            "accepted": self.accepted,
            "rejected": self.rejected,
        }


@dataclass(frozen=True)
class CommandScore:
    """Many trials added up."""

    name: str
    commands: int  # recordings of a sentence of the file
    understood: int  # of those: accepted, and the one that was meant
    misunderstood: int  # accepted, but another one
    refused: int  # not accepted
    others: int  # recordings of something else
    false_accepts: int  # of those: accepted

    @classmethod
    def of(cls, name: str, trials: Iterable[Trial], threshold: float | None = None) -> CommandScore:
        """Counts at a threshold, or where the recogniser itself accepted."""
        counts = dict.fromkeys(("understood", "misunderstood", "refused", "others", "false_accepts"), 0)
        commands = 0
        for trial in trials:
            accepted = _accepted(trial, threshold)
            commands += trial.meant is not None
            if trial.meant is None:
                counts["others"] += 1
                counts["false_accepts"] += accepted
            else:
                counts["refused" if not accepted else "understood" if trial.right else "misunderstood"] += 1
        return cls(name, commands, **counts)

    @property
    def accuracy(self) -> float | None:
        """Commands that were understood, of all commands; None without any."""
        return self.understood / self.commands if self.commands else None

    @property
    def wrong_rate(self) -> float | None:
        """Commands that were taken for another one, of all commands; None without any."""
        return self.misunderstood / self.commands if self.commands else None

    @property
    def false_reject_rate(self) -> float | None:
        """Commands that were refused, of all commands; None without any."""
        return self.refused / self.commands if self.commands else None

    @property
    def false_accept_rate(self) -> float | None:
        """Other recordings that were taken for a command, of all others; None without any."""
        return self.false_accepts / self.others if self.others else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it, rates included."""
        rates = {
            name: getattr(self, name) for name in ("accuracy", "wrong_rate", "false_reject_rate", "false_accept_rate")
        }
        return {
            "name": self.name,
            "commands": self.commands,
            "understood": self.understood,
            "misunderstood": self.misunderstood,
            "refused": self.refused,
            "others": self.others,
            "false_accepts": self.false_accepts,
            **{name: None if rate is None else round(rate, 6) for name, rate in rates.items()},
        }


@dataclass(frozen=True)
class CommandEvaluation:
    """All trials, by group and in all."""

    trials: tuple[Trial, ...]
    groups: tuple[CommandScore, ...]
    total: CommandScore

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> CommandEvaluation:
        """Groups in alphabetical order."""
        ordered = sorted(trials, key=lambda trial: trial.group)
        groups = tuple(CommandScore.of(name, list(some)) for name, some in groupby(ordered, lambda trial: trial.group))
        return cls(tuple(trials), groups, CommandScore.of("total", trials))

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error over all trials; see `calibration_error`."""
        return calibration_error([trial.confidence for trial in self.trials], [trial.right for trial in self.trials])

    def curve(self) -> list[tuple[float, CommandScore]]:
        """Thresholds at which the counts change, highest first, with those counts; above 1 accepts nothing."""
        seen = {trial.confidence for trial in self.trials if trial.likeliest is not None}
        return [(threshold, self.at(threshold)) for threshold in (math.inf, *sorted(seen, reverse=True))]

    def at(self, threshold: float) -> CommandScore:
        """The counts, had this been the threshold."""
        return CommandScore.of("total", self.trials, threshold)

    def threshold_for(self, rate: float) -> float | None:
        """The lowest confidence that can be asked for with at most this rate of false accepts; None without others.

        0 where even taking everything has no more; just above 1 where others are as sure as can be.
        """
        others = sorted((t.confidence if t.likeliest is not None else -1.0) for t in self.trials if t.meant is None)
        if not others:
            return None
        allowed = int(rate * len(others) + 1e-9)
        if allowed >= len(others):
            return 0.0
        first = others[len(others) - 1 - allowed]  # the surest of those that must be refused
        if first < 0:
            return 0.0
        seen = sorted({trial.confidence for trial in self.trials})
        following = bisect_left(seen, first) + 1
        # Between what must be refused and what comes next
        return (first + seen[following]) / 2 if following < len(seen) else math.nextafter(first, math.inf)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: figures first, then each trial."""
        return {
            "total": self.total.to_dict(),
            "groups": [group.to_dict() for group in self.groups],
            "calibration_error": self.calibration_error,
            "thresholds": {str(rate): self.threshold_for(rate) for rate in RATES},
            "trials": [trial.to_dict() for trial in self.trials],
        }


def calibration_error(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> float | None:
    """Expected calibration error: how far confidences are from the share that was right (Guo et al. 2017, eq. 3).

    Confidences, 0 … 1, fall into bins of equal width; the difference between their mean and the share of right ones
    is weighted by their number. None without any.
    """
    if not confidences:
        return None
    members: dict[int, list[tuple[float, bool]]] = {}
    for confidence, was_right in zip(confidences, right, strict=True):
        members.setdefault(min(bins - 1, int(confidence * bins)), []).append((confidence, was_right))
    gaps = (abs(sum(c for c, _ in some) - sum(r for _, r in some)) for some in members.values())
    return sum(gaps) / len(confidences)


def _accepted(trial: Trial, threshold: float | None) -> bool:
    if threshold is None:
        return trial.accepted
    return trial.likeliest is not None and trial.confidence >= threshold
