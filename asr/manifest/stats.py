"""What a manifest holds: hours, rows, speakers, words, by source; and its lengths as a picture."""

from __future__ import annotations

import math
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.errors import ManifestError
from asr.files import atomic
from asr.text import normalise
from audio.plots import picture_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from asr.manifest.records import Utterance

QUANTILES = {"shortest": 0.0, "median": 0.5, "p95": 0.95, "longest": 1.0}
NO_SOURCE = "(none)"
SHOWN = 0.995  # of the rows fit the picture's width; one row of a minute must not make the others a line
LONGEST_NAME = 40  # letters of a source's name in the picture
MOST_SOURCES = 8  # in the picture each has a colour; the rest are one


@dataclass
class Stats:
    """Figures of one set of rows."""

    rows: int = 0
    without_speaker: int = 0
    words: int = 0  # spoken, not different ones
    speakers: set[str] = field(default_factory=set)
    vocabulary: Counter[str] = field(default_factory=Counter)  # normalised word: times spoken
    durations: list[float] = field(default_factory=list)  # seconds

    def add(self, utterance: Utterance, language: str) -> None:
        """Counts one row."""
        words = normalise(utterance.text, language).split()
        self.rows += 1
        self.words += len(words)
        self.vocabulary.update(words)
        self.durations.append(utterance.duration)
        if utterance.speaker is None:
            self.without_speaker += 1
        else:
            self.speakers.add(utterance.speaker)

    @property
    def hours(self) -> float:
        """Of sound."""
        return sum(self.durations) / 3600

    @property
    def words_per_row(self) -> float:
        """Mean number."""
        return self.words / max(1, self.rows)

    def lengths(self) -> dict[str, float]:
        """Shortest, median, 95th percentile and longest row, in seconds; zeros without rows."""
        return {name: float(np.quantile(self.durations or [0.0], share)) for name, share in QUANTILES.items()}

    def to_dict(self, most_common: int = 20) -> dict[str, Any]:
        """As JSON would hold it."""
        return {
            "rows": self.rows,
            "hours": round(self.hours, 4),
            "speakers": len(self.speakers),
            "rows_without_speaker": self.without_speaker,
            "words": self.words,
            "vocabulary": len(self.vocabulary),
            "words_per_row": round(self.words_per_row, 2),
            "seconds": {name: round(value, 3) for name, value in self.lengths().items()},
            "most_common": dict(self.vocabulary.most_common(most_common)),
        }


def count(utterances: Iterable[Utterance], language: str = "en") -> tuple[Stats, dict[str, Stats]]:
    """Figures of all rows, and by source in the order of their names (rows without one as NO_SOURCE)."""
    total, by_source = Stats(), defaultdict[str, Stats](Stats)
    for utterance in utterances:
        total.add(utterance, language)
        by_source[utterance.source or NO_SOURCE].add(utterance, language)
    return total, dict(sorted(by_source.items()))


def plot_lengths(path: Path, by_source: Mapping[str, Stats]) -> None:
    """Writes a histogram of row lengths, stacked by source; the format follows the suffix (png, svg, pdf).

    Raises ManifestError where matplotlib is missing, there are no rows, or the file can't be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415
    except ImportError as error:
        raise ManifestError(f"{path}: pictures need matplotlib: pip install 'cepstra[train]'") from error

    kind = picture_format(path)
    largest = sorted(by_source, key=lambda name: by_source[name].rows, reverse=True)
    groups = {name: by_source[name].durations for name in largest[:MOST_SOURCES]}
    if rest := largest[MOST_SOURCES:]:
        groups[f"{len(rest)} others"] = [value for name in rest for value in by_source[name].durations]
    if not by_source:
        raise ManifestError(f"{path}: nothing to draw: the manifests have no rows")
    lengths = np.array([value for values in groups.values() for value in values])
    edge = _round_edge(float(np.quantile(lengths, SHOWN)))
    longer = int((lengths > edge).sum())
    shown = [np.minimum(values, edge) for values in groups.values()]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    names = [f" {_shown(name)}" for name in groups]  # the space: matplotlib leaves out what begins with _
    axes.hist(shown, bins=np.linspace(0, edge, 61).tolist(), stacked=True, label=names)
    title = f"{len(lengths):,} row{'s' if len(lengths) > 1 else ''}, {_time(float(lengths.sum()))}"
    title += f" ({longer:,} longer than {edge:g} s, in the last bar)" if longer else ""
    axes.set(xlabel="length (s)", ylabel="rows", title=title, xlim=(0, edge))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    if len(groups) > 1:
        for text in axes.legend(frameon=False).get_texts():
            text.set_parse_math(False)  # a name may hold dollar signs
    with atomic(path, ManifestError) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a name may use letters that the font lacks
        figure.savefig(file, format=kind, dpi=120)


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:,.2f} h"


def _shown(name: str) -> str:
    """A source's name, in a legend that leaves room for the bars."""
    name = "".join(letter if letter.isprintable() else "?" for letter in name)
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _round_edge(seconds: float) -> float:
    """The next of 1, 2, 3, 5, 10, 12, 15, 20 … that is not below."""
    steps = np.array([1, 2, 3, 5, 10, 12, 15, 20, 25, 30, 40, 60, 90, 120, 300, 600, 1800, 3600])
    above = steps[steps >= seconds]
    return float(above[0]) if len(above) else math.ceil(seconds / 3600) * 3600.0
