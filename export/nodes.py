"""Nodes of a graph, written as calls: what the one-graph export is put together with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from onnx import GraphProto, NodeProto, ValueInfoProto


LAST, REST = np.array([-1]), np.array([np.iinfo(np.int64).max])  # for Slice
FIRST = np.array([0])  # for Slice, and as an axis
SECOND = np.array([1])

Attribute: TypeAlias = "int | list[int] | GraphProto"


@dataclass(frozen=True)
class State:
    """A value that a loop hands on, in its body PREFIX/NAME."""

    name: str
    kind: int
    shape: Sequence[int | str | None]
    first: str | NDArray[Any] | np.generic
    following: str  # after a turn


@dataclass(frozen=True)
class Turn:
    """What one turn of a loop says beside its states."""

    goes_on: str
    collected: Sequence[tuple[str, int]] = ()  # scalars, with their types; the loop gives them as vectors


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
        self.prefix, self._count = prefix, 0
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
        results = [f"{self.prefix}/{operator}_{self._count}" + (f"_{i}" if i else "") for i in range(outputs)]
        node = helper.make_node(operator, names, results, results[0])
        node.attribute.extend(helper.make_attribute(name, value) for name, value in sorted(attributes.items()))
        self.list.append(node)
        return results

    def named(self, source: str, name: str) -> str:
        """The same value under a name of its own."""
        self.list.append(helper.make_node("Identity", [source], [name], name=name))
        return name

    def loop(self, body: Nodes, turns: str, begins: str | np.bool_, states: Sequence[State], turn: Turn) -> list[str]:
        """A loop: its states at the end, then what was collected. In the body, PREFIX/number counts from 0."""

        def tell(name: str, kind: int, shape: Sequence[int | str | None] = ()) -> ValueInfoProto:
            return helper.make_tensor_value_info(f"{body.prefix}/{name}", kind, shape)

        given = [tell("number", TensorProto.INT64), tell("going", TensorProto.BOOL)]
        given += [tell(state.name, state.kind, state.shape) for state in states]
        results = [tell("goes_on", TensorProto.BOOL)]
        results += [tell(f"next_{state.name}", state.kind, state.shape) for state in states]
        results += [tell(f"collected_{i}", kind) for i, (_, kind) in enumerate(turn.collected)]
        values = [turn.goes_on, *(state.following for state in states), *(name for name, _ in turn.collected)]
        for value, result in zip(values, results, strict=True):
            body.named(value, result.name)
        graph = helper.make_graph(body.list, body.prefix, given, results, value_info=body.shapes)
        count = len(states) + len(turn.collected)
        return self.several("Loop", count, turns, begins, *(state.first for state in states), body=graph)

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
