"""Make the bundle of today's format, and what it answers, for test_old_bundles.py.

Run once, when asr.bundle.FORMAT is raised (python tests/asr/old_bundles/make.py, with the training extra), and commit
what it writes. Those of earlier formats stay as they are: that they are still read is the point.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from asr.bundle import FORMAT, write_bundle
from asr.model.config import ModelConfig
from asr.model.transformer import Transformer
from asr.recognizer import Recognizer
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Trained
from audio.mfcc import MfccSpec
from export.convert import round_weights, to_bundle

HERE = Path(__file__).parent
RATE = 2000  # low, so that the front end's matrix is small


def clip() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """1.2 s of a tone that rises, in numbers that any numpy makes."""
    seconds = np.arange(int(1.2 * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * (100 + 300 * seconds) * seconds)).astype(np.float32)


def main() -> None:
    """Write format{FORMAT}.cepstra and format{FORMAT}.json beside this file."""
    torch.manual_seed(4)
    tokenizer = Tokenizer.train(["turn on the lights", "turn off the lights", "play the music"], vocab_size=40)
    spec = MfccSpec(
        sample_rate=RATE, frame=50, hop=20, fft=64, high_hz=RATE / 2, n_mels=12, n_cepstra=12, spread=(2.0,) * 12
    )
    config = ModelConfig(
        d_model=16, heads=2, encoder_layers=1, encoder_ff=32, decoder_layers=1, decoder_ff=32, windows=(4,)
    )
    model = Transformer(config, spec, tokenizer.vocab_size)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.4 * torch.randn_like(weight))
    facts: dict[str, Any] = {
        "training": {"hours_of_data": 1.5, "sources": ["none"], "steps": 0},
        "licence": "Apache-2.0",
        "note": "random weights: for tests",
        "error_rates": {"greedy": {"words": {"utterances": 8, "wer": 0.5, "cer": 0.25}}},
    }
    bundle = round_weights(to_bundle(Trained(model.eval(), tokenizer, "en", {}), "tiny", facts), "float16")
    write_bundle(HERE / f"format{FORMAT}.cepstra", bundle)
    result = Recognizer(bundle, threads=1, speech_detection=False).transcribe(clip())
    answer = {
        "text": result.text,
        "confidence": round(result.confidence, 6),
        "words": [[word.word, round(word.start, 3), round(word.end, 3)] for word in result.words],
        "facts": bundle.facts,
    }
    (HERE / f"format{FORMAT}.json").write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
