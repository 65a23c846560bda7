"""A bundle's one graph: the same tokens and scores as its search, what it is made of, and what isn't written."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import soundfile as sf
import torch
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from asr.bundle import Bundle, read_bundle, write_bundle
from asr.cli.commands import app
from asr.errors import BundleError, CepstraError
from asr.hearing import SILENCE
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.runtime import OnnxBackend
from asr.search import decode
from export import convert
from export import one_graph as module
from export.babble import babble
from export.convert import round_weights
from export.nodes import Constants, Nodes
from export.one_graph import OPTIONS, one_graph, write_one_graph
from export.standard import standard_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import GraphProto

    from asr.search import Cache, Hypothesis
    from asr.search.backend import Floats, Ints
    from asr.training.checkpoint import Trained

Toy = tuple["Trained", Bundle]
SAMPLES = sorted((Path(__file__).parents[2] / "data_manifests" / "samples").glob("*.wav"))
OUTPUTS = ["tokens", "pieces", "count", "log_probs", "score"]


def _session(graph: bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _run(session: ort.InferenceSession, clip: Floats) -> dict[str, Any]:
    return dict(zip(OUTPUTS, session.run(OUTPUTS, {"samples": clip[None]}), strict=True))


def _text(found: dict[str, Any]) -> str:
    return " ".join("".join(found["pieces"]).split())


def _search(backend: Bundle | OnnxBackend, clip: Floats, **options: Any) -> Hypothesis:
    if isinstance(backend, Bundle):
        backend = OnnxBackend(backend, threads=1)
    (found,) = decode(backend, backend.encode([clip]), [len(clip) / 16000], replace(OPTIONS, **options))
    return found


def _assert_same(found: dict[str, Any], expected: Hypothesis) -> None:
    assert tuple(found["tokens"]) == expected.tokens
    assert found["count"] == len(expected.tokens)
    np.testing.assert_allclose(found["log_probs"], expected.log_probs, atol=1e-4)
    assert found["score"] == pytest.approx(expected.score, abs=1e-4)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_a_model_of_random_weights_says_the_same(toy: Toy, precision: convert.Precision) -> None:
    bundle = toy[1] if precision == "float32" else round_weights(toy[1], precision)
    session, rng = _session(one_graph(bundle)), np.random.default_rng(1)
    for seconds in (0.01, 0.026, 0.3, 0.75, 1.0, 2.0, 3.1):
        clip = babble(rng, int(seconds * 16000))
        _assert_same(_run(session, clip), _search(bundle, clip))


def test_the_shipped_model_says_the_same(shipped: Bundle, shipped_graph: Path) -> None:
    session = _session(shipped_graph.read_bytes())
    recognizer = Recognizer(shipped, threads=1, speech_detection=False)
    texts = []
    for path in SAMPLES:
        clip = sf.read(path, dtype="float32")[0]
        found = _run(session, clip)
        _assert_same(found, _search(shipped, clip))
        assert _text(found) == shipped.tokenizer.decode(found["tokens"]) == recognizer.transcribe(clip).text
        texts.append(_text(found))
    assert "five five two eight five" in texts


def test_half_a_minute_is_searched_to_its_end(shipped: Bundle, shipped_graph: Path) -> None:
    clip = np.concatenate([sf.read(path, dtype="float32")[0] for path in SAMPLES] * 3)[: 30 * 16000]
    assert len(clip) == 30 * 16000
    found = _run(_session(shipped_graph.read_bytes()), clip)
    _assert_same(found, _search(shipped, clip))
    assert found["count"] > 20


@pytest.mark.parametrize(
    "clip",
    [
        np.zeros(0), np.ones(1), np.zeros(1), np.full(7, -0.5), np.zeros(16000), np.full(16000, 0.99 * SILENCE),
        np.full(16000, SILENCE), np.ones(399), np.ones(401),
    ],
    ids=["empty", "one sample", "one of silence", "seven", "silence", "too quiet", "just loud", "< frame", "> frame"],
)  # fmt: skip
def test_hardly_any_sound_is_answered_as_the_recogniser_does(
    shipped: Bundle, shipped_graph: Path, clip: Floats
) -> None:
    clip = clip.astype(np.float32)
    found = _run(_session(shipped_graph.read_bytes()), clip)
    assert _text(found) == Recognizer(shipped, threads=1, speech_detection=False).transcribe(clip).text
    if np.abs(clip).max(initial=0) < np.float32(SILENCE):
        assert found["count"] == len(found["tokens"]) == len(found["log_probs"]) == found["score"] == 0
    else:
        _assert_same(found, _search(shipped, clip))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_no_numbers_have_no_text_and_no_score(shipped_graph: Path, value: float) -> None:
    clip = sf.read(SAMPLES[0], dtype="float32")[0]
    clip[1000] = value
    found = _run(_session(shipped_graph.read_bytes()), clip)
    assert (found["count"], len(found["tokens"])) == (0, 0)
    assert np.isnan(found["score"])


WORDS = 40  # the toy's vocabulary


@pytest.fixture(scope="module", params=[1, 2], ids=["format 1", "format 2"])
def scripted(toy: Toy, request: pytest.FixtureRequest) -> Bundle:
    """A bundle whose sound is its CTC head's logits, position after position, and whose decoder says what it is told.

    The first WORDS samples are what the decoder says whatever went before; what it said last is 3 nats likelier.
    """
    old = request.param == 1
    config = replace(toy[0].model.config, decoder_layers=1, heads=1, d_model=WORDS, windows=())
    g = Nodes("e", Constants())
    logits = g("Reshape", "samples", np.array([1, -1, WORDS]))
    g.named(g("LogSoftmax", logits, axis=-1), "ctc")
    size = g("Shape", logits, start=1, end=2)
    told = g("Slice", logits, np.array([0]), np.array([1]), np.array([1]))
    memory = g("Expand", g("Unsqueeze", told, np.array([0, 1])),
               g("Concat", np.array([1, 1, 1]), size, np.array([1]), axis=0))  # fmt: skip
    g.named(memory, "memory_k")
    g.named(memory, "memory_v")
    d = Nodes("d", Constants())
    row = d("Slice", "memory_k", np.array([0]), np.array([1]), np.array([3]))
    again = d("Gather", (3 * np.eye(WORDS)).astype(np.float32), "tokens")
    shape = np.array([-1, WORDS] if old else [1, -1, WORDS])
    d.named(d("LogSoftmax", d("Add", d("Reshape", row, shape), again), axis=-1), "log_probs")
    count = np.array([1]) if old else d("Shape", "tokens", start=1, end=2)
    longer = d("Expand", row, d("Concat", np.array([1, 1, 1]), count, np.array([1]), axis=0))
    for name in ("k", "v"):
        d.named(d("Concat", f"past_{name}", longer, axis=3), f"new_{name}")
    past, cache, new = ([1, "batch", 1, length, WORDS] for length in ("u", "t", "u2"))
    steps = ["batch"] if old else ["batch", "s"]
    lengths = {"lengths": ["batch"]}
    heard = {"samples": ["batch", "n"]}, {"memory_k": cache, "memory_v": cache, "ctc": ["batch", "t", WORDS]}
    said = {"log_probs": [*steps, WORDS], "new_k": new, "new_v": new}
    if old:
        g.named(g("Add", g("Mul", "lengths", np.array(0)), size), "positions")
        heard = heard[0] | lengths, heard[1] | {"positions": ["batch"]}
    read = {"tokens": steps, "past_k": past, "past_v": past, "memory_k": cache, "memory_v": cache} | lengths
    return replace(toy[1], encoder=_model(g, *heard), decoder=_model(d, read, said), model=config)


class Counting(OnnxBackend):
    """Knows how often its decoder was asked."""

    steps = 0

    def step(self, tokens: Ints, cache: Cache) -> tuple[Floats, Cache]:
        self.steps += 1
        return super().step(tokens, cache)


def _model(nodes: Nodes, inputs: dict[str, Any], outputs: dict[str, Any]) -> bytes:
    whole = {"lengths", "tokens", "positions"}
    given, results = (
        [
            helper.make_tensor_value_info(name, TensorProto.INT64 if name in whole else TensorProto.FLOAT, shape)
            for name, shape in values.items()
        ]
        for values in (inputs, outputs)
    )
    graph = helper.make_graph(nodes.list, "scripted", given, results, nodes.constants.tensors)
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()
    )


def test_limits_loops_and_ctc_rule_the_loop_as_they_rule_the_search(scripted: Bundle) -> None:
    assert scripted.tokenizer.vocab_size == WORDS
    session, backend, rng = _session(one_graph(scripted)), Counting(scripted, threads=1), np.random.default_rng(5)
    full = looped = swayed = ended = drafted = 0
    for case in range(80):
        positions = int(rng.integers(2, 120)) if case % 4 else 700
        logits = rng.normal(size=(positions, WORDS)) * rng.choice([0.5, 2, 6])
        logits[:, 0] += rng.choice([0, 4])
        logits[rng.random(positions) < 0.5] += rng.choice([0, 8]) * np.eye(WORDS)[rng.integers(2, WORDS)]
        logits[0, 2] -= rng.choice([0, 3, 9])  # how soon the decoder ends
        clip = logits.astype(np.float32).ravel()
        before = backend.steps
        expected = _search(backend, clip)
        _assert_same(_run(session, clip), expected)
        drafted += 3 < 2 * (backend.steps - before) < len(expected.tokens)
        full += len(expected.tokens) == OPTIONS.max_tokens(len(clip) / 16000)
        looped += _search(backend, clip, repeat_limit=999).tokens != expected.tokens
        swayed += _search(backend, clip, ctc_weight=0.0).tokens != expected.tokens
        ended += 0 < len(expected.tokens) < 12
    assert min(full, looped, swayed, ended) >= 3, (full, looped, swayed, ended)
    assert drafted >= 3 or backend.at_once == 1


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """All that are inside it."""
    for inner in (attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")):
        yield inner
        yield from _graphs(inner)


@pytest.mark.parametrize("which", ["toy", "shipped"])
def test_the_graph_is_standard_small_and_the_same_each_time(toy: Toy, shipped: Bundle, which: str) -> None:
    bundle = toy[1] if which == "toy" else shipped
    data = one_graph(bundle)
    assert data == one_graph(bundle)
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 10
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 20)]
    nodes = [node for graph in [model.graph, *_graphs(model.graph)] for node in graph.node]
    assert {node.domain for node in nodes} == {""}
    assert [node.op_type for node in nodes].count("Loop") == 2  # steps, and what is written in each
    assert not model.functions
    assert all(tensor.data_location != TensorProto.EXTERNAL for tensor in model.graph.initializer)
    assert len(data) < len(bundle.encoder) + len(bundle.decoder) + 100_000
    (loop,) = (node for node in model.graph.node if node.op_type == "Loop")
    (body,) = (attribute.g for attribute in loop.attribute if attribute.name == "body")
    assert not any(graph.initializer for graph in [body, *_graphs(body)])  # weights are outside


def test_the_metadata_say_all_that_a_caller_needs(shipped: Bundle, shipped_graph: Path) -> None:
    told = _session(shipped_graph.read_bytes()).get_modelmeta().custom_metadata_map
    assert told["sample_rate"] == "16000"
    assert (told["name"], told["language"], told["precision"]) == (shipped.name, shipped.language, shipped.precision)
    pieces = json.loads(told["pieces"])
    assert pieces == [shipped.tokenizer.token(i) for i in range(shipped.tokenizer.vocab_size)]
    assert json.loads(told["special_ids"]) == {"blank": 0, "bos": 1, "eos": 2, "unk": 3}
    assert json.loads(told["front_end"]) == json.loads(json.dumps(shipped.front_end.to_dict()))
    assert json.loads(told["facts"])["licence"] == shipped.facts["licence"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("zero", [False, True])
def test_products_of_whole_numbers_are_the_same_in_standard_operators(bias: bool, zero: bool) -> None:
    rng = np.random.default_rng(2)
    constants = {
        "w": rng.integers(-127, 128, (48, 16)).astype(np.int8), "s": np.float32(0.013),
        "t": rng.random(16, np.float32), "z": np.uint8(128), "b": rng.random(16, np.float32),
    }  # fmt: skip
    inputs = ["x", "w", "s", "t", "z" if zero else "", "", "b" if bias else ""]
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node("MatMulIntegerToFloat", inputs, ["y"], domain="com.microsoft")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, [5, 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 16])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in inputs],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    inside = standard_graph(data, "part")
    assert {n.domain for n in inside.node} == {""}
    rewritten = helper.make_model(inside, opset_imports=opsets[:1], ir_version=10).SerializeToString()
    x = rng.integers(0, 256, (5, 48)).astype(np.uint8)
    (expected,) = _session(data).run(None, {"x": x})
    (found,) = _session(rewritten).run(None, {"part/x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def _changed(data: bytes, **changes: Any) -> bytes:
    model = onnx.load_from_string(data)
    if "operator" in changes:
        model.graph.node[3].op_type, model.graph.node[3].domain = changes["operator"], "com.microsoft"
    model.opset_import[0].version = changes.get("opset", 20)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("part", ["encoder", "decoder"])
@pytest.mark.parametrize(
    ("changes", "told"),
    [({"operator": "Sparkle"}, r"operator Sparkle of com\.microsoft"), ({"opset": 23}, r"\.onnx: made of opset 23")],
)
def test_graphs_that_can_not_be_put_together_are_refused(
    toy: Toy, tmp_path: Path, part: str, changes: dict[str, Any], told: str
) -> None:
    graphs: dict[str, Any] = {part: _changed(getattr(toy[1], part), **changes)}
    with pytest.raises(BundleError, match=f"{part}.*{told}|{told}"):
        write_one_graph(tmp_path / "model.onnx", replace(toy[1], **graphs))
    assert list(tmp_path.iterdir()) == []


def test_another_text_is_not_written(
    toy: Toy, shipped: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = one_graph(toy[1])
    monkeypatch.setattr(module, "one_graph", lambda _: other)
    with pytest.raises(CepstraError, match=r"s of sound its one graph finds .* not written"):
        write_one_graph(tmp_path / "model.onnx", shipped)
    assert list(tmp_path.iterdir()) == []


def _cli(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["export", *(str(each) for each in arguments)])


def test_a_bundle_is_enough_and_torch_is_not_needed(toy: Toy, tmp_path: Path) -> None:
    bundle, output = tmp_path / "my.cepstra", tmp_path / "my.onnx"
    write_bundle(bundle, toy[1])
    code = (
        "import sys\n"
        "for name in ('torch', 'onnxscript', 'lightning'): sys.modules[name] = None\n"
        "from asr.cli import main\n"
        "main()"
    )
    arguments = ["export", str(bundle), "--graph", "all-in-one", "-o", str(output)]
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{output}: ")
    assert "float32 weights" in run.stdout
    assert output.read_bytes() == one_graph(read_bundle(bundle))


def test_a_checkpoint_becomes_one_graph(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, bundle = toy
    monkeypatch.setattr(convert, "encoder_graph", lambda _: bundle.encoder)  # which takes long
    monkeypatch.setattr(convert, "decoder_graph", lambda _: bundle.decoder)
    facts = {
        "tokenizer": trained.tokenizer.to_json(), "language": trained.language, "training": {"steps": 3},
        "model": trained.model.config.to_dict(), "front_end": trained.model.spec.to_dict(),
    }  # fmt: skip
    weights = {f"model.{name}": value for name, value in trained.model.state_dict().items()}
    torch.save({"state_dict": weights, "cepstra": facts}, tmp_path / "best.ckpt")
    output = tmp_path / "lamp.onnx"
    run = _cli(tmp_path / "best.ckpt", "--graph", "all-in-one", "--int8", "-o", output)
    assert run.exit_code == 0, run.output
    told = _session(output.read_bytes()).get_modelmeta().custom_metadata_map
    assert (told["name"], told["precision"], json.loads(told["facts"])["training"]) == ("lamp", "int8", {"steps": 3})
    clip = babble(np.random.default_rng(3), 16000)
    _assert_same(_run(_session(output.read_bytes()), clip), _search(round_weights(bundle, "int8"), clip))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["my.ckpt", "-o", "model.onnx"], "add --graph all-in-one"),
        ([DEFAULT_BUNDLE, "-o", "other.cepstra"], "a bundle is exported already"),
        ([DEFAULT_BUNDLE, "--graph", "all-in-one", "-o", "a.cepstra"], "name it FILE.onnx"),
        (["my.ckpt", "--graph", "all-in-one", "-o", "a.safetensors"], "name it FILE.onnx"),
        ([DEFAULT_BUNDLE, "--graph", "all-in-one", "--int8"], "a bundle has its name and precision already"),
        ([DEFAULT_BUNDLE, "--graph", "all-in-one", "--name", "x"], "a bundle has its name and precision already"),
        ([DEFAULT_BUNDLE, "--graph", "two"], "two"),
        ([], "best.ckpt of a training run"),
        (["--graph", "streaming"], "best.ckpt of a training run"),
        ([DEFAULT_BUNDLE, "--graph", "streaming"], "a bundle's encoder needs the whole sound"),
        (["gone.cepstra", "--graph", "all-in-one"], "gone.cepstra"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str | Path], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = _cli(*arguments)
    assert run.exit_code != 0
    said = " ".join((run.output + str(run.exception)).split())
    assert told in said.replace(" │ │ ", " ")
    assert list(tmp_path.iterdir()) == []
