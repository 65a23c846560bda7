"""The exported step of a streaming encoder against the encoder of the whole; what its file says; what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
import torch
from typer.testing import CliRunner

import asr.streaming
from asr.cli.commands import app
from asr.errors import BundleError, CepstraError, ConfigError
from asr.model.backend import TorchBackend
from asr.model.config import ModelConfig
from asr.model.stream_shape import StreamShape
from asr.model.transformer import Transformer
from asr.search.ctc import best_path
from asr.streaming import EncoderStream, StreamingModel, live_text, load_streaming, read_streaming
from asr.training.checkpoint import Trained
from audio.mfcc import MfccSpec
from audio.reading import read_audio
from export import streaming
from export.standard import OPSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.bundle import Bundle
    from asr.search.backend import Floats

Toy = tuple["Trained", "Bundle"]


def _noise(seconds: float, seed: int = 0) -> Floats:
    noise: Floats = (0.1 * np.random.default_rng(seed).normal(size=int(seconds * 16000))).astype(np.float32)
    return noise


@pytest.fixture(scope="module")
def trained(toy: Toy) -> Trained:
    """A model with a window in each layer, every weight random."""
    torch.manual_seed(0)
    config = ModelConfig(
        d_model=32, heads=2, encoder_layers=2, encoder_ff=64, decoder_layers=2, decoder_ff=48, windows=(3, 5)
    )
    spec = MfccSpec(n_cepstra=20, normalisation="running", running_frames=50)
    model = Transformer(config, spec, toy[0].tokenizer.vocab_size)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return Trained(model.eval(), toy[0].tokenizer, "en", {})


@pytest.fixture(scope="module")
def graph(trained: Trained) -> bytes:
    return streaming.streaming_graph(trained, "lamp")


@pytest.fixture(scope="module")
def model(graph: bytes) -> StreamingModel:
    return load_streaming(graph, "lamp.onnx")


@pytest.mark.parametrize(
    ("seconds", "block"), [(0.0, 1), (1 / 16000, 1), (0.02, 7), (0.1, 16), (3.3, 160), (3.3, 481), (12.0, 16000)]
)
def test_the_stream_gives_what_the_whole_gives(
    trained: Trained, model: StreamingModel, seconds: float, block: int
) -> None:
    clip = _noise(seconds)
    stream = EncoderStream(model)
    parts = [stream.feed(clip[start : start + block]) for start in range(0, len(clip), block)]
    parts.append(stream.finish())
    whole = TorchBackend(trained.model).encode([clip])
    np.testing.assert_allclose(np.concatenate([part.ctc for part in parts]), whole.ctc[0], atol=1e-4)
    for name in ("memory_k", "memory_v"):
        ours = np.concatenate([getattr(part, name) for part in parts], axis=2)
        np.testing.assert_allclose(ours, getattr(whole.cache, name)[:, 0].numpy(), atol=1e-4)


def test_a_position_is_there_once_its_blocks_are(model: StreamingModel) -> None:
    stream = EncoderStream(model)
    # Position p sees up to p + 3 + 5, whose last frame ends in the third block after its own
    assert model.shape.lag == 3 + 8
    assert len(stream.feed(_noise(1.0)[: 480 * 12 - 1]).ctc) == 0
    assert len(stream.feed(_noise(1.0)[:1]).ctc) == 1
    assert len(stream.feed(_noise(1.0)[: 480 * 5 - 1]).ctc) == 4


def test_several_streams_in_one_step_are_each_alone(trained: Trained, model: StreamingModel) -> None:
    clips = [_noise(0.9, seed) for seed in range(3)]
    whole = TorchBackend(trained.model).encode(clips)
    count, lag = int(whole.lengths[0]), model.shape.lag
    samples = np.full((3, count + lag, 480), 0.5, np.float32)  # not heard: after the end
    for row, clip in zip(samples.reshape(3, -1), clips, strict=True):
        row[: len(clip)] = clip
    none = np.zeros(3, np.int64)
    _, _, ctc, state = model.step(samples, none, none + len(clips[0]), np.zeros((3, model.shape.state), np.float32))
    np.testing.assert_allclose(ctc[:, lag:], whole.ctc, atol=1e-4)
    assert state.shape == (3, model.shape.state)


def test_text_comes_with_the_sound_and_is_that_of_the_best_path(trained: Trained, model: StreamingModel) -> None:
    clip = _noise(4.0)
    fed = 0

    def blocks() -> Iterator[Floats]:
        nonlocal fed
        for block in np.split(clip, range(1000, len(clip), 1000)):
            fed += len(block)
            yield block

    parts, when = [], []
    for part in live_text(model, blocks()):
        parts.append(part)
        when.append(fed)
    ctc = TorchBackend(trained.model).encode([clip]).ctc[0]
    assert "".join(parts) == trained.tokenizer.decode(best_path(ctc))
    assert all(parts)
    assert when[0] < len(clip) / 2


def test_the_graph_is_standard_and_self_contained(graph: bytes) -> None:
    proto = onnx.load_from_string(graph)
    onnx.checker.check_model(proto, full_check=True)
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", OPSET)]
    assert {node.domain for node in proto.graph.node} == {""}
    assert not proto.functions
    for telling in (str(Path(__file__).parents[2]), str(Path.home()), "site-packages"):
        assert telling.encode() not in graph


def test_the_file_says_what_others_need(graph: bytes, trained: Trained) -> None:
    said = {entry.key: entry.value for entry in onnx.load_from_string(graph).metadata_props}
    assert {key: said[key] for key in ("sample_rate", "block", "lag", "name", "language")} == {
        "sample_rate": "16000", "block": "480", "lag": "11", "name": "lamp", "language": "en",
    }  # fmt: skip
    assert ModelConfig.from_dict(json.loads(said["model"])) == trained.model.config
    assert MfccSpec.from_dict(json.loads(said["front_end"])) == trained.model.spec


def _checkpoint(path: Path, trained: Trained) -> Path:
    described = {
        "tokenizer": trained.tokenizer.to_json(), "model": trained.model.config.to_dict(),
        "front_end": trained.model.spec.to_dict(), "language": "en",
    }  # fmt: skip
    weights = {f"model.{name}": value for name, value in trained.model.state_dict().items()}
    torch.save({"cepstra": described, "state_dict": weights}, path)
    return path


def test_the_command_writes_it_and_says_what_delay_it_has(
    trained: Trained, graph: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []

    def ready_made(_: Trained, name: str) -> bytes:
        named.append(name)
        return graph

    monkeypatch.setattr(streaming, "streaming_graph", ready_made)
    checkpoint, output = _checkpoint(tmp_path / "best.ckpt", trained), tmp_path / "lamp.stream.onnx"
    arguments = ["export", str(checkpoint), "--graph", "streaming", "-o", str(output)]
    told = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert named == ["lamp"]
    assert "330 ms behind the sound, in blocks of 30 ms" in told
    difference = re.search(r"at once: (\S+) \(bound 0\.001\)", told)
    assert difference
    assert 0 < float(difference[1]) < 1e-4
    assert output.read_bytes() == graph
    assert read_streaming(output).name == "lamp"


def test_what_the_page_says_runs(
    trained: Trained, graph: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs" / "streaming-encoder.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    cepstra (.*)$", text, re.MULTILINE)
    (python,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.setattr(streaming, "streaming_graph", lambda *_: graph)
    monkeypatch.chdir(tmp_path)
    Path("runs/my").mkdir(parents=True)
    _checkpoint(Path("runs/my/best.ckpt"), trained)
    (tmp_path / "lights.wav").write_bytes((root / "data_manifests" / "samples" / "computer_speed_up.wav").read_bytes())
    assert CliRunner().invoke(app, command.split(), catch_exceptions=False).exit_code == 0
    exec(python, {})  # noqa: S102
    ctc = TorchBackend(trained.model).encode([read_audio("lights.wav")]).ctc[0]
    assert capsys.readouterr().out == trained.tokenizer.decode(best_path(ctc)) != ""


def test_the_page_states_the_delays_that_there_are() -> None:
    text = (Path(__file__).parents[2] / "docs" / "streaming-encoder.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\[[\d, ]+\])` \| (\d+) \| ([\d.]+) s \|$", text, re.MULTILINE)
    assert len(rows) == 3
    for windows, lag, delay in rows:
        shape = StreamShape(ModelConfig(windows=tuple(json.loads(windows))), MfccSpec(normalisation="running"))
        assert (str(shape.lag), f"{shape.delay:.2f}") == (lag, delay)


def test_a_graph_that_says_something_else_is_not_written(
    trained: Trained, graph: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "streaming_graph", lambda *_: graph)
    torch.manual_seed(1)
    other = Transformer(trained.model.config, trained.model.spec, trained.tokenizer.vocab_size).eval()
    checkpoint = _checkpoint(tmp_path / "best.ckpt", replace(trained, model=other))
    with pytest.raises(CepstraError, match=r"best\.ckpt: ONNX Runtime differs from torch .*not written"):
        streaming.export_streaming(checkpoint, tmp_path / "lamp.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["best.ckpt"]


def test_a_model_that_sees_everything_is_refused_with_its_windows(toy: Toy, tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path / "best.ckpt", toy[0])
    with pytest.raises(ConfigError, match=r"best\.ckpt: .*model\.windows=\[4\] of 2 encoder layers .* layer 2;"):
        streaming.export_streaming(checkpoint, tmp_path / "lamp.onnx")
    assert not (tmp_path / "lamp.onnx").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-o", "a.cepstra"], "--output: a.cepstra: a streaming encoder is an ONNX file; name it FILE.onnx"),
        (["-o", "a.safetensors"], "name it FILE.onnx"),
        (["-o", "a.onnx", "--half"], "--graph: a streaming encoder is in float32"),
        (["-o", "a.onnx", "--int8"], "--graph: a streaming encoder is in float32"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], told: str) -> None:
    run = CliRunner().invoke(app, ["export", "none.ckpt", "--graph", "streaming", *options])
    assert run.exit_code == 2
    assert told in " ".join(run.output.replace("'", "").split())


def _with_metadata(graph: bytes, **changed: str) -> bytes:
    proto = onnx.load_from_string(graph)
    said = {entry.key: entry.value for entry in proto.metadata_props}
    del proto.metadata_props[:]
    onnx.helper.set_model_props(proto, said | changed)
    return bytes(proto.SerializeToString())


def test_files_that_are_none_are_refused_by_name(toy: Toy, graph: bytes, tmp_path: Path) -> None:
    model = json.loads(next(e.value for e in onnx.load_from_string(graph).metadata_props if e.key == "model"))
    file = tmp_path / "x.onnx"
    for content, told in (
        (b"", "ONNX Runtime refuses it"),
        (graph[:-9000], "ONNX Runtime refuses it"),
        (toy[1].encoder, "not a streaming encoder"),
        (_with_metadata(graph, format="2"), "format 2, this program reads 1"),
        (_with_metadata(graph, model="{"), "its metadata can't be used"),
        (_with_metadata(graph, model="[]"), "mapping"),
        (_with_metadata(graph, tokenizer="{}"), "tokenizer"),
        (_with_metadata(graph, model=json.dumps(model | {"windows": [3, 0]})), "leave all positions to layer 2"),
        (_with_metadata(graph, model=json.dumps(model | {"windows": [3, 6]})), "state isn't of the size"),
        (_with_metadata(graph, model=json.dumps(model | {"stride": 2})), "samples isn't of the size"),
    ):
        file.write_bytes(content)
        with pytest.raises(BundleError, match=rf"x\.onnx: .*{re.escape(told)}"):
            read_streaming(file)
    for path in (tmp_path / "gone.onnx", tmp_path):
        with pytest.raises(BundleError, match=f"{path.name}: can't be read"):
            read_streaming(path)


def test_files_too_large_are_refused(graph: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asr.streaming, "MAX_BYTES", 1000)
    (tmp_path / "x.onnx").write_bytes(graph)
    with pytest.raises(BundleError, match="larger than"):
        read_streaming(tmp_path / "x.onnx")
