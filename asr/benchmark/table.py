"""A benchmark for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from asr.benchmark.flops import work_of
from asr.benchmark.latency import STAGES, ratio
from asr.benchmark.run import PLAIN
from asr.recognizer import DEFAULT_BUNDLE, SHIPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.benchmark.latency import Latency
    from asr.benchmark.run import Report


def summary(report: Report) -> RenderableType:
    """What rich prints; it fits into 80 columns."""
    parts: list[RenderableType] = [Text(line) for line in _head(report)]
    for threads in dict.fromkeys(each.threads for each in report.latencies):
        chosen = [each for each in report.latencies if each.threads == threads]
        plain = [each for each in chosen if each.backend == PLAIN]
        counted = _threads(threads)
        runs = len(plain[0].runs)
        parts += [Text(f"\nWarm, {counted}, {runs} run{'s' if runs > 1 else ''}"), _latency(report, plain)]
        parts += [Text(f"Where the time goes, {counted}: medians in ms"), _stages(plain)]
        parts += _others(chosen, plain, counted)
        rates = ", ".join(f"{name} {value / 1e9:,.0f}" for name, value in report.peaks[threads].items())
        parts += [Text(f"Operations, and how much of the peak ({rates} G/s) is reached, {counted}")]
        parts += [_shares(report, plain)]
    return Group(*parts, Text(""), *(Text(line) for line in _tail(report)))


def _head(report: Report) -> list[str]:
    machine = report.machine
    size = report.model.stat().st_size / 1e6
    place = SHIPPED if report.model == DEFAULT_BUNDLE else report.model
    versions = f"{machine['system']}, Python {machine['python']}, ONNX Runtime {machine['onnxruntime']}"
    return [
        f"Model: {report.bundle.name} ({report.bundle.precision}, {size:.1f} MB), {place}",
        f"Machine: {machine['processor']}, {machine['cores']} cores",
        f"System: {versions}",
        f"Sound: {report.sound}",
    ]


def _latency(report: Report, latencies: Sequence[Latency]) -> Table:
    table = _table("clip s", "decoded s", "fastest ms", "median ms", "95 % ms", "real-time", "peak MB")
    rate = report.bundle.front_end.sample_rate
    for each in latencies:
        table.add_row(
            f"{each.seconds:g}",
            f"{sum(each.decoded) / rate:.2f}",
            f"{1000 * each.fastest:.1f}",
            f"{1000 * each.median:.1f}",
            f"{1000 * each.p95:.1f}",
            f"{each.median / each.seconds:.4f}",
            f"{report.resident[each.seconds] / 1e6:.0f}",
        )
    return table


def _stages(latencies: Sequence[Latency]) -> Table:
    table = _table("clip s", *STAGES, "rest")
    for each in latencies:
        table.add_row(f"{each.seconds:g}", *(f"{1000 * value:.1f}" for value in each.stages.values()))
    return table


def _shares(report: Report, latencies: Sequence[Latency]) -> Table:
    table = _table("clip s", "encoder M", "reached %", "steps", "tokens", "ms a token", "decoder M", "reached %")
    for each in latencies:
        shares = each.shares(report.bundle, report.peaks[each.threads])
        cells = []
        for stage, work in zip(("encoder", "decoder"), work_of(each.runs[0].calls, report.bundle), strict=True):
            share = shares[stage]
            cells += [f"{sum(work.values()) / 1e6:,.0f}", "-" if share is None else f"{100 * share:.1f}"]
        token = f"{1000 * each.stages['decoder'] / each.tokens:.2f}" if each.tokens else "-"
        table.add_row(f"{each.seconds:g}", *cells[:2], str(each.steps), str(each.tokens), token, *cells[2:])
    return table


def _others(chosen: Sequence[Latency], plain: Sequence[Latency], counted: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for name in dict.fromkeys(each.backend for each in chosen if each.backend != PLAIN):
        table = _table("clip s", "steps", f"{name} ms", "times ONNX Runtime's", "same text")
        others = [each for each in chosen if each.backend == name]
        for each, reference in zip(others, plain, strict=True):
            same = each.runs[0].text == reference.runs[0].text
            table.add_row(
                f"{each.seconds:g}", str(each.steps), f"{1000 * each.median:.1f}", f"{ratio(each, reference):.2f}",
                "yes" if same else "no",
            )  # fmt: skip
        parts += [Text(f"In turn with {name}, {counted}"), table]
    return parts


def _tail(report: Report) -> list[str]:
    cold = report.cold
    command = f"cepstra transcribe {cold.command:.2f} s (Python alone {cold.python:.2f} s)"
    lines = [
        f"Cold start, {cold.seconds:g} s clip, {_threads(cold.threads)}: {command}",
        f"From Python: import {cold.imports:.2f} s, load {cold.load:.2f} s, first text {cold.first:.2f} s",
    ]
    if report.curve is not None:
        curve = report.curve
        lines.append(
            f"Memory: {curve.resident[-1] / 1e6:.1f} MB after {curve.utterances[-1]} utterances, "
            f"{curve.growth / 1e6:+.1f} MB since the first {curve.warm}"
        )
    return lines


def _threads(number: int) -> str:
    return f"{number} thread{'s' if number > 1 else ''}"


def _table(*headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table
