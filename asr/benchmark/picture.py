"""A benchmark as a picture: SVG written by hand, which needs nothing; PNG by matplotlib, where that is installed."""

from __future__ import annotations

import io
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from asr.benchmark.run import PLAIN
from asr.errors import CepstraError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from asr.benchmark.run import Report

FORMATS = ("svg", "png")
# Okabe and Ito's, which the colour-blind can tell apart
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#999999", "#000000")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 800, 300, 80, 20, 40, 80  # of a panel, in user units


@dataclass(frozen=True)
class Lines:
    """A panel of curves."""

    title: str
    across: str
    up: str
    curves: Sequence[tuple[str, Sequence[float], Sequence[float]]]  # name, x, y


@dataclass(frozen=True)
class Bars:
    """A panel of lying bars, each cut into the same parts, from the left."""

    title: str
    across: str
    parts: Sequence[str]
    bars: Sequence[tuple[str, Sequence[float]]]  # name, the parts' sizes


def picture_format(path: Path) -> str:
    """One of FORMATS, by the file's name. Raises CepstraError for any other."""
    kind = path.suffix[1:].lower()
    if kind not in FORMATS:
        raise CepstraError(f"{path}: no known kind of picture; choose a name that ends in .svg or .png")
    return kind


def draw(report: Report, kind: str) -> bytes:
    """The bytes of the picture. kind: one of FORMATS. Raises CepstraError where PNG needs matplotlib."""
    found = panels(report)
    return _png(found) if kind == "png" else _svg(found).encode()


def panels(report: Report) -> list[Lines | Bars]:
    """Time over the clip's length, its stages, and memory over utterances where it was measured."""
    curves: list[tuple[str, Sequence[float], Sequence[float]]] = []
    for backend, threads in dict.fromkeys((each.backend, each.threads) for each in report.latencies):
        chosen = [each for each in report.latencies if (each.backend, each.threads) == (backend, threads)]
        name = f"{backend}, {threads} thread{'s' if threads > 1 else ''}"
        curves.append((name, [each.seconds for each in chosen], [1000 * each.median for each in chosen]))
    fewest = min(report.peaks)
    plain = [each for each in report.latencies if each.backend == PLAIN and each.threads == fewest]
    stages = [name for name in plain[0].stages if name != "rest"]
    found: list[Lines | Bars] = [
        Lines("From file to text, warm, median", "seconds of sound", "ms", curves),
        Bars(
            f"Where the time goes, {fewest} thread{'s' if fewest > 1 else ''}", "ms per second of sound", stages,
            [
                (f"{each.seconds:g} s", [1000 * each.stages[name] / each.seconds for name in stages])
                for each in plain
            ],
        ),
    ]  # fmt: skip
    if report.curve is not None:
        megabytes = [size / 1e6 for size in report.curve.resident]
        found.append(Lines("Resident memory", "utterances", "MB", [("", report.curve.utterances, megabytes)]))
    return found


def _svg(drawn: Sequence[Lines | Bars]) -> str:
    height = _HEIGHT * len(drawn)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">',
        "<style>text { font: 13px system-ui, sans-serif; } .axis { stroke: #c8c8c8; }</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for place, panel in enumerate(drawn):
        shapes = _lines(panel) if isinstance(panel, Lines) else _bars(panel)
        parts += [
            f'<g transform="translate(0 {place * _HEIGHT})">',
            f'<text x="{_LEFT}" y="22" style="font-weight: bold">{escape(panel.title)}</text>', *shapes, "</g>",
        ]  # fmt: skip
    return "\n".join([*parts, "</svg>", ""])


def _lines(panel: Lines) -> list[str]:
    right = max(x for _, xs, _ in panel.curves for x in xs) or 1
    top = max(y for _, _, ys in panel.curves for y in ys) or 1
    parts = [*_across(panel.across, right), *_up(panel.up, top)]
    for number, (_, xs, ys) in enumerate(panel.curves):
        colour = COLOURS[number % len(COLOURS)]
        points = [(_x(x, right), _y(y, top)) for x, y in zip(xs, ys, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(points) <= 20:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return parts + _legend([name for name, _, _ in panel.curves if name])


def _bars(panel: Bars) -> list[str]:
    right = max(sum(sizes) for _, sizes in panel.bars) or 1
    room = (_HEIGHT - _TOP - _BOTTOM) / len(panel.bars)
    parts = _across(panel.across, right)
    for row, (name, sizes) in enumerate(panel.bars):
        top, begun = _TOP + row * room, 0.0
        parts.append(f'<text x="{_LEFT - 8}" y="{top + room / 2 + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        for number, size in enumerate(sizes):
            left, end = _x(begun, right), _x(begun + size, right)
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 2:.1f}" width="{end - left:.1f}" height="{room - 4:.1f}" '
                f'fill="{COLOURS[number % len(COLOURS)]}"/>'
            )
            begun += size
    return parts + _legend(panel.parts)


def _across(label: str, most: float) -> list[str]:
    base = _HEIGHT - _BOTTOM
    parts = []
    for tick in _ticks(most):
        x = _x(tick, most)
        parts.append(
            f'<line class="axis" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{base}"/>'
            f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{tick:g}</text>'
        )
    parts.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{base + 38}" text-anchor="middle">{escape(label)}</text>'
    )
    return parts


def _up(label: str, most: float) -> list[str]:
    parts = []
    for tick in _ticks(most):
        y = _y(tick, most)
        parts.append(
            f'<line class="axis" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{escape(label)}</text>')
    return parts


def _legend(names: Sequence[str]) -> list[str]:
    parts, x, y = [], float(_LEFT), _HEIGHT - 22
    for number, name in enumerate(names):
        parts.append(
            f'<rect x="{x:.0f}" y="{y - 10}" width="12" height="12" fill="{COLOURS[number % len(COLOURS)]}"/>'
            f'<text x="{x + 17:.0f}" y="{y}">{escape(name)}</text>'
        )
        x += 17 + 7.5 * len(name) + 16
    return parts


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 to `most`, four to nine of them."""
    step = 10.0 ** len(f"{most:.0f}")
    while most / step < 4:
        step /= 2 if f"{step:e}"[0] in "12" else 2.5  # 10, 5, 2, 1
    return [number * step for number in range(int(most / step + 1e-9) + 1)]


def _x(value: float, most: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / most


def _y(value: float, most: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / most)


def _png(drawn: Sequence[Lines | Bars]) -> bytes:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise CepstraError("PNG needs matplotlib; run: pip install 'cepstra[train]', or draw .svg") from error
    figure = Figure(figsize=(8, 3 * len(drawn)), layout="constrained")
    FigureCanvasAgg(figure)
    for panel, axes in zip(drawn, figure.subplots(len(drawn), 1, squeeze=False)[:, 0], strict=True):
        axes.set_title(panel.title, loc="left", fontweight="bold")
        axes.set_xlabel(panel.across)
        if isinstance(panel, Lines):
            axes.set_ylabel(panel.up)
            for number, (name, xs, ys) in enumerate(panel.curves):
                axes.plot(xs, ys, color=COLOURS[number % len(COLOURS)], label=name or None)
            axes.set_ylim(bottom=0)
        else:
            begun = [0.0] * len(panel.bars)
            for number, part in enumerate(panel.parts):
                sizes = [values[number] for _, values in panel.bars]
                names = [name for name, _ in panel.bars]
                axes.barh(names, sizes, left=begun, color=COLOURS[number % len(COLOURS)], label=part)
                begun = [before + size for before, size in zip(begun, sizes, strict=True)]
            axes.invert_yaxis()
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize="small")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()
