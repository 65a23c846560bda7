"""How well commands are understood, as a web page: the trade-off as a picture, thresholds, and what went wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asr.evaluation.command_table import nearest_lines
from asr.evaluation.commands import RATES
from asr.evaluation.page import head_cell, html_table, page, safe
from asr.evaluation.table import percent, run_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.evaluation.commands import CommandEvaluation, CommandScore, Trial
    from asr.evaluation.run import Run

_WIDTH, _HEIGHT, _LEFT, _TOP = 560, 320, 70, 20  # of the plot, and where it begins, in user units
_LEAST = 0.001  # the leftmost false accept rate drawn; fewer, none included, stand on the axis
_SHOWN = 60  # trials in the list of what went wrong


def command_report(evaluation: CommandEvaluation, run: Run, nearest: CommandEvaluation | None = None) -> str:
    """The whole page. nearest: the same recordings by free decoding and the nearest sentence, to stand beside."""
    lines = [*run_lines(run), f"Manifests: {', '.join(run.manifests)}"]
    sections = ["".join(f'<p class="quiet">{safe(line)}</p>\n' for line in lines), _counts(evaluation, run)]
    if nearest is not None:
        sections += [f"<p>{safe(line)}</p>\n" for line in nearest_lines(evaluation, nearest)]
    if evaluation.total.commands and evaluation.total.others:
        sections += ["<h2>False accepts against false rejects</h2>\n", _trade_off(evaluation, nearest)]
    sections += [_thresholds(evaluation), _calibration(evaluation), _wrong(evaluation)]
    return page(sections)


def _counts(evaluation: CommandEvaluation, run: Run) -> str:
    headings = ("commands", "right", "wrong", "refused", "right %", "other", "taken for a command", "of the other %")
    head = head_cell(run.by, name=True) + "".join(head_cell(heading) for heading in headings)
    groups = evaluation.groups if len(evaluation.groups) > 1 else ()
    rows = "".join(_row(group) for group in groups) + _row(evaluation.total, ' class="total"')
    caption = (
        "Commands: recordings of a sentence of the phrase file. Right: the command that was meant, its slots included. "
        "Other: recordings of anything else."
    )
    return "<h2>Commands</h2>\n" + html_table("Commands", caption, head, rows)


def _row(score: CommandScore, css: str = "") -> str:
    cells = (
        score.commands, score.understood, score.misunderstood, score.refused, percent(score.accuracy),
        score.others, score.false_accepts, percent(score.false_accept_rate),
    )  # fmt: skip
    name = f'<th scope="row" class="name">{safe(score.name)}</th>'
    return f"<tr{css}>{name}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def _x(rate: float) -> float:
    """Of a false accept rate, on a logarithmic scale."""
    return _LEFT + _WIDTH * (1 - math.log10(max(_LEAST, rate)) / math.log10(_LEAST))


def _y(rate: float) -> float:
    """Of a share of the commands that were not understood."""
    return _TOP + _HEIGHT * (1 - rate)


def _trade_off(evaluation: CommandEvaluation, nearest: CommandEvaluation | None) -> str:
    """Commands not understood over false accepts, one step per threshold."""
    parts = [
        f'<line class="axis" x1="{_x(rate):.1f}" y1="{_TOP}" x2="{_x(rate):.1f}" y2="{_TOP + _HEIGHT}"/>'
        f'<text x="{_x(rate):.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{100 * rate:g}</text>\n'
        for rate in (0.001, 0.01, 0.1, 1.0)
    ]
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        parts.append(
            f'<line class="axis" x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _WIDTH}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10 * tenth}</text>\n'
        )
    drawn = [("held to the phrases", "", evaluation)]
    if nearest is not None:
        drawn.append(("free text and its nearest sentence", "6 5", nearest))
    for place, (name, dashes, each) in enumerate(drawn):
        style = f'fill="none" stroke="var(--bar)" stroke-width="2" stroke-dasharray="{dashes or "none"}"'
        y = _TOP + 16 + 20 * place
        parts.append(
            f'<path d="{_path(each)}" {style}/>\n'
            f'<path d="M{_LEFT + _WIDTH - 270} {y}h34" {style}/>'
            f'<text x="{_LEFT + _WIDTH - 228}" y="{y + 4}">{name}</text>\n'
        )
    now = evaluation.total
    if now.false_accept_rate is not None and now.accuracy is not None:
        parts.append(
            f'<circle class="bar" cx="{_x(now.false_accept_rate):.1f}" cy="{_y(1 - now.accuracy):.1f}" r="5"/>\n'
        )
    bottom = _TOP + _HEIGHT
    said = (
        f"At the model's own threshold {percent(now.false_accept_rate)} % false accepts, and "
        f"{percent(None if now.accuracy is None else 1 - now.accuracy)} % of the commands not understood"
    )
    return (
        f'<svg role="img" aria-labelledby="trade trade-said" viewBox="0 0 {_LEFT + _WIDTH + 20} {bottom + 50}" '
        f'width="{_LEFT + _WIDTH + 20}" height="{bottom + 50}">\n<title id="trade">Trade-off</title>\n'
        f'<desc id="trade-said">{said}</desc>\n{"".join(parts)}'
        f'<text x="{_LEFT + _WIDTH / 2}" y="{bottom + 42}" text-anchor="middle">'
        "other recordings taken for a command, %</text>\n"
        f'<text transform="translate(16 {_TOP + _HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
        "commands refused or misunderstood, %</text>\n</svg>\n"
        f'<p class="quiet">The dot is the model\'s own threshold: {said[0].lower()}{said[1:]}.</p>\n'
    )


def _path(evaluation: CommandEvaluation) -> str:
    steps: list[str] = []
    before = ""
    for _, score in evaluation.curve():
        x, y = f"{_x(score.false_accept_rate or 0.0):.1f}", f"{_y(1 - (score.accuracy or 0.0)):.1f}"
        step = f"H{x}V{y}" if steps else f"M{x} {y}"
        if step != before:
            steps.append(step)
        before = step
    return "".join(steps)


def _thresholds(evaluation: CommandEvaluation) -> str:
    rows = []
    for rate in RATES:
        threshold = evaluation.threshold_for(rate)
        if threshold is not None and rate * evaluation.total.others >= 1:  # fewer can't say so
            score = evaluation.at(threshold)
            shares = (score.accuracy, score.wrong_rate, score.false_reject_rate)
            cells = (f"{threshold:.3f}", *map(percent, shares), score.false_accepts)
            name = f'<th scope="row" class="name">{100 * rate:g}</th>'
            rows.append(f"<tr>{name}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n")
    if not rows:
        return ""
    head = head_cell("false accepts % at most", name=True)
    head += "".join(head_cell(h) for h in ("threshold", "right %", "wrong %", "refused %", "false accepts"))
    return "<h2>Thresholds</h2>\n" + html_table(
        "Thresholds", "The least confidence to ask for with --threshold", head, rows
    )


def _calibration(evaluation: CommandEvaluation) -> str:
    rows = []
    for tenth in range(10):
        some = [t for t in evaluation.trials if min(9, int(10 * t.confidence)) == tenth]
        if some:
            mean, right = sum(t.confidence for t in some) / len(some), sum(t.right for t in some) / len(some)
            name = f'<th scope="row" class="name">{tenth / 10:.1f} to {(tenth + 1) / 10:.1f}</th>'
            rows.append(f"<tr>{name}<td>{len(some)}</td><td>{mean:.3f}</td><td>{right:.3f}</td></tr>\n")
    error = evaluation.calibration_error
    head = head_cell("confidence", name=True) + "".join(head_cell(h) for h in ("clips", "mean", "share that was right"))
    caption = "Expected calibration error: " + ("-" if error is None else f"{error:.3f}")
    return "<h2>Is the confidence true?</h2>\n" + html_table("Calibration", caption, head, rows)


def _wrong(evaluation: CommandEvaluation) -> str:
    wrong = [t for t in evaluation.trials if t.accepted != (t.meant is not None) or (t.accepted and not t.right)]
    if not wrong:
        return (
            "<h2>What went wrong</h2>\n<p>Nothing: every command was understood, and nothing else taken for one.</p>\n"
        )
    wrong.sort(key=lambda trial: (trial.meant is None, -trial.confidence))
    head = "".join(head_cell(h, name=True) for h in ("clip", "said", "likeliest command", "kind"))
    head += head_cell("confidence")
    caption = f"{min(_SHOWN, len(wrong))} of {len(wrong)}: commands first, and the surest first"
    return "<h2>What went wrong</h2>\n" + html_table("What went wrong", caption, head, _rows(wrong[:_SHOWN]))


def _rows(trials: Sequence[Trial]) -> str:
    rows = []
    for trial in trials:
        kind = "taken for a command" if trial.meant is None else "misunderstood" if trial.accepted else "refused"
        found = "" if trial.likeliest is None else trial.likeliest.sentence
        cells = (trial.name, trial.reference, found, kind)
        named = "".join(f'<td class="name"><bdi>{safe(cell)}</bdi></td>' for cell in cells)
        rows.append(f"<tr>{named}<td>{trial.confidence:.3f}</td></tr>\n")
    return "".join(rows)
