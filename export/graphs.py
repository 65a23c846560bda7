"""The two ONNX graphs of a model: samples to memory, and one decoder step with its cache."""

from __future__ import annotations

import io
import logging
import warnings
from typing import TYPE_CHECKING, Any

import onnx
import torch
from torch import Tensor, nn

from asr.errors import CepstraError
from export.standard import OPSET

if TYPE_CHECKING:
    from asr.model.transformer import Transformer


class EncoderGraph(nn.Module):
    """Samples (1, N) of one utterance -> memory_k, memory_v (L, 1, H, T, K), ctc (1, T, V)."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See Transformer.encode_alone."""
        return self.model.encode_alone(samples)


class DecoderGraph(nn.Module):
    """Some tokens at once; log-probabilities, so that every runtime adds up the same scores."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.decoder = model.decoder

    def forward(  # noqa: PLR0917  a graph's inputs have no keywords
        self, tokens: Tensor, past_k: Tensor, past_v: Tensor, memory_k: Tensor, memory_v: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See Decoder.step."""
        logits, past_k, past_v = self.decoder.step(tokens, (past_k, past_v), (memory_k, memory_v), lengths)
        return logits.log_softmax(dim=2), past_k, past_v


def encoder_graph(model: Transformer) -> bytes:
    """The encoder with the front end inside, for one utterance of any length.

    Its matrices are high enough for a processor without others beside it, and padding would cost as much as sound.
    """
    return export_graph(
        EncoderGraph(model), (torch.randn(1, 24000) * 0.1,), ["samples"], ["memory_k", "memory_v", "ctc"],
        {"samples": {1: torch.export.Dim("samples", min=1, max=2**31)}},
    )  # fmt: skip


def decoder_graph(model: Transformer) -> bytes:
    """The decoder, for any batch, number of new tokens and of those before (0 as well), and memory length."""
    config = model.config
    width = config.d_model // config.heads
    past = torch.randn(config.decoder_layers, 3, config.heads, 5, width)
    memory = torch.randn(config.decoder_layers, 3, config.heads, 11, width)
    batch, new = torch.export.Dim("batch", min=1, max=65536), torch.export.Dim("new", min=1, max=65536)
    tokens, positions = torch.export.Dim("tokens", min=0, max=65536), torch.export.Dim("positions", min=1, max=2**24)
    example = (
        torch.tensor([[1, 5, 6, 4], [5, 6, 7, 8], [6, 4, 4, 5]]),
        past,
        past.clone(),
        memory,
        memory.clone(),
        torch.tensor([11, 7, 3]),
    )
    return export_graph(
        DecoderGraph(model), example,
        ["tokens", "past_k", "past_v", "memory_k", "memory_v", "lengths"], ["log_probs", "new_k", "new_v"],
        {
            "tokens": {0: batch, 1: new}, "past_k": {1: batch, 3: tokens}, "past_v": {1: batch, 3: tokens},
            "memory_k": {1: batch, 3: positions}, "memory_v": {1: batch, 3: positions}, "lengths": {0: batch},
        },
    )  # fmt: skip


def export_graph(
    module: nn.Module, example: tuple[Tensor, ...], inputs: list[str], outputs: list[str], shapes: dict[str, Any]
) -> bytes:
    """A module as ONNX, of standard operators alone; shapes: the sizes of its inputs that are open."""
    module.eval()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # about the exporter's own use of torch
        program = torch.onnx.export(
            module, example, dynamo=True, opset_version=OPSET, input_names=inputs, output_names=outputs,
            dynamic_shapes=shapes, external_data=False, optimize=True, verbose=False,
        )  # fmt: skip
    if program is None:  # by its signature
        raise CepstraError("the exporter gave no graph; report this with the version of torch")
    graph = program.model_proto
    del graph.metadata_props[:]
    for node in graph.graph.node:
        node.ClearField("doc_string")
        del node.metadata_props[:]
    for value in (*graph.graph.value_info, *graph.graph.input, *graph.graph.output, *graph.graph.initializer):
        del value.metadata_props[:]
    onnx.checker.check_model(graph)
    buffer = io.BytesIO()
    onnx.save(graph, buffer)
    return buffer.getvalue()
