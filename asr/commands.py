"""From what a search held to phrases has found to the one command that was meant, or to none.

A search in a graph always finds something. Whether that was said is told by two things that the graph doesn't bend: the
decoder's own wish at each token, and the path that CTC likes best of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from asr.errors import BundleError
from asr.search.ctc import align

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.phrases import Command, PhraseSet
    from asr.search import Hypothesis
    from asr.tokenizer import Tokenizer

Reason: TypeAlias = Literal["no-speech", "unknown-command", "too-short"]
EVIDENCE = ("ctc", "ctc_worst", "decoder", "decoder_worst")
LEAST = -20.0  # nats: how bad any evidence may be; worse says nothing more


@dataclass(frozen=True)
class Judge:
    """A logistic regression: evidence to the probability that a command was meant."""

    bias: float
    weights: tuple[float, ...]  # one for each of EVIDENCE
    threshold: float  # a confidence below this is no command

    def confidence(self, evidence: Sequence[float]) -> float:
        """0 … 1."""
        value = self.bias + sum(w * x for w, x in zip(self.weights, evidence, strict=True))
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, value))))

    def to_dict(self) -> dict[str, Any]:
        """As a bundle's facts hold it."""
        return {"bias": self.bias, **dict(zip(EVIDENCE, self.weights, strict=True)), "threshold": self.threshold}

    @classmethod
    def of(cls, bundle: Bundle) -> Judge:
        """The bundle's own, or UNCALIBRATED where its facts hold none. Raises BundleError for nonsense."""
        stated = bundle.facts.get("commands")
        if stated is None:
            return UNCALIBRATED
        try:
            values = [float(stated[name]) for name in ("bias", *EVIDENCE, "threshold")]
        except (KeyError, TypeError, ValueError):
            raise BundleError(
                f"bundle {bundle.name}: facts: commands holds no calibration; calibrate the bundle again"
            ) from None
        if not all(map(math.isfinite, values)):
            raise BundleError(
                f"bundle {bundle.name}: facts: commands holds numbers that are not finite; calibrate the bundle again"
            )
        return cls(values[0], tuple(values[1:-1]), values[-1])


UNCALIBRATED = Judge(3.0, (1.0, 0.2, 0.5, 0.2), 0.5)  # a guess, for bundles that were never calibrated


@dataclass(frozen=True)
class Alternative:
    """A command that may have been meant, and how surely it was."""

    command: Command
    confidence: float  # 0 … 1

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

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "command": None if self.command is None else command_to_dict(self.command),
            "rejected": self.rejected,
            "alternatives": [alternative.to_dict() for alternative in self.alternatives],
        }


def command_to_dict(command: Command) -> dict[str, Any]:
    """As JSON holds it."""
    return {"intent": command.intent, "slots": command.slots, "sentence": command.sentence}


def understand(
    hypotheses: Sequence[Hypothesis], ctc: NDArray[np.float32], phrases: PhraseSet, tokenizer: Tokenizer, judge: Judge
) -> tuple[Meaning, Hypothesis | None]:
    """What was meant, and the hypothesis that says so (None where it is no command).

    hypotheses: of a search held to the phrases' graph, best first. ctc: (T, V) log-probabilities of the same sound.
    """
    found: dict[tuple[str, str], tuple[Alternative, Hypothesis]] = {}
    for hypothesis in hypotheses:
        command = phrases.command(tokenizer.decode(hypothesis.tokens))
        if command is None:  # it was found in the graph, so this is a fault of the graph: say nothing rather
            continue
        key = command.intent, repr(sorted(command.slots.items()))
        if key not in found:
            confidence = judge.confidence(evidence(hypothesis, ctc))
            found[key] = Alternative(command, confidence), hypothesis
    if not found:
        return Meaning(None, 0.0, (), "too-short"), None
    # The search's own order, since that is what the sound says of one against the other
    alternatives = tuple(alternative for alternative, _ in found.values())
    best, hypothesis = next(iter(found.values()))
    if best.confidence < judge.threshold:
        return Meaning(None, best.confidence, alternatives, "unknown-command"), None
    return Meaning(best.command, best.confidence, alternatives), hypothesis


def evidence(hypothesis: Hypothesis, ctc: NDArray[np.float32]) -> tuple[float, ...]:
    """How far what was found is from what was heard, in nats, each 0 at best and LEAST at worst; see EVIDENCE.

    ctc: how much less likely its best alignment is than CTC's best path, per token; ctc_worst: in all, in its worst
    half second.
    decoder: the mean of how far each token is below the decoder's own wish; decoder_worst: of the worst token.
    """
    aligned = align(ctc, hypothesis.tokens)
    deviations = hypothesis.deviations or (0.0,)
    decoder, decoder_worst = sum(deviations) / len(deviations), min(deviations)
    if aligned is None:
        return LEAST, LEAST, max(LEAST, decoder), max(LEAST, decoder_worst)
    spans, total = aligned
    best = ctc.max(axis=1).astype(np.float64)
    lost = np.maximum(0.0, best - _along(ctc, hypothesis.tokens, spans))  # of each position
    width = min(len(lost), 16)
    worst = np.convolve(lost, np.ones(width), "valid").max()
    whole = (total - best.sum()) / max(1, len(hypothesis.tokens))
    return max(LEAST, whole), max(LEAST, -float(worst)), max(LEAST, decoder), max(LEAST, decoder_worst)


def _along(ctc: NDArray[np.float32], tokens: tuple[int, ...], spans: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Log-probability of each position on the alignment: of its token within a span, of blank between. (T,)"""
    along = ctc[:, 0].astype(np.float64)
    for token, (first, last) in zip(tokens, spans, strict=True):
        along[first : last + 1] = ctc[first : last + 1, token]
    return along
