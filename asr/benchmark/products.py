"""How many operations per second the machine reaches at best: ONNX Runtime's own matrix product, and nothing else.

The graphs, of one operator each, are written out here as protocol buffers (onnx.proto's numbers stand beside the
fields): the package `onnx` isn't part of the base install.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.benchmark.flops import Precision

PRECISIONS: tuple[Precision, ...] = ("float64", "float32", "int8")
SIDE = 512  # of the square matrices: what fits into caches of today, and is large enough for every core
SECONDS = 0.3  # that each precision is measured for
_OPSET, _IR = 13, 8
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "float64": 11}  # TensorProto.DataType


def product_graph(precision: Precision, weights: NDArray[np.generic]) -> bytes:
    """The graph that multiplies its input "x" (M, K) by these weights (K, N) into "y"; int8: x is uint8, y int32.

    Weights are constants, as a model's are: ONNX Runtime brings such into order once.
    """
    operator, given, result = (
        ("MatMulInteger", "uint8", "int32") if precision == "int8" else ("MatMul", precision, precision)
    )
    node = _field(1, b"x") + _field(1, b"w") + _field(2, b"y") + _field(4, operator.encode())  # input, output, op_type
    tensor = b"".join(_number(1, size) for size in weights.shape)  # dims
    tensor += _number(2, _TYPES[weights.dtype.name]) + _field(8, b"w") + _field(9, weights.tobytes())  # raw_data
    graph = _field(1, node) + _field(2, b"product") + _field(5, tensor)  # node, name, initializer
    graph += _field(11, _value(b"x", given, ("m", weights.shape[0])))  # input
    graph += _field(12, _value(b"y", result, ("m", weights.shape[1])))  # output
    opset = _field(1, b"") + _number(2, _OPSET)  # domain, version
    return _number(1, _IR) + _field(7, graph) + _field(8, opset)  # ir_version, graph, opset_import


def peak(precision: Precision, threads: int) -> float:
    """Operations per second of the fastest of many matrix products, with so many threads."""
    draw = np.random.default_rng(0)
    if precision == "int8":
        weights: NDArray[np.generic] = draw.integers(-63, 64, (SIDE, SIDE), np.int8)
        values: NDArray[np.generic] = draw.integers(0, 256, (SIDE, SIDE), np.uint8)
    else:
        weights, values = (draw.normal(size=(SIDE, SIDE)).astype(precision) for _ in range(2))
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    session = ort.InferenceSession(product_graph(precision, weights), options, providers=["CPUExecutionProvider"])
    fastest, until = np.inf, time.perf_counter() + SECONDS
    runs = 0
    while time.perf_counter() < until or runs < 5:
        start = time.perf_counter()
        session.run(None, {"x": values})
        fastest = min(fastest, time.perf_counter() - start)
        runs += 1
    return float(2 * SIDE**3 / fastest)


def peaks(threads: int) -> dict[Precision, float]:
    """Of all precisions."""
    return {precision: peak(precision, threads) for precision in PRECISIONS}


def _value(name: bytes, kind: str, shape: tuple[str | int, ...]) -> bytes:
    """ValueInfoProto of a tensor; sizes that are left open have names."""
    sizes = b"".join(
        _field(1, _number(1, size) if isinstance(size, int) else _field(2, size.encode())) for size in shape
    )
    return _field(1, name) + _field(2, _field(1, _number(1, _TYPES[kind]) + _field(2, sizes)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last have their highest bit set."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
