"""What of a recording is worth decoding, and whether what was decoded from it was said at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.errors import BundleError
from asr.logistic import log_odds
from asr.search.hypothesis import BLANK
from audio.speech import FRAME_SECONDS, LEVEL_RANGE_DB, frame_energies
from audio.vad import MARGIN_SECONDS, find_speech

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.search import Hypothesis

SILENCE = 1e-4  # of full scale (-80 dBFS): below this no recording holds speech
EVIDENCE = ("detector", "heard", "decoder", "blanks", "clearness", "seconds")
LEARNT = 5  # of them, the first ones. Older bundles go by seconds too, which say little of a noise nobody thought of
FACT = "speech"  # where a bundle's facts hold its ear
LEAST = math.log(1e-4)  # a log-probability of blanks: how much rarer than that they are says no more
_MOST = 1e6  # of a weight: a damaged file must not make infinities


@dataclass(frozen=True)
class Speech:
    """The part of a piece of sound that is decoded."""

    start: int  # samples
    end: int
    certainty: float  # 0 … 1, that somebody speaks


@dataclass(frozen=True)
class Ear:
    """A line between words and noise: what is above 0 was said. It belongs to one model."""

    bias: float
    weights: tuple[float, ...]  # one for each of EVIDENCE

    def log_odds(self, evidence: tuple[float, ...] | None) -> float:
        """That a text was said, above 0 where it is likelier than not; None is evidence that it wasn't."""
        if evidence is None:
            return -math.inf
        return self.bias + sum(w * x for w, x in zip(self.weights, evidence, strict=True))

    def hears(self, evidence: tuple[float, ...] | None) -> bool:
        """Whether a text was said."""
        return self.log_odds(evidence) > 0

    def to_dict(self) -> dict[str, float]:
        """As a bundle's facts hold it."""
        return {"bias": self.bias, **dict(zip(EVIDENCE, self.weights, strict=True))}

    @classmethod
    def of(cls, bundle: Bundle) -> Ear:
        """The bundle's own, or UNTAUGHT where its facts hold none. Raises BundleError for nonsense."""
        stated: Any = bundle.facts.get(FACT)
        if stated is None:
            return UNTAUGHT
        try:
            known = {"bias", "detector"} <= set(stated) <= {"bias", *EVIDENCE}
            values = [float(stated["bias"] if known else math.nan), *(float(stated.get(n, 0.0)) for n in EVIDENCE)]
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            values = [math.nan]
        if not all(abs(value) <= _MOST for value in values):
            raise BundleError(
                f"bundle {bundle.name}: facts: {FACT} tells no speech from noise; "
                "run `cepstra bundle calibrate` with --noise"
            )
        return cls(values[0], tuple(values[1:]))


# What an early model that shipped came to on validation rows, roughly: for bundles that were never taught
UNTAUGHT = Ear(-4.7, (1.8, 0.4, 6.5, 0.0, 0.0, -2.9))


def speech_in(samples: NDArray[np.float32], rate: int, *, detect: bool) -> Speech | None:
    """From the first to the last of speech in a piece, or None where there is none; everything, without detection."""
    if not detect:
        return Speech(0, len(samples), 1.0) if np.abs(samples).max(initial=0.0) >= SILENCE else None
    spans, certainty = find_speech(samples, rate)
    return Speech(spans[0][0], spans[-1][1], certainty) if spans else None


def looks_beside(pieces: Sequence[NDArray[np.float32]], rate: int, threads: int) -> bool:
    """Whether a recogniser with so many threads looks for speech in these while it encodes: in a single one that is
    most likely decoded from end to end.
    """
    return threads > 1 and len(pieces) == 1 and sounds_throughout(pieces[0], rate)


def sounds_throughout(samples: NDArray[np.float32], rate: int) -> bool:
    """Whether a piece is about as loud as speech near both its ends, so that most likely all of it will be decoded.

    `speech_in` says it for sure, and takes thirty times as long.
    """
    frame = round(rate * FRAME_SECONDS)
    energies = frame_energies(samples, frame)
    loud = np.flatnonzero(energies > energies.max(initial=0.0) * 10 ** (-LEVEL_RANGE_DB / 10))
    margin = round(MARGIN_SECONDS / FRAME_SECONDS)
    return bool(len(loud)) and loud[0] <= margin and loud[-1] >= len(energies) - margin


def evidence_of_speech(
    hypothesis: Hypothesis, speech: Speech, ctc: NDArray[np.float32], seconds: float
) -> tuple[float, ...] | None:
    """What speaks for a text that was written freely, see EVIDENCE; None where CTC would write nothing at all.

    ctc: (T, V) log-probabilities; seconds: of the sound that was decoded.
    detector: log-odds of speech. heard: logarithm of how much likelier CTC's best path is than silence, in nats.
    decoder: the mean log-probability of its tokens. blanks: CTC's mean log-probability that nothing is said at a
    position, clearness: of what is likeliest there; noise leaves it in doubt. seconds: their logarithm.
    """
    likeliest = ctc.max(axis=1)
    heard = float((likeliest - ctc[:, BLANK]).sum())
    if not hypothesis.tokens or heard <= 0:
        return None
    return (
        log_odds(speech.certainty),
        math.log(heard + 1e-3),
        sum(hypothesis.log_probs) / len(hypothesis.log_probs),
        float(np.maximum(ctc[:, BLANK], LEAST).mean()),
        float(likeliest.mean()),
        math.log(max(0.01, seconds)),
    )
