"""Weights of matrix products in 8 bits, with what they are multiplied by rounded to 8 bits at run time.

The encoder is given one utterance at a time, so that its activations may have one scale together: that is what ONNX's
DynamicQuantizeLinear does, in standard operators that ONNX Runtime fuses into one. The decoder is given several texts
at once, or several tokens of one: there each row of the activations has a scale of its own, as each column of the
weights has, so that an answer doesn't depend on what is beside it. ONNX Runtime's MatMulNBits has a scale per row too,
but needs a newer ONNX Runtime, and is slower than float32 on more than a few rows.

The pair is unsigned activations by signed weights: ONNX Runtime has fast kernels for it on x86 and ARM, and falls to a
plain loop for two signed matrices on x86. Processors with AVX2 or AVX-512 but without VNNI add two neighbouring
products in 16 bits, where they saturate above 32,767. So no two weights of one sign among the four rows that a kernel
takes at once add up to more than 128, and 255 · 128 = 32,640 fits: every processor gives the same sums. That costs a
third of the resolution of a full eight bits; seven bits for all weights would cost half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.halve import SMALLEST

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import NodeProto

_MOST = 127  # of two weights together, before they are rounded; see above
_AT_ONCE = 4  # rows
_DOMAIN = "com.microsoft"  # of MatMulIntegerToFloat, in ONNX Runtime's CPU provider on every platform

Scale: TypeAlias = Literal["matrix", "row"]

# Name, value: what all products by rows share. Signed activations are ±127 about 128, those behind a ReLU 0 to 255
_CONSTANTS: dict[str, NDArray[np.generic]] = {
    "int8_least": np.array(np.finfo(np.float32).tiny * 2**20, np.float32),  # a row of zeros is divided by something
    "int8_last_axis": np.array([-1], np.int64),
    "int8_signed_step": np.array(1 / 127, np.float32),
    "int8_signed_zero": np.array(128, np.uint8),
    "int8_positive_step": np.array(1 / 255, np.float32),
    "int8_positive_zero": np.array(0, np.uint8),
}


def quantise(graph: bytes, per: Scale) -> bytes:
    """The graph with every matrix product by a large float32 constant done in 8 bits; all else as it was.

    per: what of the activations has a scale together.

    Products of two computed matrices (attention), the front end (float64), convolutions, embeddings, biases and
    normalisation stay in floating point.
    """
    model = onnx.load_from_string(graph)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    behind_relu = {name for node in model.graph.node if node.op_type == "Relu" for name in node.output}
    weights = {node.input[1]: tensors[node.input[1]] for node in model.graph.node if _is_large_product(node, tensors)}
    if not weights:
        return graph
    nodes: list[NodeProto] = []
    ready: set[str] = set()  # activations whose 8 bits are there already: several products may share them
    for node in model.graph.node:
        if not _is_large_product(node, tensors):
            nodes.append(node)
            continue
        first = node.input[0] not in ready
        ready.add(node.input[0])
        if per == "matrix":
            nodes += _whole_product(node, first=first)
            continue
        kind = "positive" if node.input[0] in behind_relu else "signed"
        nodes += _rounded(node.input[0], kind) if first else []
        nodes += _product(node, kind)
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    kept += [numpy_helper.from_array(value, name) for name, value in _CONSTANTS.items() if name in read]
    for name, tensor in weights.items():
        rounded, scale = eight_bits(numpy_helper.to_array(tensor))
        kept += [numpy_helper.from_array(rounded, f"{name}_int8"), numpy_helper.from_array(scale, f"{name}_scale")]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(kept)
    model.graph.node.extend(nodes)
    if per == "row":
        model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def eight_bits(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """(K, N) -> whole numbers (K, N) from -127 to 127, and what a column of them is multiplied by (N,).

    No two numbers of one sign within rows 4 i to 4 i + 3 of a column add up to more than 128.
    """
    rows, columns = weights.shape
    fours = np.zeros((-(-rows // _AT_ONCE) * _AT_ONCE, columns), np.float32)
    fours[:rows] = weights
    fours = fours.reshape(-1, _AT_ONCE, columns)
    pairs = [np.sort(np.maximum(sign * fours, 0), axis=1)[:, -2:].sum(axis=1).max(axis=0) for sign in (1, -1)]
    most = np.maximum(*pairs)
    scale = np.where(most > 0, most / _MOST, 1).astype(np.float32)
    return np.rint(weights / scale).astype(np.int8), scale


def _is_large_product(node: NodeProto, tensors: dict[str, TensorProto]) -> bool:
    tensor = tensors.get(node.input[1]) if node.op_type == "MatMul" else None
    return (
        tensor is not None
        and tensor.data_type == TensorProto.FLOAT
        and len(tensor.dims) == 2
        and bool(np.prod(tensor.dims) >= SMALLEST)
    )


def _whole_product(node: NodeProto, *, first: bool) -> list[NodeProto]:
    """first: whether no product before has had its 8 bits."""
    name, weight, output = node.input[0], node.input[1], node.output[0]
    codes, scale, zero = (f"{name}_{part}" for part in ("codes", "scale", "zero"))
    return [
        *([helper.make_node("DynamicQuantizeLinear", [name], [codes, scale, zero])] if first else []),
        helper.make_node("MatMulInteger", [codes, f"{weight}_int8", zero], [f"{output}_whole"]),
        helper.make_node("Cast", [f"{output}_whole"], [f"{output}_sums"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [scale, f"{weight}_scale"], [f"{output}_scale"]),
        helper.make_node("Mul", [f"{output}_sums", f"{output}_scale"], [output]),
    ]


def _rounded(name: str, kind: str) -> list[NodeProto]:
    """Nodes that give NAME_codes (uint8) and NAME_peak, the largest magnitude of each row."""
    size = name if kind == "positive" else f"{name}_size"
    nodes = [] if kind == "positive" else [helper.make_node("Abs", [name], [size])]
    return [
        *nodes,
        helper.make_node("ReduceMax", [size, "int8_last_axis"], [f"{name}_most"], keepdims=1),
        helper.make_node("Max", [f"{name}_most", "int8_least"], [f"{name}_peak"]),
        helper.make_node("Div", [name, f"{name}_peak"], [f"{name}_share"]),
        helper.make_node(
            "QuantizeLinear", [f"{name}_share", f"int8_{kind}_step", f"int8_{kind}_zero"], [f"{name}_codes"]
        ),
    ]


def _product(node: NodeProto, kind: str) -> list[NodeProto]:
    name, weight, output = node.input[0], node.input[1], node.output[0]
    inputs = [f"{name}_codes", f"{weight}_int8", f"int8_{kind}_step", f"{weight}_scale", f"int8_{kind}_zero"]
    return [
        helper.make_node("MatMulIntegerToFloat", inputs, [f"{output}_share"], domain=_DOMAIN),
        helper.make_node("Mul", [f"{output}_share", f"{name}_peak"], [output]),
    ]
