"""An evaluation as one web page that needs nothing else: no scripts, no other files, light and dark, readable aloud."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from asr.evaluation.table import interval, percent, run_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #1a1a1a; --quiet: #595959; --line: #c8c8c8; --bar: #2563a8;
  --sub: #7a4100; --sub-ground: #fff0d1; --del: #941a1a; --del-ground: #fde3e3; --ins: #0a4a82; --ins-ground: #deedfb; }
@media (prefers-color-scheme: dark) { :root { --page: #16181c; --text: #e8e8e8; --quiet: #a8a8a8; --line: #4a4d52;
  --bar: #7fb2ea; --sub: #ffca75; --sub-ground: #3a2b0f; --del: #ffa3a3; --del-ground: #431a1a; --ins: #a3cfff;
  --ins-ground: #12304d; } }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font: 600 1rem/1.5 system-ui, sans-serif; margin: 1.5rem 0 0; overflow-wrap: anywhere; }
p.quiet { margin: 0 0 .25rem; color: var(--quiet); }
.wide { overflow-x: auto; } .wide:focus-visible { outline: 2px solid var(--bar); }
table { border-collapse: collapse; } caption { text-align: start; color: var(--quiet); padding-bottom: .5rem; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid var(--line); text-align: end;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th.name, td.name { text-align: start; } td.name { white-space: normal; overflow-wrap: anywhere; }
tr.total > * { font-weight: 700; border-top: 2px solid var(--text); }
.words { display: flex; flex-wrap: wrap; gap: .5rem .25rem; margin: .25rem 0; padding: 0; list-style: none; }
.words > li { display: flex; flex-direction: column; align-items: center; padding: 0 .3rem; border-radius: .25rem;
  border: 1px solid transparent; }
.words .sign { font-weight: 700; line-height: 1.1; min-height: 1.1em; }
.sub { color: var(--sub); background: var(--sub-ground); } .del { color: var(--del); background: var(--del-ground); }
.ins { color: var(--ins); background: var(--ins-ground); }
.words > li.sub, .words > li.del, .words > li.ins { border-color: currentcolor; }
.heard-same { color: var(--quiet); }
.key span { padding: 0 .4rem; border: 1px solid currentcolor; border-radius: .25rem; margin-inline-end: .75rem; }
.aloud { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--text); font: 13px system-ui, sans-serif; }
svg .bar { fill: var(--bar); } svg .axis { stroke: var(--line); }
"""


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
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Cepstra evaluation</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>Cepstra evaluation</h1>\n{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def _summary_section(evaluation: Evaluation, run: Run | None) -> str:
    lines = run_lines(run) if run else []
    if run:
        lines.append(f"Manifests: {', '.join(run.manifests)}")
    headings = ("clips", "seconds", "words", "WER %", "95 % interval", "substituted", "deleted", "inserted", "CER %")
    groups = evaluation.groups if len(evaluation.groups) > 1 else ()
    rows = "".join(_group_row(group) for group in groups) + _group_row(evaluation.total, "total")
    head = _heading(run.by if run else "group", name=True)
    head += "".join(_heading(heading) for heading in (*headings, "SER %"))
    caption = (
        "WER: word error rate, the substituted, deleted and inserted words per word said. "
        "CER: the same for characters. SER: sentence error rate, the share of clips with any error."
    )
    return (
        "".join(f'<p class="quiet">{_text(line)}</p>\n' for line in lines)
        + "<h2>Error rates</h2>\n"
        + _table("Error rates", caption, head, rows)
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
        + f'<th scope="row" class="name">{_text(score.name)}</th>'
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
    table = _table(
        "Histogram as a table", "Utterances by word error rate", _heading("WER %", name=True) + _heading("clips"), rows
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
            f'<tr><td class="name"><bdi>{_text(confusion.reference or "")}</bdi></td>'
            f'<td class="name"><bdi>{_text(confusion.hypothesis or "")}</bdi></td>'
            f'<td class="name"><span class="{css}">{sign} {word}</span></td><td>{confusion.count}</td></tr>\n'
        )
    head = "".join(_heading(heading, name=True) for heading in ("said", "heard", "kind")) + _heading("times")
    caption = f"{min(limit, len(confusions))} of {len(confusions)} different ones, most frequent first"
    return "<h2>Confusions</h2>\n" + _table("Confusions", caption, head, "".join(rows))


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
        f"<h3>{_text(utterance.name)}</h3>\n"
        f'<p class="quiet">{_text(utterance.group)}: {words.errors} errors, {words.reference} words said, '
        f"WER {percent(words.rate)} %</p>\n"
        f'<ol class="words" dir="auto">{"".join(_step(step) for step in utterance.alignment)}</ol>\n'
    )


def _step(step: Step) -> str:
    """Said above, heard below, the symbol under both; in words for screen readers."""
    if step.kind == "equal":
        word = _text(step.reference or "")
        return (
            f'<li><span>{word}</span><span class="heard-same" aria-hidden="true">{word}</span>'
            '<span class="sign"></span></li>'
        )
    css, sign, name = _KINDS[step.kind]
    parts = [f"{label} {word}" for label, word in (("said", step.reference), ("heard", step.hypothesis)) if word]
    shown = "".join(
        f'<span aria-hidden="true">{_text(word) if word else "&nbsp;"}</span>'
        for word in (step.reference, step.hypothesis)
    )
    return (
        f'<li class="{css}"><span class="aloud">{name}: {_text(", ".join(parts))}</span>{shown}'
        f'<span class="sign" aria-hidden="true">{sign}</span></li>'
    )


def _failure_section(failures: Sequence[Failure]) -> str:
    if not failures:
        return ""
    items = "".join(f"<li>{_text(failure.message)}</li>\n" for failure in failures)
    return f"<h2>Not transcribed</h2>\n<p>These files are in no figure above.</p>\n<ul>\n{items}</ul>\n"


def _table(label: str, caption: str, head: str, rows: str | Iterable[str]) -> str:
    """A table in a region of its own that can be scrolled sideways, by keyboard too."""
    return (
        f'<div class="wide" role="region" aria-label="{_text(label)}" tabindex="0">\n<table>\n'
        f"<caption>{_text(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(rows)}</tbody>\n"
        "</table>\n</div>\n"
    )


def _heading(text: str, *, name: bool = False) -> str:
    return f'<th scope="col" class="name">{_text(text)}</th>' if name else f'<th scope="col">{_text(text)}</th>'


def _text(text: str) -> str:
    """Data made safe for element and attribute; what UTF-8 can't hold becomes question marks."""
    return escape(text.encode("utf-8", "replace").decode("utf-8"))
