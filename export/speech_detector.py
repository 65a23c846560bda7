"""Silero's speech detector with its convolutions as matrix products: the same numbers in a third of the time.

Its windows are so short that ONNX Runtime's convolutions spend most of their time on getting ready. Run as
`python -m export.speech_detector ORIGINAL OUTPUT`; what it wrote is `audio/silero_vad.onnx`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from asr.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from onnx import NodeProto

CHUNKS = "chunks"  # the open size
WINDOW, HIDDEN, BINS = 576, 128, 129  # samples of a chunk with its context, width of the memory, bins of a spectrum


class _Graph:
    """Nodes and constants as they come."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:  # noqa: ANN401  ONNX's own
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def rows(self, name: str, start: int, end: int, axis: int = 1) -> str:
        """A part along an axis."""
        names = [self._number(value) for value in (start, end, axis)]
        return self.add("Slice", [name, *names], f"{name}_{start}_{end}")

    def framed(self, name: str, before: int, after: int) -> str:
        """Rows of zeros put before and after the others, axis 1."""
        pads = self.constant(f"{name}_pads", np.array([0, before, 0, 0, after, 0]))
        return self.add("Pad", [name, pads], f"{name}_framed")

    def shaped(self, name: str, *shape: int) -> str:
        size = "x".join(str(n) for n in shape)
        return self.add("Reshape", [name, self.constant(f"{name}_{size}", np.array(shape))], f"{name}_as_{size}")

    def product(self, name: str, layer: str, weights: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        """Taps of a convolution side by side, (…, taps x channels), times its weights (out, channels, taps)."""
        matrix = weights.transpose(2, 1, 0).reshape(-1, weights.shape[0])
        mixed = self.add("MatMul", [name, self.constant(f"{layer}.weight", matrix)], f"{layer}_product")
        return self.add("Add", [mixed, self.constant(f"{layer}.bias", bias)], f"{layer}_sum")

    def _number(self, value: int) -> str:
        name = f"number_{value}"
        if name not in {tensor.name for tensor in self.constants}:
            self.constant(name, np.array([value]))
        return name


def rewrite(original: bytes) -> bytes:
    """The network of Silero VAD 6.2: input (C, 576), h, c (1, 1, 128) -> speech_probs (C,), hn, cn."""
    source = onnx.load_from_string(original)
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in source.graph.initializer}
    layers = [(tensors[f"encoder.{i}.weight"], tensors[f"encoder.{i}.bias"]) for i in range(4)]
    g = _Graph()
    # Four spectra of 256 samples, one every 128; the last one looks at the window's end reflected
    right = g.constant("reflected", np.array([0, 0, 0, 64]))
    blocks = g.shaped(g.add("Pad", ["input", right], "padded", mode="reflect"), -1, 5, 128)
    frames = g.add("Concat", [g.rows(blocks, 0, 4), g.rows(blocks, 1, 5)], "frames", axis=2)  # (C, 4, 256)
    waves = g.constant("waves", tensors["stft.forward_basis_buffer"][:, 0].T)  # (256, 258)
    spectra = g.add("MatMul", [frames, waves], "spectra")
    squares = g.add("Mul", [spectra, spectra], "squares")
    power = g.add("Add", [g.rows(squares, 0, BINS, 2), g.rows(squares, BINS, 2 * BINS, 2)], "power")
    x = g.framed(g.add("Sqrt", [power], "magnitudes"), 1, 1)  # (C, 6, 129)
    taps = g.add("Concat", [g.rows(x, i, i + 4) for i in range(3)], "taps_0", axis=2)
    x = g.framed(g.add("Relu", [g.product(taps, "layer_0", *layers[0])], "heard_0"), 1, 0)  # (C, 5, 128)
    taps = g.add("Concat", [g.shaped(g.rows(x, i, i + 3), -1, 1, 384) for i in (0, 2)], "taps_1", axis=1)
    x = g.add("Relu", [g.product(taps, "layer_1", *layers[1])], "heard_1")  # (C, 2, 64)
    # Of three taps each, one and then two lie on zeros
    x = g.add("Relu", [g.product(g.shaped(x, -1, 1, 128), "layer_2", layers[2][0][:, :, 1:], layers[2][1])], "heard_2")
    x = g.add("Relu", [g.product(x, "layer_3", layers[3][0][:, :, 1:2], layers[3][1])], "heard_3")  # (C, 1, 128)
    (recurrent,) = (node for node in source.graph.node if node.op_type == "LSTM")
    weights = [g.constant(f"memory_{i}", tensors[name]) for i, name in enumerate(recurrent.input[1:4])]
    g.nodes.append(
        helper.make_node("LSTM", [x, *weights, "", "h", "c"], ["remembered", "hn", "cn"], hidden_size=HIDDEN)
    )
    x = g.add("Relu", [g.shaped("remembered", -1, HIDDEN)], "known")
    verdict = g.add("Sigmoid", [g.product(x, "verdict", tensors["output.weight"], tensors["output.bias"])], "said")
    g.nodes[-1].output[0] = verdict
    flat = g.constant("flat", np.array([-1]))
    g.add("Reshape", [verdict, flat], "speech_probs")
    memory = [1, 1, HIDDEN]
    graph = helper.make_graph(
        g.nodes, "silero_vad", [_value("input", [CHUNKS, WINDOW]), _value("h", memory), _value("c", memory)],
        [_value("speech_probs", [CHUNKS]), _value("hn", memory), _value("cn", memory)], g.constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def _value(name: str, shape: Sequence[str | int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


if __name__ == "__main__":
    write_atomically(Path(sys.argv[2]), rewrite(Path(sys.argv[1]).read_bytes()))
