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
    """Samples (B, N) and lengths (B,) -> memory_k, memory_v (L, B, H, T, K), ctc (B, T, V), positions (B,)."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """See Transformer.encode."""
        return self.model.encode(samples, lengths)


class DecoderGraph(nn.Module):
    """One step; log-probabilities, so that every runtime adds up the same scores."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.decoder = model.decoder

    def forward(  # noqa: PLR0917  a graph's inputs have no keywords
        self, tokens: Tensor, past_k: Tensor, past_v: Tensor, memory_k: Tensor, memory_v: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See Decoder.step."""
        logits, past_k, past_v = self.decoder.step(tokens, (past_k, past_v), (memory_k, memory_v), lengths)
        return logits.log_softmax(dim=1), past_k, past_v


def encoder_graph(model: Transformer) -> bytes:
    """The encoder with the front end inside, for any batch and length."""
    batch, length = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("samples", min=1, max=2**31)
    # Example sizes are far from 0 and 1, which the exporter would bake in
    example = (torch.randn(3, 24000) * 0.1, torch.tensor([24000, 16000, 9000]))
    return _export(
        EncoderGraph(model), example, ["samples", "lengths"], ["memory_k", "memory_v", "ctc", "positions"],
        {"samples": {0: batch, 1: length}, "lengths": {0: batch}},
    )  # fmt: skip


def decoder_graph(model: Transformer) -> bytes:
    """One step of the decoder, for any batch, number of tokens so far (0 as well) and memory length."""
    config = model.config
    width = config.d_model // config.heads
    past = torch.randn(config.decoder_layers, 3, config.heads, 5, width)
    memory = torch.randn(config.decoder_layers, 3, config.heads, 11, width)
    batch = torch.export.Dim("batch", min=1, max=65536)
    tokens, positions = torch.export.Dim("tokens", min=0, max=65536), torch.export.Dim("positions", min=1, max=2**24)
    example = (torch.tensor([1, 5, 6]), past, past.clone(), memory, memory.clone(), torch.tensor([11, 7, 3]))
    return _export(
        DecoderGraph(model), example,
        ["tokens", "past_k", "past_v", "memory_k", "memory_v", "lengths"], ["log_probs", "new_k", "new_v"],
        {
            "tokens": {0: batch}, "past_k": {1: batch, 3: tokens}, "past_v": {1: batch, 3: tokens},
            "memory_k": {1: batch, 3: positions}, "memory_v": {1: batch, 3: positions}, "lengths": {0: batch},
        },
    )  # fmt: skip


def _export(
    module: nn.Module, example: tuple[Tensor, ...], inputs: list[str], outputs: list[str], shapes: dict[str, Any]
) -> bytes:
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
