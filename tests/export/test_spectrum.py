"""The front end's matrix as its recipe: the same numbers for every spec, and none where it would say something else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from asr.runtime import OnnxBackend
from audio.mfcc import MfccSpec
from audio.spectrum_torch import Spectrum
from export.spectrum import compute_spectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained

PREFIX = "model.front_end.spectrum."


def _graph(spec: MfccSpec) -> tuple[bytes, dict[str, NDArray[np.float64]]]:
    """x (1, rows) times each table, and the tables."""
    tables = {PREFIX + name: table.numpy() for name, table in Spectrum(spec).named_buffers()}
    nodes, inputs, outputs = [], [], []
    for name, table in tables.items():
        inputs.append(helper.make_tensor_value_info(f"x {name}", TensorProto.DOUBLE, [1, table.shape[0]]))
        outputs.append(helper.make_tensor_value_info(f"y {name}", TensorProto.DOUBLE, [1, table.shape[1]]))
        nodes.append(helper.make_node("MatMul", [f"x {name}", name], [f"y {name}"]))
    constants = [numpy_helper.from_array(table, name) for name, table in tables.items()]
    graph = helper.make_graph(nodes, "front end", inputs, outputs, constants)
    opset = helper.make_opsetid("", 20)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString()), tables


def _run(graph: bytes, x: dict[str, NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    return [np.asarray(y) for y in session.run(None, x)]


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"pre_emphasis": 0.0}, {"remove_dc": False}, {"pre_emphasis": 0.0, "remove_dc": False},
        {"window": "hamming"}, {"c0": "energy"}, {"scale": 32768.0}, {"high_hz": 4000.0}, {"frame": 405, "hop": 135},
        {"window": "hann", "periodic_window": True, "pre_emphasis": 0.0}, {"window": "hamming", "pre_emphasis": 0.0},
    ],
)  # fmt: skip
def test_the_recipe_gives_the_matrix_of_the_spec(changes: dict[str, Any]) -> None:
    spec = MfccSpec(**changes)
    before, tables = _graph(spec)
    rng = np.random.default_rng(0)
    x = {f"x {name}": rng.normal(size=(1, len(table))) for name, table in tables.items()}
    after = compute_spectrum(before, spec)
    assert len(after) < 35_000 < len(before) / 10
    largest = max(np.abs(table).max() for table in tables.values())
    for found, wanted in zip(_run(after, x), _run(before, x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * largest)


@pytest.mark.parametrize("other", [{"window": "hann"}, {"window": "hamming"}, {"pre_emphasis": 0.9}])
def test_a_matrix_that_the_spec_does_not_give_stays(other: dict[str, Any]) -> None:
    graph, tables = _graph(MfccSpec(**other))
    kept = {tensor.name for tensor in onnx.load_from_string(compute_spectrum(graph, MfccSpec())).graph.initializer}
    # What pre-emphasis leaves of a mean is in the sums' table alone
    assert kept & set(tables) == ({f"{PREFIX}even"} if "pre_emphasis" in other else set(tables))


def test_a_graph_without_a_front_end_stays(toy: tuple[Trained, Bundle]) -> None:
    assert compute_spectrum(toy[1].decoder, toy[1].front_end) == toy[1].decoder


def test_the_encoder_says_the_same(toy: tuple[Trained, Bundle]) -> None:
    bundle = toy[1]
    small = replace(bundle, encoder=compute_spectrum(bundle.encoder, bundle.front_end))
    assert len(small.encoder) < len(bundle.encoder) - 700_000
    clip = (0.1 * np.random.default_rng(0).normal(size=9000)).astype(np.float32)
    before, after = (OnnxBackend(each, threads=1).encode([clip]).ctc for each in (bundle, small))
    np.testing.assert_allclose(after, before, atol=1e-5)
