"""Nodes of a graph, written as calls: what the one-graph export is put together with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto


Attribute: TypeAlias = "int | list[int] | GraphProto"


class Constants:
    """Values that all graphs of a model share; each is there once, in the outermost."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.tensors: list[TensorProto] = []

    def name(self, value: NDArray[Any] | np.generic) -> str:
        """What it is called in the graphs."""
        array = np.asarray(value)
        key = (
            array.dtype.str,
            array.shape,
            repr(array.tolist()).encode() if array.dtype == object else array.tobytes(),
        )
        if key not in self._names:
            self._names[key] = f"constant_{len(self._names)}"
            self.tensors.append(numpy_helper.from_array(array, self._names[key]))
        return self._names[key]


class Nodes:
    """A graph under way: each call adds a node and gives the name of what it computes."""

    def __init__(self, prefix: str, constants: Constants) -> None:
        """prefix: of all names, which must differ from those of the graphs around and inside."""
        self._prefix, self._count = prefix, 0
        self.constants = constants
        self.list: list[NodeProto] = []
        self.shapes: list[ValueInfoProto] = []

    def __call__(self, operator: str, *inputs: str | NDArray[Any] | np.generic, **attributes: Attribute) -> str:
        """One node with one output. inputs: names, or values, which become constants."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(
        self, operator: str, outputs: int, *inputs: str | NDArray[Any] | np.generic, **attributes: Attribute
    ) -> list[str]:
        """One node with so many outputs."""
        names = [value if isinstance(value, str) else self.constants.name(value) for value in inputs]
        self._count += 1
        results = [f"{self._prefix}/{operator}_{self._count}" + (f"_{i}" if i else "") for i in range(outputs)]
        node = helper.make_node(operator, names, results, results[0])
        node.attribute.extend(helper.make_attribute(name, value) for name, value in sorted(attributes.items()))
        self.list.append(node)
        return results

    def named(self, source: str, name: str) -> str:
        """The same value under a name of its own."""
        self.list.append(helper.make_node("Identity", [source], [name], name=name))
        return name

    def insert(self, graph: GraphProto, nodes: Iterable[NodeProto], **inputs: str) -> None:
        """Nodes of a graph, whose inputs have these values.

        What was known of their shapes still is: ONNX Runtime fuses operators by it, and others round otherwise.
        """
        for name, source in inputs.items():
            self.named(source, f"{graph.name}/{name}")
        nodes = list(nodes)
        self.list.extend(nodes)
        ours = {f"{graph.name}/{name}" for name in inputs} | {name for node in nodes for name in node.output}
        self.shapes += [value for value in (*graph.input, *graph.value_info, *graph.output) if value.name in ours]
