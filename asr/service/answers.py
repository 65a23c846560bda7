"""Results in the shapes that clients know."""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asr.results import Result, Segment, Word

LANGUAGES = {"en": "english"}  # as OpenAI's verbose_json calls them; others by their code


def plain(result: Result) -> dict[str, Any]:
    """OpenAI's json."""
    return {"text": result.text, "usage": {"type": "duration", "seconds": math.ceil(result.duration)}}


def verbose(result: Result, language: str, granularities: list[str]) -> dict[str, Any]:
    """OpenAI's verbose_json, how sure text and words are, and what is odd about the recording."""
    answer: dict[str, Any] = {
        "task": "transcribe",
        "language": LANGUAGES.get(language, language),
        "duration": round(result.duration, 3),
        "text": result.text,
        "confidence": round(result.confidence, 3),
        "usage": {"type": "duration", "seconds": math.ceil(result.duration)},
        "warnings": list(result.warnings),
    }
    if "word" in granularities:
        answer["words"] = [word.to_dict() for word in result.words]
    if "segment" in granularities:
        answer["segments"] = [
            _segment(number, segment, result.words, nothing=result.no_speech)
            for number, segment in enumerate(result.segments)
        ]
    return answer


def command(result: Result, phrases: str, threshold: float) -> dict[str, Any]:
    """Which command was meant. threshold: the least confidence that makes one."""
    fields = result.to_dict()
    del fields["audio_filepath"], fields["segments"]
    return {"phrases": phrases, "threshold": round(threshold, 3), **fields, "warnings": list(result.warnings)}


def _segment(number: int, segment: Segment, words: tuple[Word, ...], *, nothing: bool) -> dict[str, Any]:
    inside = [word for word in words if segment.start <= word.start < segment.end] or list(words[:1])
    log_probs = [math.log(max(word.confidence, 1e-6)) for word in inside]
    text = segment.text.encode()
    return {
        "id": number,
        "seek": 0,
        **segment.to_dict(),
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": round(sum(log_probs) / max(1, len(log_probs)), 4),
        "compression_ratio": round(len(text) / max(1, len(zlib.compress(text))), 4),
        "no_speech_prob": 1.0 if nothing else 0.0,
    }
