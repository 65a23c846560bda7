"""How sure it is that a command was meant: evidence from sound and search, and what it is worth.

A search in a graph always finds something. Whether that was said is told by what the graph doesn't bend: the decoder's
own wish at each token, what CTC would write by itself, and how far behind the next command is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.errors import BundleError
from asr.logistic import probability
from asr.search.ctc import align, best_path, log_probability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.search import Hypothesis

EVIDENCE = ("ctc", "ctc_worst", "ctc_text", "outside", "decoder", "decoder_worst", "lead", "length")
LEAST = -20.0  # nats: how bad any evidence may be; worse says nothing more
_MOST = 1e6  # of a weight: a damaged file must not make infinities
LEAD = 3.0  # how far ahead of the next command the best one can be: more says nothing more


@dataclass(frozen=True)
class Judge:
    """A logistic regression: evidence to the probability that a command was meant."""

    bias: float
    weights: tuple[float, ...]  # one for each of EVIDENCE
    threshold: float  # a confidence below this is no command

    def confidence(self, evidence: Sequence[float]) -> float:
        """0 … 1."""
        return probability(self.bias + sum(w * x for w, x in zip(self.weights, evidence, strict=True)))

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
        except (KeyError, TypeError, ValueError, OverflowError):
            raise BundleError(
                f"bundle {bundle.name}: facts: commands holds no calibration; run `cepstra bundle calibrate`"
            ) from None
        if not (all(abs(value) <= _MOST for value in values) and 0 <= values[-1] <= 1):
            raise BundleError(
                f"bundle {bundle.name}: facts: commands holds numbers that make no sense; "
                "run `cepstra bundle calibrate`"
            )
        return cls(values[0], tuple(values[1:-1]), values[-1])


# What the first model that shipped came to on validation rows, roughly: for bundles that were never calibrated
UNCALIBRATED = Judge(1.5, (0.9, 0.03, 1.0, 0.3, 1.7, 0.15, 1.2, 1.9), 0.7)


@dataclass(frozen=True)
class Witness:
    """What CTC says of an utterance, whatever may be said."""

    ctc: NDArray[np.float32]  # (T, V) log-probabilities
    best: tuple[int, ...]  # tokens of its best path
    text: float  # log-probability of these tokens

    @classmethod
    def of(cls, ctc: NDArray[np.float32]) -> Witness:
        """ctc: (T, V) log-probabilities."""
        best = best_path(ctc)
        return cls(ctc, best, log_probability(ctc, best))


def evidence(hypothesis: Hypothesis, lead: float, witness: Witness) -> tuple[float, ...]:
    """How far what was found is from what was heard, in nats, each at least LEAST and 0 at best; see EVIDENCE.

    ctc: how much less likely its best alignment is than CTC's best path, per token; ctc_worst: in all, in its worst
    half second; ctc_text: how much less likely the text is than that of the best path, per token; outside: how much
    likelier than silence what CTC would write before the first and after the last token is, in all.
    decoder: the mean of how far each token is below the decoder's own wish; decoder_worst: of the worst token.
    lead, -LEAD … LEAD: by how much its score is above that of the best other command. length: the logarithm of the
    number of its tokens, above 0.
    """
    count = max(1, len(hypothesis.tokens))
    deviations = hypothesis.deviations or (0.0,)
    decoder, decoder_worst = sum(deviations) / len(deviations), min(deviations)
    text = LEAST if hypothesis.ctc is None else (hypothesis.ctc - witness.text) / count
    whole, worst, outside = _aligned(hypothesis.tokens, witness.ctc)
    below = (min(0.0, max(LEAST, value)) for value in (whole, worst, text, outside, decoder, decoder_worst))
    return (*below, max(-LEAD, min(LEAD, lead)), math.log(count))


def _aligned(tokens: tuple[int, ...], ctc: NDArray[np.float32]) -> tuple[float, float, float]:
    """What the best alignment loses against the best path: per token; in its worst half second; outside the tokens."""
    aligned = align(ctc, tokens)
    if aligned is None:
        return LEAST, LEAST, LEAST
    spans, total = aligned
    best = ctc.max(axis=1).astype(np.float64)
    lost = np.maximum(0.0, best - _along(ctc, tokens, spans))  # of each position
    width = min(len(lost), 16)
    worst = np.convolve(lost, np.ones(width), "valid").max()
    outside = lost[: spans[0][0]].sum() + lost[spans[-1][1] + 1 :].sum()
    return (total - best.sum()) / max(1, len(tokens)), -float(worst), -float(outside)


def _along(ctc: NDArray[np.float32], tokens: tuple[int, ...], spans: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Log-probability of each position on the alignment: of its token within a span, of blank between. (T,)"""
    along = ctc[:, 0].astype(np.float64)
    for token, (first, last) in zip(tokens, spans, strict=True):
        along[first : last + 1] = ctc[first : last + 1, token]
    return along
