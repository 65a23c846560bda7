"""What a person wants to know of a bundle first, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

MEGABYTE = 1_000_000


def summary(facts: Mapping[str, Any]) -> Iterator[str]:
    """Lines about what `described` says of a bundle. What lies in its own facts may be anything, or missing."""
    sizes, sound = facts["bytes"], facts["front_end"]
    yield f"name: {shown(facts['name'])}"
    yield f"language: {shown(facts['language'])}"
    parts = ", ".join(f"{part} {_megabytes(sizes[part])}" for part in ("encoder", "decoder"))
    yield f"size: {_megabytes(sizes['file'])} with {shown(facts['precision'])} weights ({parts})"
    yield f"vocabulary: {facts['vocabulary']} pieces of words"
    frame, hop = (1000 * sound[key] / sound["sample_rate"] for key in ("frame", "hop"))
    yield (
        f"sound: {sound['sample_rate']} Hz, frames of {shown(frame)} ms every {shown(hop)} ms, "
        f"{sound['n_cepstra']} cepstra"
    )
    yield f"training: {_training(facts.get('training'))}"
    for key in ("licence", "note"):
        if facts.get(key) or key == "licence":
            yield f"{key}: {shown(facts.get(key, 'not noted'))}"
    yield from _error_rates(facts.get("error_rates"))
    yield f"calibrated for: {_calibrated(facts)}"


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.1f} MB" if size >= MEGABYTE / 10 else f"{size / 1000:.0f} kB"


def _training(training: object) -> str:
    if not isinstance(training, Mapping):
        return "not noted"
    found = []
    if _is_number(hours := training.get("hours_of_data")):
        found.append(f"{hours:.1f} hours of data")
    if isinstance(sources := training.get("sources"), list) and sources:
        found.append(shown(sources))
    return ": ".join(found) or "data not noted"


def _error_rates(rates: object) -> Iterator[str]:
    """A line for each setting of the search, the best set first."""
    found = False
    for setting, sets in rates.items() if isinstance(rates, Mapping) else ():
        wers = {
            name: figures["wer"]
            for name, figures in (sets.items() if isinstance(sets, Mapping) else ())
            if isinstance(figures, Mapping) and _is_number(figures.get("wer"))
        }
        if wers:
            found = True
            best_first = sorted(wers, key=wers.__getitem__)
            yield f"WER, {shown(setting)}: " + ", ".join(f"{shown(name)} {percent(wers[name])}" for name in best_first)
    if not found:
        yield "WER: not noted; see `cepstra bundle describe --evaluation`"


def _calibrated(facts: Mapping[str, Any]) -> str:
    from asr.hearing import FACT

    found = []
    if isinstance(judge := facts.get("commands"), Mapping):
        threshold = judge.get("threshold")
        found.append(f"commands (threshold {threshold:.2f})" if _is_number(threshold) else "commands")
    if facts.get(FACT):
        found.append("speech or noise")
    return ", ".join(found) or "nothing; see `cepstra bundle calibrate`"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def percent(rate: object, digits: int = 1) -> str:
    """A rate of 0 to 1 as a percentage, as far as it is one."""
    return f"{100 * rate:.{digits}f} %" if _is_number(rate) else "unknown"


def shown(value: object) -> str:
    """A value, or the first of several, on one line."""
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        first = value if all(isinstance(item, str) for item in value) else value[:8]  # names, or numbers
        return ", ".join(map(shown, first)) + (f", … ({len(value)} in all)" if len(first) < len(value) else "")
    # What a bundle says of itself is anyone's text: none of it may move the cursor
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(str(value).split()))
