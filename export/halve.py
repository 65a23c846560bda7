"""Weights kept in half precision: half the file, the same graph otherwise, computed in float32."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from asr.errors import CepstraError

SMALLEST = 1024  # values; below this nothing is saved


def halve(graph: bytes) -> bytes:
    """The graph with its large float32 weights stored as float16, each cast back before it is used.

    ONNX Runtime folds the casts when it loads the graph, so that running it costs the same. Raises CepstraError for a
    weight too large for half precision.
    """
    model = onnx.load_from_string(graph)
    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or np.prod(tensor.dims) < SMALLEST:
            continue
        values = numpy_helper.to_array(tensor)
        if np.abs(values).max() > np.finfo(np.float16).max:
            raise CepstraError(f"weight {tensor.name}: too large for float16; export it in float32")
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}_half"))
        casts.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
