"""How well commands are understood, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from asr.evaluation.commands import RATES
from asr.evaluation.table import by_group, percent, run_lines

if TYPE_CHECKING:
    from asr.evaluation.commands import CommandEvaluation, CommandScore
    from asr.evaluation.run import Run


def command_summary(
    evaluation: CommandEvaluation, run: Run, nearest: CommandEvaluation | None = None
) -> RenderableType:
    """What rich prints: the run, the table by group, how sure the figures are, and thresholds to choose from.

    nearest: the same recordings by free decoding and the nearest sentence, to stand beside.
    """
    headings = ("commands", "right", "wrong", "refused", "right %", "other", "taken", "taken %")
    rows = [(group.name, _cells(group)) for group in evaluation.groups]
    table = by_group(run.by, headings, rows, _cells(evaluation.total))
    parts: list[RenderableType] = [*(Text(line) for line in run_lines(run)), table]
    if nearest is not None:
        parts += [Text(line) for line in nearest_lines(evaluation, nearest)]
    parts += [Text(line) for line in threshold_lines(evaluation)]
    return Group(*parts)


def threshold_lines(evaluation: CommandEvaluation) -> list[str]:
    """How far confidences are from the truth, and which threshold gives how many false accepts."""
    lines = []
    error = evaluation.calibration_error
    if error is not None:
        lines.append(f"Confidence against truth (expected calibration error): {error:.3f}")
    for rate in RATES:
        threshold, total = evaluation.threshold_for(rate), evaluation.total
        if threshold is None or not total.commands or rate * total.others < 1:
            continue  # of ten recordings none can be a thousandth
        score = evaluation.at(threshold)
        lines.append(
            f"Threshold for at most {100 * rate:g} % of the other recordings taken: {threshold:.3f}; of the commands "
            f"{percent(score.accuracy)} % right, {percent(score.wrong_rate)} % wrong, "
            f"{percent(score.false_reject_rate)} % refused"
        )
    return lines


def nearest_lines(evaluation: CommandEvaluation, nearest: CommandEvaluation) -> list[str]:
    """The nearest sentence of free text beside it: with everything accepted, and at as many false accepts."""
    total, most = nearest.total, evaluation.total.false_accept_rate
    lines = [
        f"Free text and its nearest sentence: {percent(total.accuracy)} % right"
        + (f", {percent(total.false_accept_rate)} % of the others taken for a command" if total.others else "")
    ]
    if most is not None and total.commands:
        threshold = nearest.threshold_for(most)
        score = nearest.at(0.0 if threshold is None else threshold)
        lines.append(f"  with no more false accepts ({percent(most)} %): {percent(score.accuracy)} % right")
    return lines


def _cells(score: CommandScore) -> tuple[str, ...]:
    return (
        str(score.commands),
        str(score.understood),
        str(score.misunderstood),
        str(score.refused),
        percent(score.accuracy),
        str(score.others),
        str(score.false_accepts),
        percent(score.false_accept_rate),
    )
