"""A few spoken words, from nothing to text on the command line: train, export, transcribe without torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile as sf
import torch

from asr.errors import CepstraError
from asr.evaluation.scoring import score
from asr.training.callbacks import Pictures
from asr.training.run import train
from asr.training.settings import build
from audio.augmentation import change_speed
from audio.reading import read_audio
from export.convert import export
from export.loss import read_development

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SAMPLES = Path(__file__).resolve().parent.parent / "data_manifests" / "samples"

# As `cepstra`, in a Python where torch and what else only training needs can't be imported
WITHOUT_TORCH = """
import sys
for name in ("torch", "torchaudio", "lightning", "librosa", "onnx", "scipy", "pandas"):
    sys.modules[name] = None
from asr.cli import main
main()
"""


def spoken() -> Iterator[tuple[bool, str, NDArray[np.float32]]]:
    """Four words by a synthesiser's voices: (is it held out?, word, samples at 16 kHz)."""
    learnt = product((25, 40, 55, 70), (130, 160, 190))  # pitch, words per minute
    held_out = product((33, 62), (145, 175))
    for pitch, speed in [*learnt, *held_out]:
        for voice, word in product(("en-us", "en-us+f3"), ("lights", "music", "window", "stop")):
            command = ["espeak-ng", "-v", voice, "-p", str(pitch), "-s", str(speed), "--stdout", word]
            wav = subprocess.run(command, capture_output=True, check=True).stdout
            yield pitch in (33, 62), word, read_audio(wav)


def cut_out() -> Iterator[tuple[bool, str, NDArray[np.float32]]]:
    """Four words out of the recordings that ship, at many speeds."""
    words = {"microwave", "batteries", "computer", "evening"}
    rng = np.random.default_rng(0)
    for line in (SAMPLES / "samples.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for word, start, end in row["words"]:
            if word not in words:
                continue
            clip = read_audio(SAMPLES / row["audio_filepath"], offset=start, duration=end - start)
            for i, speed in enumerate(np.linspace(0.8, 1.25, 31)):
                varied = change_speed(clip, float(speed))
                padding = rng.integers(0, 3000, 2)
                yield (
                    i % 4 == 2,
                    word,
                    np.pad(varied, padding) + rng.normal(0, 1e-3, len(varied) + sum(padding)).astype("f4"),
                )


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl and dev.jsonl."""
    folder = tmp_path_factory.mktemp("words")
    manifests: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for i, (held_out, word, samples) in enumerate(spoken() if shutil.which("espeak-ng") else cut_out()):
        sf.write(folder / f"{i}.wav", samples, 16000)
        row = {"audio_filepath": f"{i}.wav", "duration": len(samples) / 16000, "text": word}
        manifests[held_out].append(row)
    for held_out, rows in manifests.items():
        name = "dev.jsonl" if held_out else "train.jsonl"
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def transcribed(bundle: Path, manifest: Path) -> list[dict[str, Any]]:
    """What the command line writes, in a Python without torch."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "transcribe", "--no-speech-detection", "--model", str(bundle),
         "--format", "json", "--manifest", str(manifest)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def hard_to_round(best: Path, target: Path) -> Path:
    """The same function, with every 16th value before a matrix ten thousand times louder and as much less heeded."""
    content = torch.load(best, map_location="cpu", weights_only=True)
    weights = content["state_dict"]
    # Beside the loud ones the others vanish in 8 bits
    for name in [name for name in weights if name.endswith("ff.up.weight")]:
        block = name.removesuffix("up.weight")
        weights[f"{block}up.weight"][::16] *= 1e4
        weights[f"{block}up.bias"][::16] *= 1e4
        weights[f"{block}down.weight"][:, ::16] /= 1e4
    for norm, matrix in (("ff_norm", "ff.up"), ("attention_norm", "attention.qkv")):
        for name in [name for name in weights if name.endswith(f".{norm}.weight")]:
            block = name.removesuffix(f"{norm}.weight")
            weights[name][::16] *= 1e4
            weights[f"{block}{norm}.bias"][::16] *= 1e4
            weights[f"{block}{matrix}.weight"][:, ::16] /= 1e4
    torch.save(content, target)
    return target


def test_words_are_learnt_exported_and_transcribed(words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pictures, "on_validation_end", lambda *_: None)  # they have tests of their own
    settings: dict[str, Any] = {
        "output": str(words / "run"),
        "model": {
            "d_model": 64, "encoder_layers": 2, "encoder_ff": 128, "decoder_layers": 1, "decoder_ff": 128,
            "windows": [8],
        },
        "vocab_size": 64,
        "precision": "32-true",
        "accelerator": "cpu",
        "steps": 400,
        "validate_every": 200,
        "average": 1,
        "optimiser": {"learning_rate": 3e-3, "warmup_steps": 40},
        "augmentation": {"room_probability": 0, "noise_probability": 0.2, "narrow_band_probability": 0},
        "spec_augment": {"time_masks": 0},
        "data": {
            "train": [{"manifest": str(words / "train.jsonl")}],
            "validation": [{"manifest": str(words / "dev.jsonl")}],
            "cache": str(words / "cache"),
            "seconds_per_batch": 16,
            "workers": 0,
        },
    }  # fmt: skip
    best = train(build(settings))
    bundle = words / "words.cepstra"
    export(best, bundle)
    results = transcribed(bundle, words / "dev.jsonl")
    said = [json.loads(line)["text"] for line in (words / "dev.jsonl").read_text().splitlines()]
    heard = [result["text"] for result in results]
    assert np.mean([a == b for a, b in zip(said, heard, strict=True)]) >= 0.9, list(zip(said, heard, strict=True))
    # What validation said while training is what the exported model does
    report = json.loads((words / "run" / "report.json").read_text())
    assert score(said, heard).total.wer == pytest.approx(report["validation_wer"], abs=1e-5)
    for result, word in zip(results, said, strict=True):
        if result["text"] == word:
            (only,) = result["words"]
            assert 0 <= only["start"] < only["end"] <= result["duration"] + 0.03
    # Eight bits say the same, and are held to what they cost
    eight, refused = words / "eight.cepstra", words / "refused.cepstra"
    development = read_development([words / "dev.jsonl"])
    exported = export(best, eight, precision="int8", development=development, max_wer_loss=10)
    assert [loss.utterances for loss in exported.losses] == [len(said)] * 2
    again = [result["text"] for result in transcribed(eight, words / "dev.jsonl")]
    assert np.mean([a == b for a, b in zip(heard, again, strict=True)]) >= 0.9, list(zip(heard, again, strict=True))
    with pytest.raises(CepstraError, match=r"int8 costs [\d.]+ points .* more than 10 \(.*not written"):
        export(
            hard_to_round(best, words / "loud.ckpt"), refused, precision="int8", development=development,
            max_wer_loss=10,
        )  # fmt: skip
    assert not refused.exists()


@pytest.mark.skipif(not SAMPLES.exists(), reason="no recordings ship with this copy")
def test_the_recordings_that_ship_would_do_without_a_synthesiser() -> None:
    clips = list(cut_out())
    assert {word for _, word, _ in clips} == {"microwave", "batteries", "computer", "evening"}
    assert sum(held_out for held_out, _, _ in clips) > len(clips) / 5
