"""Checkpoints: plain data, averaged exactly, refused when damaged."""

from __future__ import annotations

import math
import os
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import ConfigError
from asr.model.config import ModelConfig
from asr.model.transformer import Transformer
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import average, read_checkpoint
from audio.mfcc import MfccSpec

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = ModelConfig(d_model=16, heads=2, encoder_layers=1, encoder_ff=16, decoder_layers=1, decoder_ff=16)


def content(seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    tokenizer = Tokenizer.train(["yes no"], 40)
    model = Transformer(CONFIG, MfccSpec(), tokenizer.vocab_size)
    return {
        "state_dict": {f"model.{name}": value for name, value in model.state_dict().items()},
        "global_step": 12,
        "cepstra": {
            "model": CONFIG.to_dict(),
            "front_end": MfccSpec().to_dict(),
            "tokenizer": tokenizer.to_json(),
            "language": "en",
        },
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "good.ckpt"
    torch.save(content(), path)
    return path


def test_reading_gives_the_model_back(saved: Path) -> None:
    trained = read_checkpoint(saved)
    assert trained.model.config == CONFIG
    assert not trained.model.training
    assert trained.tokenizer == Tokenizer.train(["yes no"], 40)
    assert (trained.language, trained.steps) == ("en", 12)
    for name, value in content()["state_dict"].items():
        assert torch.equal(trained.model.state_dict()[name.removeprefix("model.")], value)


def test_the_average_is_the_mean_of_the_weights(tmp_path: Path) -> None:
    paths = [tmp_path / f"{seed}.ckpt" for seed in range(3)]
    contents = [content(seed) for seed in range(3)]
    for path, each in zip(paths, contents, strict=True):
        each["state_dict"]["model.count"] = torch.tensor(7)
        torch.save(each, path)
    average(paths, tmp_path / "mean.ckpt", training={"validation_wer": 0.5})
    mean = torch.load(tmp_path / "mean.ckpt", weights_only=True)
    for name, value in mean["state_dict"].items():
        if name == "model.count":
            assert value == 7
            continue
        expected = torch.stack([each["state_dict"][name].double() for each in contents]).mean(dim=0)
        torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=1e-8)
        assert value.dtype == torch.float32
    assert mean["cepstra"]["training"] == {"validation_wer": 0.5}
    assert [path.name for path in tmp_path.iterdir() if "mean" in path.name] == ["mean.ckpt"]


def test_the_average_of_one_is_itself(saved: Path, tmp_path: Path) -> None:
    average([saved], tmp_path / "same.ckpt")
    assert all(
        torch.equal(value, content()["state_dict"][name])
        for name, value in torch.load(tmp_path / "same.ckpt", weights_only=True)["state_dict"].items()
    )


class Harmful:
    """Runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_reading_executes_nothing(tmp_path: Path, how: str) -> None:
    bad = {**content(), "more": Harmful(tmp_path / "executed")}
    path = tmp_path / "bad.ckpt"
    if how == "torch":
        torch.save(bad, path)
    else:
        path.write_bytes(pickle.dumps(bad))
    with pytest.raises(ConfigError, match=r"bad\.ckpt: not a checkpoint, or damaged"):
        read_checkpoint(path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("cepstra"), "not a checkpoint of `cepstra train`"),
        (lambda c: c.pop("state_dict"), "not a checkpoint of `cepstra train`"),
        (lambda c: c.update(state_dict={"model.x": 3}), "not a checkpoint of `cepstra train`"),
        (lambda c: c["cepstra"].pop("front_end"), "its description can't be used (KeyError: 'front_end')"),
        (lambda c: c["cepstra"].update(model=[1]), "model: settings are list"),
        (lambda c: c["cepstra"]["model"].update(heads=3), "heads=3"),
        (lambda c: c["cepstra"].update(tokenizer="{}"), "tokenizer"),
        (lambda c: c["cepstra"]["model"].update(d_model=32), "its weights don't fit its own settings"),
        (lambda c: c["state_dict"].popitem(), "its weights don't fit its own settings (decoder.norm.bias is missing)"),
        (lambda c: c["state_dict"].update({"model.more": torch.zeros(1)}), "(more isn't one of them)"),
        (lambda c: c["state_dict"].update({7: torch.zeros(1)}), "not a checkpoint of `cepstra train`"),
        (lambda c: c["state_dict"].update({"model.ctc_head.bias": torch.zeros(9)}), "ctc_head.bias is (9,), not ("),
        (lambda c: c["state_dict"]["model.ctc_head.bias"].fill_(math.nan), "(ctc_head.bias holds what is no number)"),
        (lambda c: c["state_dict"]["model.ctc_head.bias"][1:2].fill_(math.inf), "(ctc_head.bias holds what is no"),
        # What it says of itself is never what memory is taken for
        (lambda c: c["cepstra"]["model"].update(d_model=8000), "its weights don't fit its own settings"),
        (lambda c: c["cepstra"]["model"].update(d_model=10**30), "d_model is more than 8192"),
        (lambda c: c["cepstra"]["model"].update(encoder_ff=2**62), "encoder_ff is more than 65536"),
        (lambda c: c["cepstra"]["model"].update(encoder_layers=10**9), "encoder_layers is more than 256"),
        (lambda c: c["cepstra"]["model"].update(stride=10**9), "stride is more than 100"),
        (lambda c: c["cepstra"]["model"].update(windows=[10**30]), "splice and windows are at most"),
        (lambda c: c["cepstra"]["front_end"].update(fft=65536, n_mels=60000), "n_mels is at most 1024"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, change: Any, message: str) -> None:
    damaged = content()
    change(damaged)
    path = tmp_path / "bad.ckpt"
    torch.save(damaged, path)
    with pytest.raises(ConfigError) as caught:
        read_checkpoint(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.ckpt: no such file; give best\.ckpt"):
        read_checkpoint(tmp_path / "none.ckpt")
    with pytest.raises(ConfigError, match=r": is a folder; give best\.ckpt"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("given", "there"),
    [("", "best.ckpt"), ("model.ckpt", "best.ckpt"), ("", "last.ckpt"), ("best.ckpt", "last.ckpt")],
)
def test_the_checkpoint_that_was_meant_is_named(tmp_path: Path, given: str, there: str) -> None:
    """A folder instead of its file, or the best of a run that isn't finished."""
    (tmp_path / there).write_bytes(b"a checkpoint")
    with pytest.raises(ConfigError) as caught:
        read_checkpoint(tmp_path / given)
    assert str(tmp_path / there) in str(caught.value)
    assert ("go on with its `cepstra train`" in str(caught.value)) == (there == "last.ckpt")


@given(st.data())
@settings(derandomize=True, max_examples=40, deadline=None)
def test_damaged_files_are_refused_or_read(
    saved: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(saved.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    for place in data.draw(st.lists(st.integers(0, max(0, len(content) - 1)), max_size=5)):
        content[place : place + 1] = bytes([data.draw(st.integers(0, 255))])
    path = tmp_path_factory.getbasetemp() / "damaged.ckpt"
    path.write_bytes(content)
    try:
        read_checkpoint(path)
    except ConfigError as error:
        assert "damaged.ckpt" in str(error)  # noqa: PT017  any other exception is the failure looked for


@given(st.binary(max_size=200))
@settings(derandomize=True, max_examples=40, deadline=None)
def test_rubbish_is_refused(tmp_path_factory: pytest.TempPathFactory, rubbish: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "rubbish.ckpt"
    path.write_bytes(rubbish)
    with pytest.raises(ConfigError, match=r"rubbish\.ckpt"):
        read_checkpoint(path)
