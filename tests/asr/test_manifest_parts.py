"""Which rows are only part of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from asr.manifest import Utterance
from asr.manifest.parts import are_parts, named, stretch
from audio.reading import RawFormat


def test_parts(tmp_path: Path) -> None:
    for name in ("whole", "start", "late", "shared", "twice", "nearly"):
        soundfile.write(tmp_path / f"{name}.wav", np.zeros(16000), 8000)  # 2 s
    (tmp_path / "damaged.wav").write_text("no sound")
    (tmp_path / "headerless").write_bytes(bytes(32000))

    def row(name: str, duration: float, offset: float = 0.0) -> Utterance:
        return Utterance(tmp_path / name, duration, "x", offset)

    rows = {
        row("whole.wav", 2.0): False,
        row("start.wav", 1.2): True,  # ends before the file does
        row("nearly.wav", 1.95): False,  # durations are rounded
        row("late.wav", 0.5, 1.5): True,
        row("shared.wav", 1.999): True,
        row("shared.wav", 1.998): True,
        row("damaged.wav", 1.0): False,
        row("none.wav", 1.0): False,
        row("headerless", 0.5): False,
    }
    assert are_parts(list(rows)) == list(rows.values())
    assert are_parts([row("twice.wav", 2.0)] * 2) == [False, False]  # the same row twice
    assert are_parts([row("headerless", 0.5)], RawFormat("PCM_16", 16000)) == [True]
    assert are_parts([]) == []


def test_names_keep_enough_digits() -> None:
    row = Utterance(Path("/talk.wav"), 0.2, "x", 12345.678)
    assert stretch(row, "-") == "12345.678-12345.878"
    assert stretch(Utterance(Path("/talk.wav"), 0.2, "x", 0.1), "-") == "0.1-0.3"
    assert named("talk.wav", row, part=True) == "talk.wav#t=12345.678,12345.878"
    assert named("talk.wav", row, part=False) == "talk.wav"
