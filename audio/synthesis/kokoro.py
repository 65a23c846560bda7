"""Kokoro-82M: natural voices, and blends of them; slow (about real time on one core)."""

from __future__ import annotations

import importlib
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnxruntime
import soxr

from audio.errors import SynthesisError
from audio.synthesis.engine import SAMPLE_RATE, Voice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from audio.synthesis.engine import Array

VARIABLE: Final = "CEPSTRA_KOKORO"  # of the environment: the folder
INSTALL: Final = (
    "pip install 'cepstra[synthesis]' (for its pronunciation), and --kokoro FOLDER or CEPSTRA_KOKORO=FOLDER with the "
    "model (see docs/synthesis.md)"
)

_RATE: Final = 24000  # Hz
_LONGEST: Final = 500  # phonemes
_STYLE: Final = 256  # numbers of a style vector; there is one for each number of phonemes


class Kokoro:
    """A folder with the model (.onnx), vocab.json (anywhere in it) and voices/NAME.bin."""

    makes_speakers = False

    def __init__(self, folder: str | None = None) -> None:
        """folder: without it, the environment says. Raises SynthesisError."""
        if (why := missing(folder)) is not None:
            raise SynthesisError(f"{why}; install it: {INSTALL}")
        self._folder = _folder(folder)
        styles = sorted(path.stem for path in (self._folder / "voices").glob("*.bin"))
        english = [name for name in styles if name[:1] in "ab"]
        self.voices = tuple(english or styles)
        self._session: Any = None
        self._vocabulary: dict[str, int] = {}
        self._styles: dict[str, Array] = {}
        self._readers: dict[bool, Any] = {}

    def draw(self, voice: str, others: Sequence[str], rng: np.random.Generator) -> Voice:
        """The voice alone, or blended with one or two others; all weights are above 0, its own is the largest."""
        count = min(len(others), int(rng.choice(3, p=[0.5, 0.35, 0.15])))
        chosen = [voice, *(str(name) for name in rng.choice(list(others), count, replace=False))] if count else [voice]
        hundredths = np.sort(np.maximum(1, np.rint(100 * rng.dirichlet(np.full(len(chosen), 2.0)))))[::-1]
        weights = {name: float(part) / 100 for name, part in zip(chosen, hundredths, strict=True)}
        blend = "+".join(f"{name}*{weight:g}" for name, weight in weights.items())
        return Voice(blend if count else voice, {"weights": weights, "speed": float(rng.uniform(0.8, 1.3))})

    def speak(self, text: str, voice: Voice, rng: np.random.Generator) -> Array:
        """As `Engine.speak`."""
        del rng  # nothing is left to chance
        self._load()
        weights: dict[str, float] = voice.settings["weights"]
        heaviest = next(iter(weights))
        phonemes = self._reader(british=heaviest.startswith("b"))(text) or ""
        ids = [self._vocabulary[sign] for sign in phonemes if sign in self._vocabulary][:_LONGEST]
        if not ids:
            raise SynthesisError("says nothing of this text")
        total = sum(weights.values())
        style = sum((weight / total) * self._style(name) for name, weight in weights.items())
        row = np.asarray(style, np.float32)[min(len(ids), len(self._style(heaviest)) - 1)][None]
        names = [one.name for one in self._session.get_inputs()]
        given = {"tokens": np.array([[0, *ids, 0]], np.int64), "style": row}
        feed = {"input_ids" if name == "input_ids" else name: given.get(name, given["tokens"]) for name in names}
        feed["speed"] = np.array([voice.settings["speed"]], np.float32)
        sound = np.asarray(self._session.run(None, feed)[0], np.float32).ravel()
        resampled: Array = soxr.resample(sound, _RATE, SAMPLE_RATE)
        return np.clip(resampled, np.float32(-1), np.float32(1))

    def _load(self) -> None:
        if self._session is not None:
            return
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # there is a process for each core
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(_model(self._folder)), options, providers=["CPUExecutionProvider"]
        )
        path = _vocabulary(self._folder)
        assert path is not None  # noqa: S101  missing() has looked
        try:
            self._vocabulary = dict(json.loads(path.read_text(encoding="utf-8"))["vocab"])
        except (OSError, ValueError, KeyError, TypeError):
            raise SynthesisError(f"{path}: no vocabulary of Kokoro; fetch it anew") from None

    def _reader(self, *, british: bool) -> Any:  # noqa: ANN401  the package is optional, and so are its types
        if british not in self._readers:
            self._readers[british] = importlib.import_module("hibari.g2p").G2P(british=british)
        return self._readers[british]

    def _style(self, name: str) -> Array:
        if name not in self._styles:
            path = self._folder / "voices" / f"{name}.bin"
            numbers = np.fromfile(path, np.float32)
            if not len(numbers) or len(numbers) % _STYLE:
                raise SynthesisError(f"{path}: no voice style of Kokoro; fetch it anew")
            self._styles[name] = numbers.reshape(-1, _STYLE)
        return self._styles[name]


def _folder(folder: str | None) -> Path:
    return Path(folder or os.environ.get(VARIABLE, ""))


def _model(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("*.onnx"))), None)


def _vocabulary(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("vocab.json")) or sorted(folder.glob("x/**/vocab.json"))), None)


def missing(folder: str | None = None) -> str | None:
    """Why it can't be used, if it can't."""
    if not folder and not os.environ.get(VARIABLE):
        return "no folder with Kokoro's model is given"
    path = _folder(folder)
    if not path.is_dir():
        return f"{path}: there is no such folder"
    parts = {
        "model (.onnx)": _model(path),
        "vocab.json": _vocabulary(path),
        "voices (voices/*.bin)": next((path / "voices").glob("*.bin"), None),
    }
    lacking = [name for name, found in parts.items() if found is None]
    if lacking:
        return f"{path}: holds no {lacking[0]} of Kokoro"
    return None if find_spec("hibari") else "the package hibari-tts, which knows the pronunciation, isn't installed"
