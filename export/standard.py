"""A bundle's graph as part of another: under names of its own, in ONNX's standard operators alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import AttributeProto, TensorProto, compose, helper

from asr.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onnx import GraphProto, NodeProto

OPSET = 20  # of all graphs, in standard operators; ONNX Runtime 1.17 and later
IR_VERSION = 10  # the same


def standard_graph(graph: bytes, name: str) -> GraphProto:
    """The graph with all its names after "NAME/", and the operators of other domains written out.

    Raises BundleError, which names the operator, for one that isn't known here.
    """
    model = onnx.load_from_string(graph)
    version = next((entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), None)
    if version != OPSET:
        raise BundleError(f"{name}.onnx: made of opset {version}, not {OPSET}; export the bundle again")
    inside = compose.add_prefix(model, f"{name}/").graph
    inside.name = name
    _rewrite(inside)
    return inside


def _rewrite(graph: GraphProto) -> None:
    nodes: list[NodeProto] = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _rewrite(attribute.g)
        if node.domain in {"", "ai.onnx"}:
            nodes.append(node)
            continue
        written_out = _REWRITES.get((node.domain, node.op_type))
        if written_out is None:
            raise BundleError(
                f"{graph.name}: operator {node.op_type} of {node.domain} has no form in standard operators here; "
                "make the graph of a bundle in float32 or float16"
            )
        nodes += written_out(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _whole_number_product(node: NodeProto) -> list[NodeProto]:
    """MatMulIntegerToFloat: sums of whole numbers, times both scales, as ONNX Runtime's kernel multiplies them."""
    left, right, left_scale, right_scale, *rest = node.input
    left_zero, right_zero, bias = (*rest, "", "", "")[:3]
    output = node.output[0]
    product = f"{output}/scaled" if bias else output
    nodes = [
        helper.make_node("MatMulInteger", [left, right, left_zero, right_zero], [f"{output}/sum"]),
        helper.make_node("Cast", [f"{output}/sum"], [f"{output}/float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [left_scale, right_scale], [f"{output}/scale"]),
        helper.make_node("Mul", [f"{output}/float", f"{output}/scale"], [product]),
    ]
    return [*nodes, helper.make_node("Add", [product, bias], [output])] if bias else nodes


_REWRITES: dict[tuple[str, str], Callable[[NodeProto], list[NodeProto]]] = {
    ("com.microsoft", "MatMulIntegerToFloat"): _whole_number_product,
}


def split_by(graph: GraphProto, changing: Iterable[str]) -> tuple[list[NodeProto], list[NodeProto]]:
    """The graph's nodes: those that need none of these values, which a loop computes once before it; and the others."""
    touched = set(changing)
    before: list[NodeProto] = []
    inside: list[NodeProto] = []
    for node in graph.node:
        if touched.isdisjoint(_reads(node)) and not node.op_type.startswith("Random"):
            before.append(node)
        else:
            inside.append(node)
            touched.update(node.output)
    return before, inside


def _reads(node: NodeProto) -> set[str]:
    """Names that a node reads, and those that its subgraphs read (their own among them)."""
    names = set(node.input)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                names |= _reads(inner)
            names.update(value.name for value in attribute.g.output)
    return names
