"""Exported graphs against the torch model, at sizes the exporter never saw; what is refused; what the bytes tell."""

from __future__ import annotations

import copy
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from typer.testing import CliRunner

from asr.bundle import read_bundle
from asr.cli.commands import app
from asr.errors import CepstraError, ConfigError, ManifestError
from asr.manifest import Utterance, read_manifest
from asr.model.backend import TorchBackend
from asr.runtime import OnnxBackend
from asr.search.backend import Cache
from audio.mfcc import mfcc
from export import convert, loss
from export.convert import BOUND, CASES, compare
from export.graphs import decoder_graph
from export.halve import SMALLEST, halve
from export.loss import Loss, read_development
from export.standard import OPSET

if TYPE_CHECKING:
    from asr.bundle import Bundle
    from asr.search.backend import Floats
    from asr.training.checkpoint import Trained

Toy = tuple["Trained", "Bundle"]
SAMPLES = Path(__file__).parents[2] / "data_manifests" / "samples" / "samples.jsonl"


def _noise(seconds: float, seed: int = 0) -> Floats:
    noise: Floats = (0.1 * np.random.default_rng(seed).normal(size=int(seconds * 16000))).astype(np.float32)
    return noise


@pytest.fixture(scope="module")
def onnx_backend(toy: Toy) -> OnnxBackend:
    return OnnxBackend(toy[1], threads=1)


def test_the_parity_check_covers_what_it_should_and_passes(toy: Toy) -> None:
    sizes, seconds = zip(*CASES, strict=True)
    assert {1, 2} < set(sizes)
    assert min(seconds) == 0
    assert max(seconds) > 30  # beyond training
    parity = compare(*toy)
    assert parity.utterances == sum(sizes)
    assert 0 < parity.encoder < 1e-4 < BOUND
    assert 0 < parity.decoder < 1e-4


@pytest.mark.parametrize("seconds", [[45.0], [0.0], [0.01], [1 / 16000], [0.03] * 9, [3.7, 0.2, 11.0], [0.5] * 33])
def test_encoder_at_other_sizes(toy: Toy, onnx_backend: OnnxBackend, seconds: list[float]) -> None:
    clips = [_noise(s, seed) for seed, s in enumerate(seconds)]
    ours, theirs = TorchBackend(toy[0].model).encode(clips), onnx_backend.encode(clips)
    np.testing.assert_array_equal(theirs.lengths, ours.lengths)
    for i, length in enumerate(ours.lengths):
        np.testing.assert_allclose(theirs.ctc[i, :length], ours.ctc[i, :length], atol=1e-4)
        for name in ("memory_k", "memory_v"):
            ours_, theirs_ = (np.asarray(getattr(m.cache, name)) for m in (ours, theirs))
            np.testing.assert_allclose(theirs_[:, i, :, :length], ours_[:, i, :, :length], atol=1e-4)


@pytest.mark.parametrize(
    "sizes", [(1, 0, 1, 1), (1, 1, 1, 1), (1, 0, 7, 30), (2, 0, 171, 2), (5, 130, 1700, 1), (64, 3, 2, 3)]
)
def test_decoder_at_other_sizes(toy: Toy, onnx_backend: OnnxBackend, sizes: tuple[int, int, int, int]) -> None:
    batch, past, positions, new = sizes
    rng = np.random.default_rng(batch)
    arrays = [
        rng.normal(size=(2, batch, 2, size, 16)).astype(np.float32) for size in (past, past, positions, positions)
    ]
    lengths, tokens = rng.integers(1, positions + 1, batch), rng.integers(40, size=(batch, new))
    theirs, longer = onnx_backend.step(tokens, Cache(arrays[0], arrays[1], arrays[2], arrays[3], lengths))
    tensors = [torch.from_numpy(a) for a in (*arrays, lengths)]
    ours, expected = TorchBackend(toy[0].model).step(
        tokens, Cache(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4])
    )
    np.testing.assert_allclose(theirs, ours, atol=1e-4)
    np.testing.assert_allclose(longer.past_k, expected.past_k, atol=1e-5)
    np.testing.assert_allclose(longer.past_v, expected.past_v, atol=1e-5)
    assert longer.past_k.shape == (2, batch, 2, past + new, 16)


def test_the_front_end_in_the_graph_is_the_numpy_one(toy: Toy, onnx_backend: OnnxBackend) -> None:
    model, clip = toy[0].model, _noise(1.7)
    features = torch.from_numpy(mfcc(clip, model.spec))[None]
    with torch.no_grad():
        memory, _ = model.encoder(features, torch.tensor([features.shape[1]]))
        expected = model.ctc_head(memory).log_softmax(dim=2).numpy()
    np.testing.assert_allclose(onnx_backend.encode([clip]).ctc, expected, atol=1e-3)


def test_the_same_sound_gives_the_same_bits(toy: Toy, onnx_backend: OnnxBackend) -> None:
    clips = [_noise(1.1), _noise(0.6, 1)]
    first = onnx_backend.encode(clips)
    for backend in (onnx_backend, OnnxBackend(toy[1], threads=1)):
        again = backend.encode(clips)
        np.testing.assert_array_equal(again.ctc, first.ctc)
        np.testing.assert_array_equal(again.cache.memory_v, first.cache.memory_v)
    # Threads share a matrix out by rows, and few rows are added up in another order
    np.testing.assert_allclose(OnnxBackend(toy[1], threads=2).encode(clips).ctc, first.ctc, atol=1e-5)


def test_the_same_model_gives_the_same_graph(toy: Toy) -> None:
    assert decoder_graph(toy[0].model) == toy[1].decoder


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_graphs_are_standard_and_self_contained(toy: Toy, part: str) -> None:
    graph = onnx.load_from_string(getattr(toy[1], part))
    onnx.checker.check_model(graph, full_check=True)
    assert [(entry.domain, entry.version) for entry in graph.opset_import] == [("", OPSET)]
    assert {node.domain for node in graph.graph.node} == {""}
    assert not graph.functions
    assert "STFT" not in {node.op_type for node in graph.graph.node}
    assert all(i.data_location != onnx.TensorProto.EXTERNAL for i in graph.graph.initializer)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_graphs_tell_nothing_of_where_they_were_made(toy: Toy, part: str) -> None:
    data: bytes = getattr(toy[1], part)
    for telling in (str(Path(__file__).parent.parent.parent), str(Path.home()), "site-packages", "Traceback"):
        assert telling.encode() not in data
    assert not re.search(rb"\w\.py\b", data)
    graph = onnx.load_from_string(data)
    assert not graph.metadata_props
    assert not any(node.doc_string or node.metadata_props for node in graph.graph.node)


def _altered(trained: Trained, name: str, change: float) -> Trained:
    model = copy.deepcopy(trained.model)
    with torch.no_grad():
        model.get_parameter(name).view(-1)[7] += change
    return replace(trained, model=model)


@pytest.mark.parametrize(
    ("name", "spoilt"),
    [
        ("ctc_head.bias", "encoder"),
        ("decoder.embedding.weight", "decoder"),
        ("decoder.layers.1.cross_attention.kv.weight", "decoder"),
        ("encoder.layers.0.ff.down.weight", "encoder"),
    ],
)
def test_graphs_of_other_weights_are_found_out(toy: Toy, name: str, spoilt: str) -> None:
    trained, bundle = toy
    assert getattr(compare(_altered(trained, name, 0.5), bundle), spoilt) > BOUND


def test_not_a_number_is_no_parity(toy: Toy) -> None:
    trained, bundle = toy
    parity = compare(_altered(trained, "ctc_head.weight", math.nan), bundle)
    assert not parity.encoder <= BOUND


def _checkpoint(path: Path, trained: Trained) -> Path:
    facts = {
        "tokenizer": trained.tokenizer.to_json(), "language": trained.language, "training": {"steps": 3},
        "model": trained.model.config.to_dict(), "front_end": trained.model.spec.to_dict(),
    }  # fmt: skip
    weights = {f"model.{name}": value for name, value in trained.model.state_dict().items()}
    torch.save({"state_dict": weights, "cepstra": facts}, path)
    return path


@pytest.fixture
def ready_made(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs from the toy, whatever the checkpoint: exporting anew takes long."""
    monkeypatch.setattr(convert, "encoder_graph", lambda _: toy[1].encoder)
    monkeypatch.setattr(convert, "decoder_graph", lambda _: toy[1].decoder)


@pytest.mark.usefixtures("ready_made")
def test_export_writes_what_the_checkpoint_holds(toy: Toy, tmp_path: Path) -> None:
    trained, bundle = toy
    output = tmp_path / "lights.cepstra"
    stages: list[str] = []
    exported = convert.export(
        _checkpoint(tmp_path / "best.ckpt", trained), output, facts={"licence": "none"}, stage=stages.append
    )
    assert exported.parity.worst <= BOUND
    assert exported.rounded is None
    assert stages == ["exporting the encoder", "exporting the decoder", "comparing with torch"]
    expected = {"training": {"steps": 3}, "opset": OPSET, "licence": "none"}
    assert read_bundle(output) == replace(bundle, name="lights", facts=expected)


@pytest.mark.usefixtures("ready_made")
def test_half_precision_weights_say_nearly_the_same(toy: Toy, tmp_path: Path) -> None:
    trained, bundle = toy
    exported = convert.export(
        _checkpoint(tmp_path / "best.ckpt", trained), tmp_path / "half.cepstra", precision="float16"
    )
    half = read_bundle(tmp_path / "half.cepstra")
    assert half.precision == "float16"
    for part in ("encoder", "decoder"):
        saved = len(getattr(bundle, part)) - len(getattr(half, part))
        weights = [p for name, p in trained.model.named_parameters() if name.startswith(part)]
        assert saved > 0.8 * 2 * sum(p.numel() for p in weights if p.numel() >= SMALLEST)  # two bytes each, less names
    parity = compare(trained, half)
    assert 1e-5 < parity.encoder < 0.05
    assert 1e-5 < parity.decoder < 0.05
    assert exported.rounded == parity  # what is said is of what was written
    assert exported.parity.worst < 1e-4


def test_weights_beyond_half_precision_are_refused_by_name(toy: Toy) -> None:
    graph = onnx.load_from_string(toy[1].decoder)
    weight = next(i for i in graph.graph.initializer if i.data_type == onnx.TensorProto.FLOAT and len(i.dims) == 2)
    values = onnx.numpy_helper.to_array(weight).copy()
    values[0, 0] = 7e4
    name = weight.name
    weight.CopyFrom(onnx.numpy_helper.from_array(values, name))
    with pytest.raises(CepstraError, match=re.escape(name)):
        halve(graph.SerializeToString())


@pytest.mark.usefixtures("ready_made")
@pytest.mark.parametrize("change", [0.5, 3e38])
def test_export_refuses_graphs_that_do_not_say_what_the_model_says(toy: Toy, tmp_path: Path, change: float) -> None:
    checkpoint = _checkpoint(tmp_path / "best.ckpt", _altered(toy[0], "ctc_head.weight", change))
    output = tmp_path / "out" / "model.cepstra"
    output.parent.mkdir()
    with pytest.raises(CepstraError, match=r"best\.ckpt: ONNX Runtime differs from torch .*not written"):
        convert.export(checkpoint, output)
    assert list(output.parent.iterdir()) == []


@pytest.mark.usefixtures("ready_made")
def test_int8_that_was_not_measured_says_so(toy: Toy, tmp_path: Path) -> None:
    checkpoint, (first, second) = _checkpoint(tmp_path / "best.ckpt", toy[0]), (tmp_path / "a", tmp_path / "b")
    exported = convert.export(checkpoint, first, name="lamp", precision="int8")
    assert exported.losses == ()
    assert exported.parity.worst < 1e-4  # judged in float32
    assert exported.rounded == compare(toy[0], read_bundle(first))
    assert read_bundle(first).precision == "int8"
    assert read_bundle(first).facts["wer_loss"] == "not measured"
    convert.export(checkpoint, second, name="lamp", precision="int8")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.usefixtures("ready_made")
def test_what_int8_costs_is_measured_told_and_noted(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def reading(path: Path) -> list[Utterance]:
        read.append(path)
        return read_manifest(path)

    monkeypatch.setattr(loss, "read_manifest", reading)
    output = tmp_path / "lamp.cepstra"
    arguments = ["export", _checkpoint(tmp_path / "best.ckpt", toy[0]), "-o", output, "--int8", "--manifest", SAMPLES]
    run = CliRunner().invoke(app, [str(each) for each in (*arguments, "--max-wer-loss", 100)], catch_exceptions=False)
    assert read == [SAMPLES]  # once
    told = run.stdout.splitlines()[1]
    figures = re.fullmatch(
        r"word error rate over (\d+) utterances: "
        r"greedy ([\d.]+) % in float32, ([\d.]+) % in int8 \(([-+\d. to]+) points\); "
        r"beam 4 ([\d.]+) % in float32, ([\d.]+) % in int8 \(([-+\d. to]+) points\)", told,
    )  # fmt: skip
    assert figures, told
    greedy, beam = (figures.group(*places) for places in ((2, 3, 4), (5, 6, 7)))
    for before, after, interval in (greedy, beam):
        low, high = map(float, interval.split(" to "))
        assert low - 0.01 <= float(after) - float(before) <= high + 0.01
    rows = len(SAMPLES.read_text(encoding="utf-8").splitlines())
    assert int(figures[1]) == rows
    noted = read_bundle(output).facts["wer_loss"]
    assert noted.keys() == {"utterances", "greedy", "beam 4"}
    assert [f"{100 * noted[search][key]:.2f}" for search in ("greedy", "beam 4") for key in ("float32", "written")] == [
        *greedy[:2],
        *beam[:2],
    ]
    shown = (
        CliRunner().invoke(app, ["bundle", "show", "--all", str(output)], catch_exceptions=False).stdout.splitlines()
    )
    assert "precision: int8" in shown
    assert f"  greedy: WER {figures[2]} % in float32, {figures[3]} % as written" in shown


@pytest.mark.usefixtures("ready_made")
@pytest.mark.parametrize(
    ("precision", "losses", "told"),
    [
        (
            "int8",
            [Loss(1, 0.02, 0.0255, 9), Loss(4, 0.02, 0.02, 9)],
            "costs 0.55 points of word error rate, more than 0.3 (greedy 2.00 % in float32, 2.55 % in int8, 9",
        ),
        (
            "int8",
            [Loss(1, 0.02, 0.022, 9), Loss(4, 0.02, 0.1, 9)],
            "9 utterances); not written: export it in float16 (--half), or allow more with --max-wer-loss",
        ),
        ("float16", [Loss(1, 0.02, 0.03, 9), Loss(4, 0.02, 0.02, 9)], "export it in float32"),
    ],
)
def test_a_bundle_that_loses_too_much_is_not_written(
    tmp_path: Path, request: pytest.FixtureRequest, precision: convert.Precision, losses: list[Loss], told: str
) -> None:
    request.getfixturevalue("monkeypatch").setattr(convert, "measure_loss", lambda *_: losses)
    checkpoint = _checkpoint(tmp_path / "best.ckpt", request.getfixturevalue("toy")[0])
    rows = read_development([SAMPLES])
    with pytest.raises(CepstraError) as error:
        convert.export(checkpoint, tmp_path / "lamp.cepstra", precision=precision, development=rows)
    assert str(error.value).startswith(f"{checkpoint}: ")
    assert told in str(error.value)
    assert not (tmp_path / "lamp.cepstra").exists()


YES = Utterance(Path("a.wav"), 1.0, "yes")


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"max_wer_loss": -100}, ConfigError, "0 or more"),
        ({"max_wer_loss": math.nan}, ConfigError, "0 or more"),
        ({"max_wer_loss": math.inf}, ConfigError, "0 or more"),
        ({"precision": "float32", "development": [YES]}, ConfigError, "nothing is rounded"),
    ],
)
def test_what_can_not_be_compared_is_refused_first(
    tmp_path: Path, arguments: dict[str, Any], error: type[CepstraError], told: str
) -> None:
    with pytest.raises(error, match=told):
        convert.export(tmp_path / "none.ckpt", tmp_path / "out", **{"precision": "int8", **arguments})


def test_recordings_without_words_give_no_error_rate(tmp_path: Path) -> None:
    silent = tmp_path / "silent.jsonl"
    silent.write_text('{"audio_filepath": "a.wav", "duration": 1.0, "text": ""}\n', encoding="utf-8")
    with pytest.raises(ManifestError, match=r"silent\.jsonl: holds no text"):
        read_development([silent])


@pytest.mark.usefixtures("ready_made")
def test_a_recording_that_can_not_be_heard_stops_the_comparison(toy: Toy, tmp_path: Path) -> None:
    manifest = tmp_path / "dev.jsonl"
    manifest.write_text('{"audio_filepath": "torn.wav", "duration": 1.0, "text": "yes"}\n', encoding="utf-8")
    (tmp_path / "torn.wav").write_bytes(b"RIFF")
    checkpoint, output = _checkpoint(tmp_path / "best.ckpt", toy[0]), tmp_path / "lamp.cepstra"
    rows = read_development([manifest])
    with pytest.raises(CepstraError, match=r"torn\.wav.*leave out that row"):
        convert.export(checkpoint, output, precision="int8", development=rows)
    assert not output.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--int8", "--half"], "--int8: --half is another precision"),
        (["--manifest", "a.jsonl"], "--manifest: says nothing without --int8 or --half"),
        (["--int8", "--max-wer-loss", "1"], "--max-wer-loss: says nothing without --manifest"),
        (["--int8", "--manifest", "a.jsonl", "--max-wer-loss", "-100"], "--max-wer-loss"),
        (["--graph", "all-in-one", "-o", "a.bin"], "--output: a.bin: one graph is an ONNX file; name it FILE.onnx"),
        (["--graph", "all-in-one", "-o", "a"], "--output: a: one graph is an ONNX file; name it FILE.onnx"),
        (["--graph", "streaming", "-o", "a.bin"], "--output: a.bin: a streaming encoder is an ONNX file"),
        (["--int8", "-o", "a.safetensors"], "--int8: weights to train on from are always float16"),
        (["--half", "--manifest", "a.jsonl", "-o", "a.safetensors"], "--manifest: weights to train on from"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], told: str) -> None:
    run = CliRunner().invoke(app, ["export", "none.ckpt", *options])
    assert run.exit_code == 2
    assert told in " ".join(run.output.replace("'", "").split())


@pytest.mark.parametrize("precision", ["--int8", "--half"])
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (None, r"--manifest .*dev\.jsonl: no such manifest"),
        (
            '{"audio_filepath": "gone.wav", "duration": 1.0, "text": "yes"}',
            r"--manifest .*dev\.jsonl:1: .*gone\.wav isn't there",
        ),
    ],
)
def test_what_is_to_be_compared_is_there_before_the_checkpoint_is_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, precision: str, line: str | None, told: str
) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(convert, "read_checkpoint", never)
    manifest = tmp_path / "dev.jsonl"
    if line is not None:
        manifest.write_text(line + "\n", encoding="utf-8")
    arguments = ["export", "none.ckpt", precision, "--manifest", str(manifest), "-o", str(tmp_path / "out.cepstra")]
    with pytest.raises(CepstraError, match=told):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
