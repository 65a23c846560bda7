"""What of a recording is worth decoding, and whether what was decoded from it was said at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from asr.search.hypothesis import BLANK
from audio.vad import find_speech

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.timing import Piece

SILENCE = 1e-4  # of full scale (-80 dBFS): below this no recording holds speech
# Noise gives the detector a moment's doubt, the decoder an unsure text or CTC something to write; rarely all of them as
# little doubt as a word does. Chosen on development recordings and on noise, for the model that ships
CONFIDENCE_WEIGHT = 1.0
HEARD_WEIGHT = 0.1  # per nat
MOST_HEARD = 40.0  # nats: more says nothing more
LEAST_LOG_ODDS = 5.0


@dataclass(frozen=True)
class Speech:
    """The part of a piece of sound that is decoded."""

    start: int  # samples
    end: int
    certainty: float  # 0 … 1, that somebody speaks


def speech_in(samples: NDArray[np.float32], rate: int, *, detect: bool) -> Speech | None:
    """From the first to the last of speech in a piece, or None where there is none; everything, without detection."""
    if not detect:
        return Speech(0, len(samples), 1.0) if np.abs(samples).max(initial=0.0) >= SILENCE else None
    spans, certainty = find_speech(samples, rate)
    return Speech(spans[0][0], spans[-1][1], certainty) if spans else None


def is_said(piece: Piece, speech: Speech, ctc: NDArray[np.float32]) -> bool:
    """Whether a text that was written freely is one, by what detector, decoder and CTC say; no words are none.

    ctc: (T, V) log-probabilities. Where CTC would write nothing at all, nothing was said.
    """
    heard = float((ctc.max(axis=1) - ctc[:, BLANK]).sum())  # nats: how much likelier its best path is than silence
    if not piece.words or heard <= 0:
        return False
    evidence = _log_odds(speech.certainty) + CONFIDENCE_WEIGHT * _log_odds(piece.confidence)
    return evidence + HEARD_WEIGHT * min(heard, MOST_HEARD) >= LEAST_LOG_ODDS


def _log_odds(probability: float) -> float:
    p = min(1 - 1e-4, max(1e-4, probability))
    return math.log(p / (1 - p))
