"""One step of a streaming encoder as an ONNX graph, in a file of its own with all that its user needs to know."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import onnx
import torch

from asr.errors import CepstraError, ConfigError
from asr.files import write_atomically
from asr.model.backend import TorchBackend
from asr.model.streaming import StreamingEncoder
from asr.streaming import EncoderStream, describe, load_streaming
from asr.training.checkpoint import read_checkpoint
from export.babble import babble
from export.convert import BOUND
from export.graphs import export_graph

if TYPE_CHECKING:
    from pathlib import Path

    from asr.model.stream_shape import StreamShape
    from asr.streaming import StreamingModel
    from asr.training.checkpoint import Trained

# Seconds of a stream, and of each block that it is fed in
CASES = ((0.0, 0.1), (0.02, 0.02), (0.5, 0.003), (2.15, 0.07), (4.0, 1.0), (45.0, 4.0))


def export_streaming(checkpoint: Path, output: Path, *, name: str | None = None) -> tuple[StreamShape, float]:
    """Write the streaming encoder of a checkpoint, or of weights (.safetensors), as FILE.onnx.

    Returns its sizes, and how far ONNX Runtime's CTC log-probabilities, block by block, are from torch's for the
    whole sound at once. Raises ConfigError for a model that can't stream, CepstraError where the two are too far apart.
    """
    trained = read_checkpoint(checkpoint)
    try:
        graph = streaming_graph(trained, name or output.name.split(".")[0])
    except ConfigError as error:
        raise ConfigError(f"{checkpoint}: {error}") from None
    model = load_streaming(graph, str(output))
    difference = compare(trained, model)
    if not difference <= BOUND:
        raise CepstraError(
            f"{checkpoint}: ONNX Runtime differs from torch by {difference:.2g}, more than {BOUND}; not written"
        )
    write_atomically(output, graph)
    return model.shape, difference


def streaming_graph(trained: Trained, name: str) -> bytes:
    """One step, for any number of streams and blocks, with its description. Raises ConfigError."""
    module = StreamingEncoder(trained.model)
    shape = module.shape
    # Example sizes are far from 0 and 1, which the exporter would bake in
    example = (
        torch.randn(3, 5, shape.block) * 0.1,
        torch.tensor([0, 7, 1000]),
        torch.tensor([-1, 12 * shape.block, -1]),
        torch.randn(3, shape.state),
    )
    streams, blocks = torch.export.Dim("streams", min=1, max=4096), torch.export.Dim("blocks", min=1, max=2**16)
    graph = export_graph(
        module, example, ["samples", "position", "total", "state"], ["memory_k", "memory_v", "ctc", "next_state"],
        {"samples": {0: streams, 1: blocks}, "position": {0: streams}, "total": {0: streams}, "state": {0: streams}},
    )  # fmt: skip
    model = onnx.load_from_string(graph)
    onnx.helper.set_model_props(model, describe(shape, trained.tokenizer, trained.language, name))
    return bytes(model.SerializeToString())


def compare(trained: Trained, model: StreamingModel) -> float:
    """The largest difference of a CTC log-probability between the stream and torch's encoder of the whole."""
    rng = np.random.default_rng(0)
    whole = TorchBackend(trained.model)
    worst = 0.0
    for seconds, block in CASES:
        clip = babble(rng, int(seconds * model.shape.spec.sample_rate))
        size = int(block * model.shape.spec.sample_rate)
        stream = EncoderStream(model)
        parts = [stream.feed(clip[start : start + size]).ctc for start in range(0, len(clip), size)]
        ours, theirs = whole.encode([clip]).ctc[0], np.concatenate([*parts, stream.finish().ctc])
        if len(ours) != len(theirs):
            return math.inf
        worst = float(np.maximum(worst, np.abs(ours - theirs).max()))
    return worst
