"""Products in 8 bits: near the exact ones, the same in any company, on any processor; what stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from asr.runtime import OnnxBackend
from export.convert import compare, round_weights
from export.halve import SMALLEST
from export.quantise import eight_bits, quantise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.search.backend import Floats
    from asr.training.checkpoint import Trained

Toy = tuple["Trained", "Bundle"]
ROWS, COLUMNS = 46, 32  # the rows no multiple of four, on purpose


def _weights(seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(ROWS, COLUMNS)).astype(np.float32)


def _graph(weights: Floats, *, relu: bool = False) -> bytes:
    """x (rows, K) -> x (or its positive part) times the weights."""
    nodes = [
        helper.make_node("Relu" if relu else "Identity", ["x"], ["y"]),
        helper.make_node("MatMul", ["y", "w"], ["z"]),
    ]
    shapes = {"x": [None, weights.shape[0]], "z": [None, weights.shape[1]]}
    x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    graph = helper.make_graph(nodes, "product", [x], [z], [numpy_helper.from_array(weights, "w")])
    opset = helper.make_opsetid("", 20)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString())


def _run(graph: bytes, x: Floats) -> Floats:
    (z,) = ort.InferenceSession(graph, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return np.asarray(z)


def _activations(rows: int = 9) -> Floats:
    return np.random.default_rng(1).normal(size=(rows, ROWS)).astype(np.float32)


@pytest.mark.parametrize("relu", [False, True])
def test_a_product_is_what_whole_numbers_give(relu: bool) -> None:
    """Against the same sums in numpy: rounded rows, times rounded columns, times both scales."""
    x, (whole, scale) = _activations(), eight_bits(_weights())
    seen = np.maximum(x, 0) if relu else x
    peak, levels = np.abs(seen).max(axis=1, keepdims=True), 255 if relu else 127
    codes = np.rint(seen / peak * levels)
    expected = codes @ whole.astype(np.float64) * scale * peak / levels
    found = _run(quantise(_graph(_weights(), relu=relu), "row"), x)
    # A value half-way between two whole numbers may fall to either side: one step of one weight
    np.testing.assert_allclose(found, expected, atol=1.01 * float((peak / levels).max() * scale.max() * 127))
    assert np.median(np.abs(found - expected)) < 1e-5
    exact = seen @ _weights()
    assert 0 < np.abs(found - exact).max() < 0.05 * np.abs(exact).max()


def test_a_product_with_one_scale_is_what_whole_numbers_give() -> None:
    """Against the same sums in numpy, after ONNX's definition of DynamicQuantizeLinear; in standard operators."""
    x, (whole, scale) = _activations(), eight_bits(_weights())
    step = (max(x.max(), 0) - min(x.min(), 0)) / 255
    zero = np.clip(np.rint(-min(x.min(), 0) / step), 0, 255)
    codes = np.clip(np.rint(x / step) + zero, 0, 255) - zero
    expected = codes @ whole.astype(np.float64) * scale * step
    graph = quantise(_graph(_weights()), "matrix")
    assert {node.domain for node in onnx.load_from_string(graph).graph.node} == {""}
    found = _run(graph, x)
    np.testing.assert_allclose(found, expected, atol=1.01 * float(step * scale.max() * 127))
    assert np.median(np.abs(found - expected)) < 1e-5
    exact = x @ _weights()
    assert 0 < np.abs(found - exact).max() < 0.05 * np.abs(exact).max()


def test_products_of_one_matrix_round_it_once() -> None:
    first, second = _graph(_weights()), onnx.load_from_string(_graph(_weights()))
    model = onnx.load_from_string(first)
    again = second.graph.node[1]
    again.output[0], again.input[1] = "z2", "w2"
    model.graph.node.append(again)
    model.graph.initializer.append(numpy_helper.from_array(_weights(1), "w2"))
    for per, kind in (("matrix", "DynamicQuantizeLinear"), ("row", "QuantizeLinear")):
        nodes = onnx.load_from_string(quantise(model.SerializeToString(), per)).graph.node  # type: ignore[arg-type]
        assert [node.op_type for node in nodes].count(kind) == 1


def test_a_row_is_the_same_in_any_company() -> None:
    graph, x = quantise(_graph(_weights()), "row"), _activations()
    alone = _run(graph, x[:1])
    loud, silent = x.copy(), x.copy()
    loud[1:] *= 1e6
    silent[1:] = 0
    for company in (x, loud, silent):
        np.testing.assert_array_equal(_run(graph, company)[:1], alone)


@pytest.mark.parametrize("level", [0.0, 1e-25, 1e25])
def test_rows_of_any_level(level: float) -> None:
    x = _activations() * np.float32(level)
    found = _run(quantise(_graph(_weights()), "row"), x)
    exact = x.astype(np.float64) @ _weights()
    assert np.isfinite(found).all()
    assert np.abs(found - exact).max() <= 0.05 * np.abs(exact).max()


@given(
    rows=st.integers(1, 30),
    columns=st.integers(1, 4),
    seed=st.integers(0, 1000),
    shape=st.sampled_from(["normal", "same", "one", "zero"]),
)
@settings(max_examples=60, deadline=None)
def test_no_two_products_that_a_kernel_adds_leave_16_bits(rows: int, columns: int, seed: int, shape: str) -> None:
    rng = np.random.default_rng(seed)
    weights = {
        "normal": rng.normal(size=(rows, columns)),
        "same": np.full((rows, columns), rng.normal()),
        "one": rng.normal(size=(rows, columns)) * (np.arange(rows) == seed % rows)[:, None],
        "zero": np.zeros((rows, columns)),
    }[shape].astype(np.float32)
    whole, scale = eight_bits(weights)
    assert whole.dtype == np.int8
    assert np.abs(whole * scale - weights).max() <= 0.5001 * scale.max()
    for start in range(0, rows, 4):
        four = whole[start : start + 4].astype(int)
        for i in range(len(four)):
            for j in range(i):
                sums = (
                    255 * (np.maximum(four[i], 0) + np.maximum(four[j], 0)),
                    255 * (np.minimum(four[i], 0) + np.minimum(four[j], 0)),
                )
                assert sums[0].max() <= 32767
                assert sums[1].min() >= -32768


def test_weights_by_hand() -> None:
    whole, scale = eight_bits(np.array([[1.0, 3.0], [0.5, 1.0], [-1.0, 0.0], [0.0, 0.0], [0.25, -2.0]], np.float32))
    # The largest sum of two of one sign in the first four rows is 1.5 and 4; 127 stands for it
    np.testing.assert_allclose(scale, [1.5 / 127, 4 / 127], rtol=1e-6)
    np.testing.assert_array_equal(whole, [[85, 95], [42, 32], [-85, 0], [0, 0], [21, -64]])


def test_small_matrices_stay() -> None:
    small = np.ones((ROWS, SMALLEST // ROWS), np.float32)
    assert small.size < SMALLEST
    graph = _graph(small)
    assert quantise(graph, "row") == quantise(graph, "matrix") == graph


def _initializers(graph: bytes) -> dict[str, NDArray[np.generic]]:
    return {t.name: numpy_helper.to_array(t) for t in onnx.load_from_string(graph).graph.initializer}


def test_what_is_in_8_bits_and_what_is_not(toy: Toy) -> None:
    bundle = round_weights(toy[1], "int8")
    assert bundle.precision == "int8"
    config, vocabulary = toy[0].model.config, toy[0].tokenizer.vocab_size
    wide, inner, outer = config.d_model, config.encoder_ff, config.decoder_ff
    encoder_layer = sorted([(wide, 3 * wide), (wide, wide), (wide, inner), (inner, wide)])
    decoder_layer = [(wide, 3 * wide), (wide, wide), (wide, wide), (wide, wide), (wide, outer), (outer, wide)]
    expected = {
        "encoder": sorted([*encoder_layer * 2, (2 * wide, wide), *[(wide, 2 * wide)] * 2, (wide, vocabulary)]),
        # Tied to the embedding, but the exporter writes one as small as this out twice
        "decoder": sorted([*decoder_layer * 2, (wide, vocabulary)]),
    }
    for part, shapes in expected.items():
        tensors = _initializers(getattr(bundle, part))
        assert sorted(t.shape for t in tensors.values() if t.dtype == np.int8) == shapes
        assert not any(t.dtype == np.float32 and t.size >= SMALLEST for t in tensors.values())
        halves = sum(t.dtype == np.float16 for t in tensors.values())
        assert halves == 1  # the splicing convolution; the embedding
        onnx.checker.check_model(onnx.load_from_string(getattr(bundle, part)))


def test_an_int8_bundle_is_small_and_near(toy: Toy) -> None:
    trained, bundle = toy
    rounded, half = round_weights(bundle, "int8"), round_weights(bundle, "float16")
    values = sum(t.size for t in _initializers(rounded.decoder).values() if t.dtype == np.int8)
    assert len(half.decoder) - len(rounded.decoder) > 0.5 * values  # a byte each, less names and scales
    assert len(rounded.encoder) < len(half.encoder) - 700_000  # the front end's matrices as well
    parity = compare(trained, rounded)
    assert 1e-3 < parity.encoder < 0.5
    assert 1e-3 < parity.decoder < 0.5


def test_a_clip_is_the_same_in_any_company(toy: Toy) -> None:
    rng = np.random.default_rng(2)
    clips = [
        (level * rng.normal(size=size)).astype(np.float32) for level, size in ((0.1, 9000), (0.9, 30000), (0, 400))
    ]
    backend = OnnxBackend(round_weights(toy[1], "int8"), threads=1)
    together = backend.encode(clips)
    for i, clip in enumerate(clips):
        alone = backend.encode([clip])
        length = alone.lengths[0]
        np.testing.assert_array_equal(together.ctc[i, :length], alone.ctc[0])
        np.testing.assert_array_equal(together.cache.memory_k[:, i, :, :length], alone.cache.memory_k[:, 0])


def test_the_same_graph_gives_the_same_bytes(toy: Toy) -> None:
    first, second = round_weights(toy[1], "int8"), round_weights(toy[1], "int8")
    assert first == second
