"""The front end's largest matrix, computed when a graph is loaded: 1.6 MB of float64 that 20 kB say as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from audio.mfcc import spectrum_bins, window

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import NodeProto

    from audio.mfcc import MfccSpec

    Constants: TypeAlias = dict[str, NDArray[np.float64] | NDArray[np.int64]]

_TABLE = "model.front_end.dft"  # (frame, 2 bins), float64; see audio.mfcc_torch


def compute_spectrum(graph: bytes, spec: MfccSpec) -> bytes:
    """The graph with the matrix from frames to spectra written as how it is made, in the same float64.

    ONNX Runtime folds it when it loads the graph, so that running it costs the same. Where that wouldn't give the same
    matrix to the twelfth digit, the graph comes back as it was.
    """
    model = onnx.load_from_string(graph)
    table = next((tensor for tensor in model.graph.initializer if tensor.name == _TABLE), None)
    if table is None:
        return graph
    nodes, constants = _recipe(spec)
    wanted = numpy_helper.to_array(table)
    if not _gives(nodes, constants, wanted):
        return graph
    model.graph.initializer.remove(table)
    model.graph.initializer.extend(_tensors(constants))
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *rest])
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _recipe(spec: MfccSpec) -> tuple[list[NodeProto], Constants]:
    """Nodes and constants whose result is _TABLE: DFT, window and scale, pre-emphasis (transposed), mean removal."""
    size = spec.frame
    angle = 2 * np.pi / spec.fft * np.arange(spec.fft)
    constants: Constants = {
        "sample": np.arange(size)[:, None],  # (frame, 1)
        "bin": spectrum_bins(spec)[None].astype(np.int64),  # (1, bins)
        "turn": np.array(spec.fft),
        "cos": np.cos(angle),
        "sin": -np.sin(angle),
    }
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Mul", ["sample", "bin"], "steps", {}),
        ("Mod", ["steps", "turn"], "phase", {}),  # k n modulo fft, so that the angles stay small and exact
        ("Gather", ["cos", "phase"], "real", {}),
        ("Gather", ["sin", "phase"], "imaginary", {}),
        ("Concat", ["real", "imaginary"], "waves", {"axis": 1}),
        ("Mul", ["waves", "taper"], "tapered", {}),
    ]
    last = "tapered"
    taper = spec.scale * window(spec)[:, None]  # (frame, 1)
    constants["taper"] = taper
    if spec.pre_emphasis:
        # A sample counts where it stands and, negatively, in the next one; the first stands before itself as well
        constants["taper"] = np.concatenate([taper[:1] * (1 - spec.pre_emphasis), taper[1:]])
        constants["share"] = np.concatenate([spec.pre_emphasis * taper[1:], [[0]]])
        constants["next"] = np.minimum(np.arange(size) + 1, size - 1)
        steps += [
            ("Gather", ["waves", "next"], "following", {"axis": 0}),
            ("Mul", ["following", "share"], "taken", {}),
            ("Sub", [last, "taken"], "emphasised", {}),
        ]
        last = "emphasised"
    if spec.remove_dc:
        constants["frame_axis"] = np.array([0])
        steps += [("ReduceMean", [last, "frame_axis"], "mean", {"keepdims": 1}), ("Sub", [last, "mean"], "level", {})]
        last = "level"
    names = {last: _TABLE}
    nodes = [
        helper.make_node(kind, [_named(name) for name in inputs], [names.get(output, _named(output))], **attributes)
        for kind, inputs, output, attributes in steps
    ]
    return nodes, {_named(name): value for name, value in constants.items()}


def _named(name: str) -> str:
    return f"{_TABLE}.{name}"


def _tensors(constants: Constants) -> list[TensorProto]:
    return [numpy_helper.from_array(value, name) for name, value in constants.items()]


def _gives(nodes: list[NodeProto], constants: Constants, wanted: NDArray[np.float64]) -> bool:
    output = helper.make_tensor_value_info(_TABLE, TensorProto.DOUBLE, wanted.shape)
    graph = helper.make_graph(nodes, "spectrum", [], [output], _tensors(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = session.run(None, {})[0]
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() <= 1e-12 * np.abs(wanted).max())
