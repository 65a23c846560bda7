"""Weights in half precision: what comes back, what is refused, and that a run and an export go on from them."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from asr.errors import ConfigError
from asr.training.checkpoint import Trained, read_checkpoint
from asr.training.weights import write_weights
from export.convert import export_weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from asr.bundle import Bundle

Toy = tuple["Trained", "Bundle"]


def facts(trained: Trained) -> dict[str, Any]:
    return {
        "tokenizer": trained.tokenizer.to_json(), "language": trained.language, "training": {"steps": 3},
        "model": trained.model.config.to_dict(), "front_end": trained.model.spec.to_dict(),
    }  # fmt: skip


@pytest.fixture
def path(toy: Toy, tmp_path: Path) -> Path:
    target = tmp_path / "small.safetensors"
    write_weights(target, toy[0].model.state_dict(), facts(toy[0]), 12)
    return target


def test_what_was_written_comes_back_rounded_to_half_precision(toy: Toy, path: Path) -> None:
    trained, again = toy[0], read_checkpoint(path)
    assert again.model.config == trained.model.config
    assert again.model.spec == trained.model.spec
    assert again.tokenizer == trained.tokenizer
    assert (again.language, again.steps, again.facts["training"]) == ("en", 12, {"steps": 3})
    assert not again.model.training
    for name, value in trained.model.state_dict().items():
        found = again.model.state_dict()[name]
        assert found.dtype == torch.float32
        assert torch.equal(found, value.half().float())


def test_any_safetensors_reader_sees_the_model_in_half_precision(toy: Toy, path: Path) -> None:
    values = sum(value.numel() for value in toy[0].model.state_dict().values())
    with safe_open(path, framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert set(tensors) == set(toy[0].model.state_dict())
    assert {tensor.dtype.name for tensor in tensors.values()} == {"float16"}
    assert 2 * values < path.stat().st_size < 2 * values + 40_000


def test_the_same_model_makes_the_same_file(toy: Toy, path: Path) -> None:
    before = path.read_bytes()
    write_weights(path, toy[0].model.state_dict(), facts(toy[0]), 12)
    assert path.read_bytes() == before


def test_export_of_a_checkpoint_and_again_of_its_weights(toy: Toy, tmp_path: Path, path: Path) -> None:
    weights = {f"model.{name}": value for name, value in toy[0].model.state_dict().items()}
    torch.save({"state_dict": weights, "global_step": 12, "cepstra": facts(toy[0])}, tmp_path / "best.ckpt")
    export_weights(tmp_path / "best.ckpt", tmp_path / "first.safetensors")
    export_weights(tmp_path / "first.safetensors", tmp_path / "second.safetensors")
    assert (tmp_path / "first.safetensors").read_bytes() == path.read_bytes()
    assert (tmp_path / "second.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("value", [7e4, float("nan"), float("-inf")])
def test_weights_beyond_half_precision_are_refused_by_name(toy: Toy, tmp_path: Path, value: float) -> None:
    weights = {**toy[0].model.state_dict(), "ctc_head.bias": torch.tensor([0.0, value])}
    with pytest.raises(ConfigError, match=r"out\.safetensors: weight ctc_head\.bias is too large"):
        write_weights(tmp_path / "out.safetensors", weights, facts(toy[0]), 1)
    assert list(tmp_path.iterdir()) == []


def _with_header(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.pop("__metadata__"), "not weights of `cepstra export`, or damaged"),
        (lambda h: h.update(__metadata__={"format": "pt"}), "not weights of `cepstra export`"),
        (lambda h: h.update(__metadata__={"cepstra": "[1]"}), "not weights of `cepstra export`"),
        (lambda h: h.update(__metadata__={"cepstra": "[" * 100_000}), "not weights of `cepstra export`"),
        (lambda h: h.update(__metadata__={"cepstra": '{"steps": 1}'}), "its description can't be used"),
        (lambda h: h["ctc_head.bias"].update(data_offsets=[0, 1 << 60]), "or damaged"),
        (lambda h: h["ctc_head.bias"].update(shape=[1 << 40]), "or damaged"),
    ],
)
def test_what_is_no_such_file_is_refused_in_one_line(path: Path, change: Callable[[Any], Any], message: str) -> None:
    _with_header(path, change)
    with pytest.raises(ConfigError) as caught:
        read_checkpoint(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.safetensors: .*no such file"):
        read_checkpoint(tmp_path / "none.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(ConfigError, match=r"folder\.safetensors: is a folder"):
        read_checkpoint(tmp_path / "folder.safetensors")


@given(data=st.data())
@settings(derandomize=True, max_examples=60, deadline=None)
def test_damaged_files_are_refused_or_read(
    toy: Toy, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    write_weights(path, toy[0].model.state_dict(), facts(toy[0]), 12)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    for place in data.draw(st.lists(st.integers(0, max(0, min(len(content), 20_000) - 1)), max_size=5)):
        content[place : place + 1] = bytes([data.draw(st.integers(0, 255))])
    path.write_bytes(content)
    try:
        read_checkpoint(path)
    except ConfigError as error:
        assert "damaged.safetensors" in str(error)  # noqa: PT017  any other exception is the failure looked for
