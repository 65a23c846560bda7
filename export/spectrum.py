"""The front end's largest matrices, computed when a graph is loaded: 0.8 MB of float64 that 30 kB say as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from audio.mfcc import spectrum_bins, window
from audio.spectrum import folds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from onnx import NodeProto

    from audio.mfcc import MfccSpec

    Constants: TypeAlias = dict[str, NDArray[np.float64] | NDArray[np.int64]]

_SPECTRUM = "model.front_end.spectrum."  # of audio.spectrum_torch; the names of audio.spectrum's tables follow


def compute_spectrum(graph: bytes, spec: MfccSpec) -> bytes:
    """The graph with the matrices from frames to spectra written as how they are made, in the same float64.

    ONNX Runtime folds that when it loads the graph, so that running it costs the same. A matrix that wouldn't come out
    the same to the twelfth digit stays as it was.
    """
    model = onnx.load_from_string(graph)
    changed = False
    recipes = _whole(spec), *_halves(spec)
    for recipe in recipes:
        table = next((tensor for tensor in model.graph.initializer if tensor.name == recipe.name), None)
        if table is None or not recipe.gives(numpy_helper.to_array(table)):
            continue
        model.graph.initializer.remove(table)
        model.graph.initializer.extend(recipe.tensors())
        rest = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend([*recipe.nodes, *rest])
        changed = True
    if not changed:
        return graph
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


class _Recipe:
    """Nodes and constants whose result is a table."""

    def __init__(self, table: str) -> None:
        self.name = _SPECTRUM + table
        self.nodes: list[NodeProto] = []
        self._constants: Constants = {}

    def constant(self, name: str, value: NDArray[np.float64] | NDArray[np.int64]) -> str:
        """Its whole name."""
        self._constants[self._named(name)] = value
        return self._named(name)

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:  # noqa: ANN401  as onnx takes them
        """A node; the name of what it gives."""
        self.nodes.append(helper.make_node(kind, inputs, [self._named(output)], **attributes))
        return self._named(output)

    def done(self) -> _Recipe:
        """What the last node gives is the table."""
        self.nodes[-1].output[0] = self.name
        return self

    def tensors(self) -> list[TensorProto]:
        """The constants."""
        return [numpy_helper.from_array(value, name) for name, value in self._constants.items()]

    def gives(self, wanted: NDArray[np.float64]) -> bool:
        """Whether this is the table that comes out."""
        output = helper.make_tensor_value_info(self.name, TensorProto.DOUBLE, wanted.shape)
        graph = helper.make_graph(self.nodes, "spectrum", [], [output], self.tensors())
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(None, {})[0]
        return found.shape == wanted.shape and bool(np.abs(found - wanted).max() <= 1e-12 * np.abs(wanted).max())

    def _named(self, name: str) -> str:
        return f"{self.name}.{name}"


def _halves(spec: MfccSpec) -> Iterator[_Recipe]:
    """`even` and `odd`: DFT and window, and below the first a row for the mean."""
    if not folds(spec):
        return
    half = (spec.frame + 1) // 2
    angle = np.pi / spec.fft * np.arange(2 * spec.fft)
    for name, wave in (("even", np.cos(angle)), ("odd", -np.sin(angle))):
        recipe = _Recipe(name)
        phase = _phase(recipe, 2 * np.arange(half) - spec.frame + 1, 2 * spec.fft, spec)
        waves = recipe.add("Gather", [recipe.constant("wave", wave), phase], "waves")
        taper = spec.scale * window(spec)[:half]
        taper[2 * np.arange(half) == spec.frame - 1] /= 2
        tapered = recipe.add("Mul", [waves, recipe.constant("taper", taper[:, None])], "tapered")
        if name == "even" and spec.remove_dc:
            total = recipe.add("ReduceSum", [tapered, recipe.constant("rows", np.array([0]))], "total", keepdims=1)
            share = recipe.constant("share", np.array(-2 * (1 - spec.pre_emphasis)))
            mean = recipe.add("Mul", [total, share], "mean")
            recipe.add("Concat", [tapered, mean], "table", axis=0)
        yield recipe.done()


def _whole(spec: MfccSpec) -> _Recipe:
    """`whole`: DFT, window and scale, pre-emphasis (transposed), mean removal."""
    size = spec.frame
    recipe = _Recipe("whole")
    angle = 2 * np.pi / spec.fft * np.arange(spec.fft)
    phase = _phase(recipe, np.arange(size), spec.fft, spec)
    real = recipe.add("Gather", [recipe.constant("cos", np.cos(angle)), phase], "real")
    imaginary = recipe.add("Gather", [recipe.constant("sin", -np.sin(angle)), phase], "imaginary")
    waves = recipe.add("Concat", [real, imaginary], "waves", axis=1)
    taper = spec.scale * window(spec)[:, None]  # (frame, 1)
    # With pre-emphasis the first sample stands before itself as well
    own = np.concatenate([taper[:1] * (1 - spec.pre_emphasis), taper[1:]])
    last = recipe.add("Mul", [waves, recipe.constant("taper", own)], "tapered")
    if spec.pre_emphasis:  # a sample counts where it stands and, negatively, in the next one
        after = recipe.constant("next", np.minimum(np.arange(size) + 1, size - 1))
        share = recipe.constant("share", np.concatenate([spec.pre_emphasis * taper[1:], [[0]]]))
        following = recipe.add("Gather", [waves, after], "following", axis=0)
        last = recipe.add("Sub", [last, recipe.add("Mul", [following, share], "taken")], "emphasised")
    if spec.remove_dc:
        mean = recipe.add("ReduceMean", [last, recipe.constant("rows", np.array([0]))], "mean", keepdims=1)
        recipe.add("Sub", [last, mean], "level")
    return recipe.done()


def _phase(recipe: _Recipe, samples: NDArray[np.int64], turn: int, spec: MfccSpec) -> str:
    """Samples times bins modulo a turn, so that the angles stay small and exact."""
    bins = recipe.constant("bin", spectrum_bins(spec)[None].astype(np.int64))  # (1, bins)
    steps = recipe.add("Mul", [recipe.constant("sample", samples[:, None]), bins], "steps")
    return recipe.add("Mod", [steps, recipe.constant("turn", np.array(turn))], "phase")
