"""A bundle of every format that was ever written is read, and answers what it answered then.

old_bundles/format1.cepstra is a model of random weights, made with the first format. When FORMAT in asr/bundle.py is
raised, `python tests/asr/old_bundles/make.py` makes the next one and its answers, to be committed beside it; the
earlier ones are never made again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asr.bundle import FORMAT, read_bundle
from asr.recognizer import Recognizer

FOLDER = Path(__file__).parent / "old_bundles"


def clip() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """What make.py plays to a new one: 1.2 s of a tone that rises, at 2 kHz."""
    seconds = np.arange(2400) / 2000
    return (0.3 * np.sin(2 * np.pi * (100 + 300 * seconds) * seconds)).astype(np.float32)


def test_there_is_one_of_every_format() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.cepstra")) == [
        f"format{n}.cepstra" for n in range(1, FORMAT + 1)
    ]


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_it_answers_what_it_answered(version: int) -> None:
    wanted: dict[str, Any] = json.loads((FOLDER / f"format{version}.json").read_text(encoding="utf-8"))
    bundle = read_bundle(FOLDER / f"format{version}.cepstra")
    result = Recognizer(bundle, threads=1, speech_detection=False).transcribe(clip())
    assert result.text == wanted["text"] != ""
    assert result.confidence == pytest.approx(wanted["confidence"], abs=1e-3)
    for word, (text, *times) in zip(result.words, wanted["words"], strict=True):
        assert word.word == text
        assert [word.start, word.end] == pytest.approx(times, abs=0.02)
    assert bundle.facts == wanted["facts"]
