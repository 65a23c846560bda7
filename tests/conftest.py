"""What every test may use."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained

_CHECKOUT = Path(__file__).resolve().parent.parent


def _corpus() -> Path:
    """The folder of real recordings, which need not exist."""
    return Path(os.environ.get("CEPSTRA_CORPUS") or _CHECKOUT.parent / "shared" / "corpus")


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start, also where they run in the background: there shells ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs real recordings where there are none."""
    if _corpus().is_dir():
        return
    skip = pytest.mark.skip(reason=f"no recordings at {_corpus()} (set CEPSTRA_CORPUS)")
    for item in items:
        if item.get_closest_marker("real"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real recordings: SET.train.jsonl, SET.test.jsonl and the sound they name."""
    path = _corpus()
    if not path.is_dir():
        pytest.skip(f"no recordings at {path} (set CEPSTRA_CORPUS)")
    return path


@pytest.fixture(scope="session")
def toy() -> tuple[Trained, Bundle]:
    """A very small model with random weights, and its bundle: exported once, since that takes ten seconds."""
    import torch

    from asr.model.config import ModelConfig
    from asr.model.transformer import Transformer
    from asr.tokenizer import Tokenizer
    from asr.training.checkpoint import Trained
    from audio.mfcc import MfccSpec
    from export.convert import to_bundle

    torch.manual_seed(0)
    tokenizer = Tokenizer.train(["turn on the lights", "turn off the lights", "play the music"], vocab_size=40)
    config = ModelConfig(
        d_model=32,
        heads=2,
        encoder_layers=2,
        encoder_ff=64,
        decoder_layers=2,
        decoder_ff=48,
        windows=(4,),
        halve_after=1,
    )
    model = Transformer(config, MfccSpec(), tokenizer.vocab_size)
    with torch.no_grad():
        for weight in model.parameters():  # no bias is 0 and no gain 1, so that none goes unnoticed
            weight.add_(0.1 * torch.randn_like(weight))
    trained = Trained(model.eval(), tokenizer, "en", {})
    return trained, to_bundle(trained, "toy", {})
