"""The front end's matrix as its recipe: the same numbers for every spec, and none where it would say something else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from asr.runtime import OnnxBackend
from audio.mfcc import MfccSpec
from audio.mfcc_torch import Mfcc
from export.spectrum import compute_spectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained

NAME = "model.front_end.dft"


def _graph(table: NDArray[np.float64]) -> bytes:
    """x (1, frame) -> x times the table."""
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [1, table.shape[0]])
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, [1, table.shape[1]])
    node = helper.make_node("MatMul", ["x", NAME], ["y"])
    graph = helper.make_graph([node], "front end", [x], [y], [numpy_helper.from_array(table, NAME)])
    opset = helper.make_opsetid("", 20)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString())


def _run(graph: bytes, x: NDArray[np.float64]) -> NDArray[np.float64]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    (y,) = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return np.asarray(y)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"pre_emphasis": 0.0}, {"remove_dc": False}, {"pre_emphasis": 0.0, "remove_dc": False},
        {"window": "hamming"}, {"c0": "energy"}, {"scale": 32768.0}, {"high_hz": 4000.0},
    ],
)  # fmt: skip
def test_the_recipe_gives_the_matrix_of_the_spec(changes: dict[str, Any]) -> None:
    spec = MfccSpec(**changes)
    table = Mfcc(spec).dft.numpy()
    before, x = _graph(table), np.random.default_rng(0).normal(size=(1, spec.frame))
    after = compute_spectrum(before, spec)
    assert len(after) < len(before) / 20
    np.testing.assert_allclose(_run(after, x), _run(before, x), rtol=0, atol=1e-10 * np.abs(table).max())


def test_a_matrix_that_the_spec_does_not_give_stays() -> None:
    other = _graph(Mfcc(MfccSpec(window="hamming")).dft.numpy())
    assert compute_spectrum(other, MfccSpec()) == other


def test_a_graph_without_a_front_end_stays(toy: tuple[Trained, Bundle]) -> None:
    assert compute_spectrum(toy[1].decoder, toy[1].front_end) == toy[1].decoder


def test_the_encoder_says_the_same(toy: tuple[Trained, Bundle]) -> None:
    bundle = toy[1]
    small = replace(bundle, encoder=compute_spectrum(bundle.encoder, bundle.front_end))
    assert len(small.encoder) < len(bundle.encoder) - 1_500_000
    clip = (0.1 * np.random.default_rng(0).normal(size=9000)).astype(np.float32)
    before, after = (OnnxBackend(each, threads=1).encode([clip]).ctc for each in (bundle, small))
    np.testing.assert_allclose(after, before, atol=1e-5)
