"""What tests of training share, a corpus that is made, learnt and read in seconds; and what is recognised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile as sf

from asr.bundle import write_bundle
from asr.recognizer import Recognizer
from audio.reading import read_audio
from tests.asr.listening import RATE, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained
    from asr.training.config import TrainConfig

TONES = {"yes": (500, 1500), "no": (1500, 500), "stop": (800, 2400), "go": (2400, 800)}  # Hz, one after the other


def chirp(words: list[str], rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Two tones per word, in a little noise, 16 kHz."""
    parts = [np.zeros(rng.integers(800, 1600))]
    for word in words:
        for hz in TONES[word]:
            length = int(rng.integers(1600, 2400))
            tone = np.sin(2 * np.pi * hz * rng.uniform(0.97, 1.03) * np.arange(length) / 16000)
            parts.append(0.3 * tone * np.hanning(length))
        parts.append(np.zeros(rng.integers(400, 1200)))
    clean = np.concatenate(parts)
    return (clean + rng.normal(0, 0.005, len(clean))).astype(np.float32)


@pytest.fixture(scope="session")
def chirps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl (40 utterances) and dev.jsonl (6) of one to three words of tones."""
    folder = tmp_path_factory.mktemp("chirps")
    rng = np.random.default_rng(0)
    for name, count in (("train", 40), ("dev", 6)):
        rows = []
        for i in range(count):
            words = [str(word) for word in rng.choice(list(TONES), rng.integers(1, 4))]
            samples = chirp(words, rng)
            sf.write(folder / f"{name}{i}.wav", samples, 16000)
            rows.append({"audio_filepath": f"{name}{i}.wav", "duration": len(samples) / 16000, "text": " ".join(words)})
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="session")
def settings_of(chirps: Path) -> Callable[..., dict[str, Any]]:
    """settings_of(output, steps=2): what YAML would hold of a run of a few seconds, with these changes."""

    def settings(output: Path, **changes: Any) -> dict[str, Any]:
        return {
            "output": str(output),
            "model": {
                "d_model": 32, "heads": 2, "encoder_layers": 2, "encoder_ff": 64, "decoder_layers": 1, "decoder_ff": 64,
                "windows": [8],
            },
            "vocab_size": 40,
            "precision": "32-true",
            "accelerator": "cpu",
            "steps": 6,
            "optimiser": {"warmup_steps": 3},
            "data": {
                "train": [{"manifest": str(chirps / "train.jsonl")}],
                "validation": [{"manifest": str(chirps / "dev.jsonl")}],
                "cache": str(chirps / "cache"),
                "seconds_per_batch": 8,
                "workers": 0,
            },
            **changes,
        }  # fmt: skip

    return settings


@pytest.fixture
def chirp_settings(settings_of: Callable[..., dict[str, Any]], tmp_path: Path) -> dict[str, Any]:
    """Those of a run in the folder "run"."""
    return settings_of(tmp_path / "run")


@pytest.fixture
def chirp_config(chirp_settings: dict[str, Any]) -> Callable[..., TrainConfig]:
    """The same as a configuration: chirp_config(steps=2) changes what it is told."""
    from asr.training.settings import build

    return lambda **changes: build(chirp_settings | changes)


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take longer than these runs."""
    from asr.training.callbacks import Pictures

    monkeypatch.setattr(Pictures, "on_validation_end", lambda *_: None)


@pytest.fixture(scope="module")
def stream() -> NDArray[np.float32]:
    """Three commands with pauses between them, exact as 16-bit samples."""
    parts = [np.zeros(RATE, np.float32)]
    for name in ("please_save_the_file", "five_five_two_eight_five", "turn_the_speaker_down"):
        parts += [read_audio(SAMPLES / f"{name}.wav"), np.zeros(RATE, np.float32)]
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def bundle(toy: tuple[Trained, Bundle]) -> Bundle:
    """Of the toy."""
    return toy[1]


@pytest.fixture(scope="module")
def recognizer(bundle: Bundle) -> Recognizer:
    """Of the toy, which hears words in everything."""
    return Recognizer(bundle, speech_detection=False)


@pytest.fixture(scope="module")
def model(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the toy's bundle."""
    path = tmp_path_factory.mktemp("model") / "toy.cepstra"
    write_bundle(path, bundle)
    return path
