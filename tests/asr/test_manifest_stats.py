"""Counts against hand counts, and the picture."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from asr.errors import CepstraError, ManifestError
from asr.manifest import Utterance
from asr.manifest.stats import NO_SOURCE, count, plot_lengths


def rows() -> list[Utterance]:
    here = Path("/a.wav")
    return [
        Utterance(here, 1.0, "Lights on!", speaker="ann", source="kitchen"),
        Utterance(here, 3.0, "lights off", speaker="bob", source="kitchen"),
        Utterance(here, 2.0, "set 5 timers", speaker="ann", source="hall"),
        Utterance(here, 4.0, "lights"),
    ]


def test_counts() -> None:
    total, by_source = count(rows())
    assert list(by_source) == [NO_SOURCE, "hall", "kitchen"]
    assert total.to_dict(most_common=1) == {
        "rows": 4,
        "hours": round(10 / 3600, 4),
        "speakers": 2,
        "rows_without_speaker": 1,
        "words": 8,
        "vocabulary": 6,  # lights on off set five timers
        "words_per_row": 2.0,
        "seconds": {"shortest": 1.0, "median": 2.5, "p95": 3.85, "longest": 4.0},
        "most_common": {"lights": 3},
    }
    assert (by_source["kitchen"].rows, len(by_source["kitchen"].speakers), by_source["kitchen"].words) == (2, 2, 4)


def test_nothing_to_count(tmp_path: Path) -> None:
    total, by_source = count([])
    assert (total.to_dict()["rows"], total.words_per_row, total.lengths()["longest"], by_source) == (0, 0.0, 0.0, {})
    with pytest.raises(ManifestError, match="nothing to draw"):
        plot_lengths(tmp_path / "x.png", by_source)


@pytest.mark.parametrize("sources", [1, 3, 15])
def test_the_picture_has_colours_for_the_sources(tmp_path: Path, sources: int) -> None:
    many = [Utterance(Path("/a.wav"), 1 + n % 7, "x", source=f"set {n % sources}") for n in range(300)]
    long_one = [Utterance(Path("/a.wav"), 3600.0, "x", source="set 0")]
    plot_lengths(tmp_path / "lengths.png", count(many + long_one)[1])
    pixels = np.rint(imread(tmp_path / "lengths.png")[..., :3].reshape(-1, 3) * 255)
    colours, times = np.unique(pixels, axis=0, return_counts=True)
    # bars of one colour each, far larger than the antialiased edges of letters
    vivid = colours[(times > 200) & (np.ptp(colours, axis=1) > 60)]
    assert len(vivid) >= min(sources, 6)


def drawn(path: Path, rows: list[Utterance]) -> list[str]:
    """The texts in the picture, which matplotlib notes beside the shapes of their letters."""
    plot_lengths(path, count(rows)[1])
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


def test_what_the_picture_says(tmp_path: Path) -> None:
    rows = [Utterance(Path("/a.wav"), seconds, "x", source="hall") for seconds in (1.0, 2.5, 2.5, 2.6)]
    texts = drawn(tmp_path / "a.svg", rows)
    assert "4 rows, 8.6 s" in texts
    assert {"length (s)", "rows"} <= set(texts)
    assert "hall" not in " ".join(texts)  # one colour needs no legend
    assert not [
        text for text in texts[texts.index("length (s)") :] if "." in text and text != "4 rows, 8.6 s"
    ]  # whole rows
    assert "1 row, 20.0 min" in drawn(tmp_path / "b.svg", [Utterance(Path("/a.wav"), 1200, "x")])
    many = [Utterance(Path("/a.wav"), 4000.0, "x")] * 1200
    texts = drawn(tmp_path / "c.svg", many)
    assert "1,200 rows, 1,333.33 h" in texts
    assert any(re.fullmatch(r"1,\d00|1,\d50", text) for text in texts)
    assert "6000" in texts  # the axis ends on a whole hour


def test_any_name_of_a_source_can_be_drawn(tmp_path: Path) -> None:
    names = ["a" * 300, "_hidden", "$x_1$", "100 % $", "語", "two\nlines"]  # a warning would fail the test
    texts = drawn(tmp_path / "a.svg", [Utterance(Path("/a.wav"), 1.5, "x", source=name) for name in names])
    for shown in ("a" * 39 + "…", "_hidden", "$x_1$", "100 % $", "語", "two?lines"):
        assert any(text.strip() == shown for text in texts)


def test_pictures_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_source = count(rows())[1]
    with pytest.raises(CepstraError, match=r"lengths\.xyz.*\.png, \.svg, \.pdf"):
        plot_lengths(tmp_path / "lengths.xyz", by_source)
    with pytest.raises(ManifestError, match="can't be written"):
        plot_lengths(Path("/proc/none/lengths.png"), by_source)
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ManifestError, match=r"need matplotlib: pip install 'cepstra\[train\]'"):
        plot_lengths(tmp_path / "lengths.png", by_source)
    assert list(tmp_path.iterdir()) == []
