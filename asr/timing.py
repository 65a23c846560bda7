"""When each word was said, and how surely: CTC's alignment of the text that the search found."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.commands import SpokenCommand
from asr.results import Result, Segment, Word
from asr.search.ctc import align

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from asr.commands import Meaning
    from asr.search import Hypothesis
    from asr.tokenizer import Tokenizer

PAUSE = 0.6  # seconds without a word that end a segment
LONGEST_SEGMENT = 10.0  # seconds: more than a subtitle should stand
# CTC says a token when enough of it was heard, and is silent again before it ends. These put right the medians against
# forced alignment on training speech, in seconds
LEAD = 0.05
TRAIL = 0.05
CONNECTED = 0.25  # words with less silence than this between CTC's tokens touch, half way


@dataclass(frozen=True)
class Piece:
    """What was said in one piece of sound."""

    words: tuple[Word, ...]  # times from the piece's own start
    confidence: float
    meaning: Meaning | None = None  # where it was held to phrases
    seconds: float = 0.0  # that were decoded
    silent: bool = False  # whether nobody speaks in it

    @classmethod
    def of(
        cls, hypothesis: Hypothesis, ctc: NDArray[np.float32], tokenizer: Tokenizer, position: float, seconds: float
    ) -> Piece:
        """ctc: (T, V) log-probabilities; position: seconds between two of them; seconds: the piece's length."""
        spans = _spans(hypothesis.tokens, ctc, position, seconds)
        words: list[Word] = []
        start_new = True
        log_probs: list[float] = []
        for token, log_prob, (start, end) in zip(hypothesis.tokens, hypothesis.log_probs, spans, strict=False):
            if token == tokenizer.unk_id:
                continue
            text = tokenizer.token(token)
            start_new = start_new or text.startswith("▁")
            text = text.removeprefix("▁")
            if not text:  # a lone word start: the word comes with the next token
                continue
            if start_new:
                log_probs = []
            log_probs.append(log_prob)
            confidence = _mean_probability(log_probs)
            if start_new:
                words.append(Word(text, start, end, confidence))
            else:
                words[-1] = Word(words[-1].word + text, words[-1].start, end, confidence)
            start_new = False
        return cls(_widened(words, seconds), _mean_probability(hypothesis.log_probs), seconds=seconds)


def assemble(name: str | None, seconds: float, pieces: Sequence[tuple[float, Piece]]) -> Result:
    """One result out of a recording's pieces, each with its start in seconds."""
    words = [
        Word(word.word, start + word.start, start + word.end, word.confidence)
        for start, piece in pieces
        for word in piece.words
    ]
    segments: list[list[Word]] = []
    for word in words:
        if (
            not segments
            or word.start - segments[-1][-1].end > PAUSE
            or word.end - segments[-1][0].start > LONGEST_SEGMENT
        ):
            segments.append([])
        segments[-1].append(word)
    meaning = _meaning([piece.meaning for _, piece in pieces if piece.meaning is not None])
    # Pieces count by their words; one without any says only that nothing was said there
    counts = [len(piece.words) for _, piece in pieces]
    weights = counts if any(counts) else [1] * len(counts)
    confidence = sum(w * piece.confidence for w, (_, piece) in zip(weights, pieces, strict=True)) / max(1, sum(weights))
    return Result(
        audio_filepath=name,
        duration=seconds,
        text=" ".join(word.word for word in words),
        confidence=confidence if meaning is None else meaning.certainty,
        words=tuple(words),
        segments=tuple(Segment(s[0].start, s[-1].end, " ".join(word.word for word in s)) for s in segments),
        meaning=meaning,
        commands=tuple(_commands(pieces)),
        no_speech=all(piece.silent for _, piece in pieces),
        seconds_cut=max(0.0, seconds - sum(piece.seconds for _, piece in pieces)),
    )


def _meaning(meanings: Sequence[Meaning]) -> Meaning | None:
    """Of a whole recording: the first command in it; where there is none, why the likeliest piece holds none."""
    commands = [meaning for meaning in meanings if meaning.command is not None]
    if commands or not meanings:
        return commands[0] if commands else None
    return max(meanings, key=lambda meaning: (meaning.rejected != "no-speech", meaning.confidence))


def _commands(pieces: Sequence[tuple[float, Piece]]) -> Iterator[SpokenCommand]:
    """Each piece's own, from its first word to its last."""
    for start, piece in pieces:
        meaning = piece.meaning
        if meaning is not None and meaning.command is not None:
            first, last = (piece.words[0].start, piece.words[-1].end) if piece.words else (0.0, piece.seconds)
            yield SpokenCommand(meaning.command, meaning.confidence, start + first, start + last)


def _mean_probability(log_probs: Sequence[float]) -> float:
    """Geometric mean, 0 … 1: a runtime's rounding may give log-probabilities a little above 0."""
    return min(1.0, math.exp(sum(log_probs) / max(1, len(log_probs))))


def _widened(words: Sequence[Word], seconds: float) -> tuple[Word, ...]:
    """The words with CTC's lead and trail put right; they stay in order, apart, and within the piece."""
    starts = [max(0.0, word.start - LEAD) for word in words]
    ends = [min(seconds, word.end + TRAIL) for word in words]
    for i, (before, after) in enumerate(itertools.pairwise(words)):
        if after.start - before.end <= CONNECTED:
            starts[i + 1] = ends[i] = (before.end + after.start) / 2
    return tuple(
        Word(word.word, start, end, word.confidence) for word, start, end in zip(words, starts, ends, strict=True)
    )


def _spans(
    tokens: tuple[int, ...], ctc: NDArray[np.float32], position: float, seconds: float
) -> list[tuple[float, float]]:
    """Start and end of each token in seconds; evenly spread where CTC has no room for the text."""
    found = align(ctc, tokens)
    if found is None:
        width = seconds / max(1, len(tokens))
        return [(i * width, (i + 1) * width) for i in range(len(tokens))]
    return [(min(seconds, first * position), min(seconds, (last + 1) * position)) for first, last in found[0]]
