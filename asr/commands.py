"""From what a search held to phrases has found to the one command that was meant, or to none."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from asr.judge import LEAD, evidence
from asr.logistic import log_odds, probability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.judge import Judge, Witness
    from asr.phrases import Command, PhraseSet
    from asr.search import Hypothesis
    from asr.tokenizer import Tokenizer

Reason: TypeAlias = Literal["no-speech", "unknown-command", "too-short"]
MOST = 5  # alternatives


@dataclass(frozen=True)
class Alternative:
    """A command that may have been meant, and how surely it was."""

    command: Command
    confidence: float  # 0 … 1
    evidence: tuple[float, ...] = ()  # that the confidence comes from, as asr.judge.EVIDENCE names it
    spoken: float = math.inf  # log-odds that anything was said at all, which the confidence comes from too

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {**command_to_dict(self.command), "confidence": round(self.confidence, 3)}


@dataclass(frozen=True)
class Meaning:
    """What one utterance meant among the phrases that it was compared with."""

    command: Command | None  # None: no command was meant
    confidence: float  # 0 … 1, that the likeliest command was meant
    alternatives: tuple[Alternative, ...] = ()  # likeliest first; commands that differ in intent or slots
    rejected: Reason | None = None  # why there is no command

    @property
    def certainty(self) -> float:
        """0 … 1, how sure the answer is: that its command was meant, or that none was, where it says so."""
        if self.command is not None:
            return self.confidence
        return max(0.0, 1.0 - max(self.confidence, sum(other.confidence for other in self.alternatives)))

    def where_spoken(self, spoken: float, threshold: float) -> Meaning:
        """The same, told how likely it is that anything was said at all: log-odds, infinite where that is sure.

        threshold: the least confidence that makes a command.
        """
        chance = chance_of_speech(self.confidence, spoken)
        alternatives = tuple(
            replace(other, confidence=other.confidence * chance, spoken=spoken) for other in self.alternatives
        )
        confidence = self.confidence * chance
        if self.command is None or confidence >= threshold:
            return replace(self, confidence=confidence, alternatives=alternatives)
        return Meaning(None, confidence, alternatives, "no-speech" if chance < 0.5 else "unknown-command")

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "command": None if self.command is None else command_to_dict(self.command),
            "rejected": self.rejected,
            "alternatives": [alternative.to_dict() for alternative in self.alternatives],
        }


@dataclass(frozen=True)
class SpokenCommand:
    """One of the commands in a recording, and when it was said."""

    command: Command
    confidence: float  # 0 … 1, that it was meant
    start: float  # seconds from the beginning of the recording
    end: float  # seconds; start <= end

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: times and confidence with three decimals."""
        numbers = {"confidence": self.confidence, "start": self.start, "end": self.end}
        return {**command_to_dict(self.command), **{name: round(float(value), 3) for name, value in numbers.items()}}


def chance_of_speech(confidence: float, spoken: float) -> float:
    """0 … 1, that anything was said, where a command is this likely by other evidence: the log-odds of both added."""
    return probability(log_odds(confidence) + spoken)


def command_to_dict(command: Command) -> dict[str, Any]:
    """As JSON holds it."""
    return {"intent": command.intent, "slots": command.slots, "sentence": command.sentence}


def understand(
    hypotheses: Sequence[Hypothesis], witness: Witness, phrases: PhraseSet, tokenizer: Tokenizer, judge: Judge
) -> tuple[Meaning, Hypothesis | None]:
    """What was meant, and the hypothesis that it was taken from; None where the graph has nothing for this sound.

    hypotheses: of a search held to the phrases' graph, best first. witness: of the same sound.
    """
    found: dict[tuple[str, str], tuple[Command, Hypothesis]] = {}
    for hypothesis in hypotheses:
        command = phrases.command(tokenizer.decode(hypothesis.tokens))
        if command is None:  # it was found in the graph, so this is a fault of the graph: say nothing rather
            continue
        found.setdefault((command.intent, repr(sorted(command.slots.items()))), (command, hypothesis))
        if len(found) == MOST:
            break
    if not found:
        return Meaning(None, 0.0, (), "too-short"), None
    # The search's own order, since that is what the sound says of one against the other
    ranked = list(found.values())
    scores = [hypothesis.score for _, hypothesis in ranked]
    alternatives: list[Alternative] = []
    most, left = 1.0, 1.0  # only one command was meant: together they are no surer than that
    for place, (command, hypothesis) in enumerate(ranked):
        others = scores[:place] + scores[place + 1 :]
        lead = hypothesis.score - max(others) if others else LEAD
        weighed = evidence(hypothesis, lead, witness)
        most = min(judge.confidence(weighed), most, left)
        left -= most
        alternatives.append(Alternative(command, most, weighed))
    best, (_, hypothesis) = alternatives[0], ranked[0]
    if best.confidence < judge.threshold:
        return Meaning(None, best.confidence, tuple(alternatives), "unknown-command"), hypothesis
    return Meaning(best.command, best.confidence, tuple(alternatives)), hypothesis
