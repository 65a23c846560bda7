"""An evaluation as one web page that needs nothing else: no scripts, no other files, light and dark, readable aloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asr.evaluation.page import head_cell, html_table, page, safe
from asr.evaluation.table import interval, percent, run_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.evaluation.alignment import Step
    from asr.evaluation.run import Failure, Run
    from asr.evaluation.scoring import Confusion, Evaluation, GroupScore, UtteranceScore

# Colour is never the only sign: each kind of error has a symbol, and a word for those who listen.
_KINDS = {
    "substitution": ("sub", "≠", "substituted"),
    "deletion": ("del", "&minus;", "deleted"),
    "insertion": ("ins", "+", "inserted"),
}
_BINS = ("0", *(f"{low + 1}&ndash;{low + 10}" for low in range(0, 100, 10)), "&gt;100")


def html_report(evaluation: Evaluation, run: Run | None = None, *, worst: int = 30, confusions: int = 50) -> str:
    """The whole page as text. Everything that comes from data is escaped.

    worst, confusions: how many utterances and word pairs to show; JSON holds all of them.
    """
    sections = [
        _summary_section(evaluation, run),
        _histogram_section(evaluation.utterances),
        _confusion_section(evaluation.confusions, confusions),
        _worst_section(evaluation.worst(worst)),
        _failure_section(run.failures if run else ()),
    ]
    return page(sections)


def _summary_section(evaluation: Evaluation, run: Run | None) -> str:
    lines = run_lines(run) if run else []
    if run:
        lines.append(f"Manifests: {', '.join(run.manifests)}")
    headings = ("clips", "seconds", "words", "WER %", "95 % interval", "substituted", "deleted", "inserted", "CER %")
    groups = evaluation.groups if len(evaluation.groups) > 1 else ()
    rows = "".join(_group_row(group) for group in groups) + _group_row(evaluation.total, "total")
    head = head_cell(run.by if run else "group", name=True)
    head += "".join(head_cell(heading) for heading in (*headings, "SER %"))
    caption = (
        "WER: word error rate, the substituted, deleted and inserted words per word said. "
        "CER: the same for characters. SER: sentence error rate, the share of clips with any error."
    )
    return (
        "".join(f'<p class="quiet">{safe(line)}</p>\n' for line in lines)
        + "<h2>Error rates</h2>\n"
        + html_table("Error rates", caption, head, rows)
    )


def _group_row(score: GroupScore, kind: str = "") -> str:
    words = score.words
    cells = (
        str(score.utterances),
        f"{score.seconds:.1f}",
        str(words.reference),
        percent(score.wer),
        interval(score),
        str(words.substitutions),
        str(words.deletions),
        str(words.insertions),
        percent(score.cer),
        percent(score.ser),
    )
    return (
        (f'<tr class="{kind}">' if kind else "<tr>")
        + f'<th scope="row" class="name">{safe(score.name)}</th>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>\n"
    )


def _histogram_section(utterances: Sequence[UtteranceScore]) -> str:
    counts = [0] * len(_BINS)
    for utterance in utterances:
        counts[_bin(utterance)] += 1
    rows = "".join(
        f'<tr><th scope="row" class="name">{label}</th><td>{number}</td></tr>\n'
        for label, number in zip(_BINS, counts, strict=True)
    )
    table = html_table(
        "Histogram as a table",
        "Utterances by word error rate",
        head_cell("WER %", name=True) + head_cell("clips"),
        rows,
    )
    return (
        f"<h2>How the errors spread over the utterances</h2>\n{_histogram(counts)}"
        f"<details><summary>The same as a table</summary>\n{table}</details>\n"
    )


def _bin(utterance: UtteranceScore) -> int:
    """0 for no error, then ten per cent each (upper edge included), the last for everything above 100 %."""
    errors, words = utterance.words.errors, utterance.words.reference
    return min(-(-10 * errors // words), len(_BINS) - 1) if words else (len(_BINS) - 1) * (errors > 0)


def _histogram(counts: Sequence[int]) -> str:
    """Bars with their numbers on top, as inline SVG."""
    width, height, left, top = 62, 160, 10, 24  # of a bar's place and of the plot, in user units
    base = top + height
    bars = []
    for place, (label, number) in enumerate(zip(_BINS, counts, strict=True)):
        tall = height * number / max(1, *counts)
        x, middle = left + place * width, left + (place + 0.5) * width
        bars.append(
            f'<rect class="bar" x="{x + 6}" y="{base - tall:.1f}" width="{width - 12}" height="{tall:.1f}" rx="2"/>'
            f'<text x="{middle}" y="{base - tall - 6:.1f}" text-anchor="middle">{number}</text>'
            f'<text x="{middle}" y="{base + 18}" text-anchor="middle">{label}</text>\n'
        )
    right = left + len(_BINS) * width
    said = ", ".join(f"{label} %: {number}" for label, number in zip(_BINS, counts, strict=True) if number)
    return (
        f'<svg role="img" aria-labelledby="spread spread-said" viewBox="0 0 {right + left} {base + 48}" '
        f'width="{right + left}" height="{base + 48}">\n<title id="spread">Utterances by word error rate</title>\n'
        f'<desc id="spread-said">Number of utterances with a word error rate of {said or "none at all"}</desc>\n'
        + "".join(bars)
        + f'<line class="axis" x1="{left}" y1="{base}" x2="{right}" y2="{base}"/>\n'
        f'<text x="{(left + right) / 2}" y="{base + 40}" text-anchor="middle">word error rate of the utterance, %'
        "</text>\n</svg>\n"
    )


def _confusion_section(confusions: Sequence[Confusion], limit: int) -> str:
    if not confusions:
        return "<h2>Confusions</h2>\n<p>None: every word was heard as it was said.</p>\n"
    rows = []
    for confusion in confusions[:limit]:
        css, sign, word = _KINDS[confusion.kind]
        rows.append(
            f'<tr><td class="name"><bdi>{safe(confusion.reference or "")}</bdi></td>'
            f'<td class="name"><bdi>{safe(confusion.hypothesis or "")}</bdi></td>'
            f'<td class="name"><span class="{css}">{sign} {word}</span></td><td>{confusion.count}</td></tr>\n'
        )
    head = "".join(head_cell(heading, name=True) for heading in ("said", "heard", "kind")) + head_cell("times")
    caption = f"{min(limit, len(confusions))} of {len(confusions)} different ones, most frequent first"
    return "<h2>Confusions</h2>\n" + html_table("Confusions", caption, head, "".join(rows))


def _worst_section(worst: Sequence[UtteranceScore]) -> str:
    if not worst:
        return ""
    key = "".join(f'<span class="{css}">{sign} {word}</span>' for css, sign, word in _KINDS.values())
    return (
        "<h2>Utterances with the most errors</h2>\n"
        f'<p class="key">Upper line: said. Lower line: heard. {key}</p>\n'
        + "".join(_utterance(utterance) for utterance in worst)
    )


def _utterance(utterance: UtteranceScore) -> str:
    words = utterance.words
    return (
        f"<h3>{safe(utterance.name)}</h3>\n"
        f'<p class="quiet">{safe(utterance.group)}: {words.errors} errors, {words.reference} words said, '
        f"WER {percent(words.rate)} %</p>\n"
        f'<ol class="words" dir="auto">{"".join(_step(step) for step in utterance.alignment)}</ol>\n'
    )


def _step(step: Step) -> str:
    """Said above, heard below, the symbol under both; in words for screen readers."""
    if step.kind == "equal":
        word = safe(step.reference or "")
        return (
            f'<li><span>{word}</span><span class="heard-same" aria-hidden="true">{word}</span>'
            '<span class="sign"></span></li>'
        )
    css, sign, name = _KINDS[step.kind]
    parts = [f"{label} {word}" for label, word in (("said", step.reference), ("heard", step.hypothesis)) if word]
    shown = "".join(
        f'<span aria-hidden="true">{safe(word) if word else "&nbsp;"}</span>'
        for word in (step.reference, step.hypothesis)
    )
    return (
        f'<li class="{css}"><span class="aloud">{name}: {safe(", ".join(parts))}</span>{shown}'
        f'<span class="sign" aria-hidden="true">{sign}</span></li>'
    )


def _failure_section(failures: Sequence[Failure]) -> str:
    if not failures:
        return ""
    items = "".join(f"<li>{safe(failure.message)}</li>\n" for failure in failures)
    return f"<h2>Not transcribed</h2>\n<p>These files are in no figure above.</p>\n<ul>\n{items}</ul>\n"
