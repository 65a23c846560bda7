"""A model and clips for `cepstra transcribe`, and the command in this process."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from asr.cli import main
from asr.recognizer import Recognizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from asr.results import Result

    Run = Callable[..., tuple[int, str, str]]

RATE = 16000


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Ten clips of 0.4 to 1.3 s, to be read only."""
    folder = tmp_path_factory.mktemp("clips")
    rng = np.random.default_rng(0)
    paths = [folder / f"clip {i}.wav" for i in range(10)]
    for i, path in enumerate(paths):
        loudness = 0.1 * np.abs(np.sin(np.arange(6400 + 1600 * i) / (2000 + 300 * i)))
        soundfile.write(path, rng.normal(0, 1, len(loudness)) * loudness, RATE)
    return paths


@pytest.fixture
def run(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: exit code, standard output, standard error."""

    def call(*arguments: object, stdin: bytes | None = None) -> tuple[int, str, str]:
        settings = [] if "--model" in arguments else ["--model", str(model)]
        monkeypatch.setattr(
            sys, "argv", ["cepstra", "transcribe", "--no-speech-detection", *map(str, arguments), *settings]
        )
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return (end.value.code if isinstance(end.value.code, int) else int(end.value.code is not None)), out, err

    return call


@pytest.fixture(scope="module")
def results(model: Path, clips: list[Path]) -> list[Result]:
    return Recognizer(model, speech_detection=False).transcribe([str(clip) for clip in clips])
