"""What was found in a phrase file, in words: what may surprise, and what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.phrases.check import Report

SHOWN: Final = 10  # findings of a kind


class Kind(NamedTuple):
    """Findings of a kind."""

    title: str
    findings: tuple[str, ...]  # no more than SHOWN
    more: int  # that aren't shown
    remedy: str | None


def kinds(report: Report) -> Iterator[Kind]:
    """Those of which there are any; samples are no findings."""
    yield from _kind(
        "means two things (the first counts)",
        [f"{one.said!r}: {' or '.join(one.meanings)}" + _in_list(one.where) for one in report.ambiguities],
    )
    yield from _kind(
        "sound alike (sounds that differ, per cent)",
        [f"{pair.one!r} and {pair.other!r} ({100 * pair.distance:.0f})" for pair in report.alike],
        "give one of the two another wording, or leave it out, if that is yours to choose",
    )
    yield from _kind(
        "spelt with many single letters: the model may hardly know them",
        [f"{word.word} ({' '.join(word.pieces)})" for word in report.hard_words],
        "choose commoner words, or let `cepstra make` teach them to a model of your own",
    )
    yield from _kind(
        "written in another way than the model's texts", [f"{said!r}: {other!r}" for said, other in report.rewritten]
    )
    yield from _kind("used by no sentence", list(report.unused), "use it in a sentence, or take it away")
    yield from _kind("fills no slot, beside others that do", list(report.untagged), "give it a tag too: words {value}")


def sentences(report: Report) -> tuple[str, ...]:
    """Each finding as a line that stands by itself."""
    return tuple(
        f"{kind.title}: {finding}" + (f"; {kind.remedy}" if kind.remedy else "")
        for kind in kinds(report)
        for finding in (*kind.findings, *([f"… and {kind.more} more"] if kind.more else []))
    )


def _kind(title: str, findings: list[str], remedy: str | None = None) -> Iterator[Kind]:
    if findings:
        yield Kind(title, tuple(findings[:SHOWN]), max(0, len(findings) - SHOWN), remedy)


def _in_list(name: str | None) -> str:
    return "" if name is None else f", in list {name}"
