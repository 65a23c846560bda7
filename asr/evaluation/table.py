"""An evaluation for the terminal: one table by group, and what stands out, in plain words."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from asr.given import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.evaluation.run import Run
    from asr.evaluation.scoring import Confusion, Evaluation, GroupScore


def percent(rate: float | None) -> str:
    """A rate with one decimal, or a dash where there is none."""
    return "-" if rate is None else f"{100 * rate:.1f}"


def interval(score: GroupScore) -> str:
    """The confidence interval in per cent, or a dash."""
    return "-" if score.interval is None else f"{percent(score.interval[0])}-{percent(score.interval[1])}"


def confusion_text(confusion: Confusion) -> str:
    """What became what, with a word where there is nothing."""
    return f"{cut(confusion.reference or '(nothing)')} → {cut(confusion.hypothesis or '(nothing)')}"


def run_lines(run: Run) -> list[str]:
    """Model, amount of sound, speed and failures: one sentence each."""
    factor = run.real_time_factor
    settings = ", ".join(f"{key} {value}" for key, value in run.settings.items())
    speed = "" if factor is None else f"; real-time factor {factor:.3f}"
    lines = [
        f"Model: {run.model}" + (f" ({settings})" if settings else ""),
        f"Sound: {run.audio_seconds:.1f} s, transcribed in {run.wall_seconds:.1f} s{speed}",
    ]
    if run.failures:
        lines.append(f"Not transcribed, and in no figure: {len(run.failures)}")
    return lines


def summary(evaluation: Evaluation, run: Run | None = None, *, confusions: int = 5) -> RenderableType:
    """What rich prints: the run, the table by group, the most frequent confusions."""
    headings = ("clips", "words", "WER %", "95 %", "sub", "del", "ins", "CER %", "SER %")
    rows = [(group.name, _cells(group)) for group in evaluation.groups]
    table = by_group(run.by if run else "group", headings, rows, _cells(evaluation.total))
    parts: list[RenderableType] = [Text(line) for line in (run_lines(run) if run else [])]
    parts.append(table)
    if evaluation.confusions:
        top = ", ".join(f"{confusion_text(each)} ({each.count})" for each in evaluation.confusions[:confusions])
        parts.append(Text(f"Most frequent confusions: {top}"))
    return Group(*parts)


def by_group(
    kind: str, headings: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], total: Sequence[str]
) -> Table:
    """A table with a row for each group, if there are several, and one for all of them. kind: what the groups are."""
    # Without upright lines and double padding it fits into 80 columns
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(kind, overflow="fold", min_width=12)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    if len(rows) > 1:
        for name, cells in rows:
            table.add_row(Text(cut(name)), *cells)
        table.add_section()
    table.add_row(Text("total"), *total, style="bold")
    return table


def summary_text(evaluation: Evaluation, run: Run | None = None, *, width: int = 100) -> str:
    """The same as plain text without colours, for a file or a log."""
    page = io.StringIO()
    Console(file=page, width=width, color_system=None, force_terminal=False).print(summary(evaluation, run))
    return page.getvalue()


def _cells(score: GroupScore) -> tuple[str, ...]:
    words = score.words
    return (
        str(score.utterances),
        str(words.reference),
        percent(score.wer),
        interval(score),
        str(words.substitutions),
        str(words.deletions),
        str(words.insertions),
        percent(score.cer),
        percent(score.ser),
    )
