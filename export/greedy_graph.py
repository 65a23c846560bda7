"""Greedy decoding as a loop inside a graph: asr.search.greedy, step for step and draft for draft."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from asr.search.backend import AT_ONCE
from asr.search.greedy import WARY
from asr.search.hypothesis import BLANK, BOS, EOS
from export import ctc_graph
from export.nodes import FIRST, LAST, REST, SECOND, Nodes, State, Turn
from export.standard import split_by
from export.write_graph import TEXT, Draft, no_text, write

if TYPE_CHECKING:
    from onnx import GraphProto

    from asr.bundle import Bundle
    from asr.search import SearchOptions


@dataclass(frozen=True)
class Sound:
    """Names of what the encoder says of one utterance, and of what bounds its text."""

    memory_k: str  # (L, 1, H, T, K)
    memory_v: str
    ctc: str  # (T, V)
    positions: str  # (1,) T
    seconds: str  # scalar, float64
    audible: str  # scalar: whether it is decoded at all


@dataclass(frozen=True)
class Text:
    """Names of what was found."""

    tokens: str  # (U,) without the end
    log_probs: str  # (U + 1,) float32, the end's too; (0,) where nothing was decoded
    score: str  # scalar, float64


def greedy_graph(outer: Nodes, decoder: GraphProto, bundle: Bundle, sound: Sound, options: SearchOptions) -> Text:
    """Add the loop to the outer graph; what of the decoder is the same in every step is computed before it."""
    limit = _limit(outer, sound.seconds, options)
    prefix, empty = ctc_graph.start(outer, sound.ctc)
    best = outer("ArgMax", sound.ctc, axis=1, keepdims=0)  # (T,)
    before, inside = split_by(decoder, [f"decoder/{name}" for name in ("tokens", "past_k", "past_v")])
    outer.insert(decoder, before, memory_k=sound.memory_k, memory_v=sound.memory_v, lengths=sound.positions)
    (shape,) = (value.type.tensor_type.shape for value in decoder.input if value.name == "decoder/tokens")
    old = len(shape.dim) == 1  # of bundles of format 1, which reads one token at a time
    at_once = 1 if old else AT_ONCE

    g = Nodes("step", outer.constants)
    written = g("Size", "step/tokens")
    room = g("Min", g("Sub", "step/most", np.array(1)), g("Sub", limit, written))
    draft = _draft(g, best, written, room)
    read = g("Concat", "step/latest", draft, axis=0)
    g.insert(
        decoder, inside, tokens=read if old else g("Unsqueeze", read, FIRST), past_k="step/past_k", past_v="step/past_v"
    )
    # Blank belongs to CTC and BOS to the start: neither is ever written
    never = np.isin(np.arange(bundle.tokenizer.vocab_size), [BLANK, BOS])
    log_probs = "decoder/log_probs" if old else g("Squeeze", "decoder/log_probs", FIRST)
    possible = g("Where", never, np.float32(-np.inf), log_probs)
    so_far = [f"step/{name}" for name, _, _ in TEXT]
    text, new, new_log_probs = write(
        g, Draft(draft, possible, written, limit, so_far), prefix, options, bundle.tokenizer.vocab_size
    )
    tokens = g("Concat", "step/tokens", new, axis=0)
    count, kept = g("Size", new), g("Shape", tokens)
    latest = g("Slice", tokens, LAST, REST)
    goes_on = g("Not", g("Equal", g("Squeeze", latest), np.array(EOS)))
    # Where CTC was wrong it may well be so again
    most = g("Min", np.array(at_once), g("Max", np.array(WARY), g("Mul", count, np.array(2))))

    config = bundle.model
    width = config.d_model // config.heads
    # There is one utterance; that the batch may be any was known of the decoder alone, and ONNX Runtime fuses by it
    cache: list[int | str | None] = [config.decoder_layers, "batch", config.heads, None, width]
    no_cache = np.zeros((config.decoder_layers, 1, config.heads, 0, width), np.float32)
    axis = np.array([3])
    states = [
        State("latest", TensorProto.INT64, [1], np.array([BOS]), latest),
        State("past_k", TensorProto.FLOAT, cache, no_cache, g("Slice", "decoder/new_k", FIRST, kept, axis)),
        State("past_v", TensorProto.FLOAT, cache, no_cache, g("Slice", "decoder/new_v", FIRST, kept, axis)),
        State("tokens", TensorProto.INT64, [None], np.zeros(0, np.int64), tokens),
        State("log_probs", TensorProto.FLOAT, [None], np.zeros(0, np.float32),
              g("Concat", "step/log_probs", new_log_probs, axis=0)),
        State("most", TensorProto.INT64, [], np.array(at_once), most),
        *(State(*each, first, after) for each, first, after in zip(TEXT, no_text(empty, options), text, strict=True)),
    ]  # fmt: skip
    found = outer.loop(g, outer("Add", limit, np.array(1)), sound.audible, states, Turn(goes_on))
    all_tokens, all_log_probs, score = found[3], found[4], found[-1]
    length = outer("Max", outer("Cast", outer("Size", all_tokens), to=TensorProto.DOUBLE), np.float64(1))
    return Text(outer("Slice", all_tokens, FIRST, LAST), all_log_probs, outer("Div", score, length))


def _draft(g: Nodes, best: str, written: str, room: str) -> str:
    """What CTC's best path says behind the position at which the text so far most likely ends. (S - 1,)"""
    begun = g("Greater", written, np.array(0))
    ends = g("ArgMax", "step/non_blank", axis=0, keepdims=1)  # (1,)
    start = g("Where", begun, g("Add", ends, SECOND), FIRST)
    path = g("Slice", best, start, REST)
    last = g("Where", begun, "step/latest", np.array([BLANK]))
    before = g("Slice", g("Concat", last, path, axis=0), FIRST, LAST)
    said = g("And", g("Not", g("Equal", path, before)), g("Not", g("Equal", path, np.array(BLANK))))
    return g("Slice", g("Compress", path, said, axis=0), FIRST, g("Unsqueeze", room, FIRST))


def _limit(g: Nodes, seconds: str, options: SearchOptions) -> str:
    """As SearchOptions.max_tokens."""
    most = g("Ceil", g("Mul", seconds, np.float64(options.tokens_per_second)))
    return g("Max", g("Cast", most, to=TensorProto.INT64), np.array(options.min_tokens))
