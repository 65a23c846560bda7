"""Greedy decoding as a loop inside a graph: asr.search.beam with one hypothesis, step for step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper

from asr.search.hypothesis import BLANK, BOS, EOS, LONGEST_GROUP
from export import ctc_graph
from export.nodes import Nodes
from export.standard import split_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from onnx import GraphProto, ValueInfoProto

    from asr.bundle import Bundle
    from asr.search import SearchOptions

_NOTHING = -1  # where there is no token yet
_FIRST, _LAST, _REST = np.array([0]), np.array([-1]), np.array([np.iinfo(np.int64).max])  # for Slice, and axes


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


@dataclass(frozen=True)
class _State:
    """A value that the loop hands on."""

    name: str
    kind: int
    shape: Sequence[int | str | None]
    first: str | NDArray[Any] | np.generic
    following: str  # after a step

    @property
    def given(self) -> ValueInfoProto:
        return helper.make_tensor_value_info(f"step/{self.name}", self.kind, self.shape)


def greedy_graph(outer: Nodes, decoder: GraphProto, bundle: Bundle, sound: Sound, options: SearchOptions) -> Text:
    """Add the loop to the outer graph; what of the decoder is the same in every step is computed before it."""
    limit = _limit(outer, sound.seconds, options)
    prefix, empty = ctc_graph.start(outer, sound.ctc)
    before, inside = split_by(decoder, [f"decoder/{name}" for name in ("tokens", "past_k", "past_v")])
    outer.insert(decoder, before, memory_k=sound.memory_k, memory_v=sound.memory_v, lengths=sound.positions)

    body = Nodes("step", outer.constants)
    body.insert(decoder, inside, tokens="step/token", past_k="step/past_k", past_v="step/past_v")
    # Blank belongs to CTC and BOS to the start: neither is ever written
    never = np.isin(np.arange(bundle.tokenizer.vocab_size), [BLANK, BOS])
    log_probs = body("Where", never, np.float32(-np.inf), body("Squeeze", "decoder/log_probs", _FIRST))
    candidates = _candidates(body, log_probs, bundle.tokenizer.vocab_size, options)
    decoded = body("Gather", log_probs, candidates)  # (C,)
    sums = body("Add", "step/sum", body("Cast", decoded, to=TensorProto.DOUBLE))
    last = body("Slice", "step/history", _LAST, _REST)
    forward = ctc_graph.Forward("step/non_blank", "step/blank")
    ctc = ctc_graph.scores(body, prefix, forward, last, candidates)
    weight = np.float64(options.ctc_weight)
    total = body("Add", body("Mul", sums, 1 - weight), body("Mul", ctc.scores, weight))
    full = body("GreaterOrEqual", "step/number", limit)
    refused = body("Or", full, _repeats(body, "step/history", candidates, options))
    allowed = body("Or", body("Equal", candidates, np.array([EOS])), body("Not", refused))
    chosen = body("ArgMax", body("Where", allowed, total, np.float64(-np.inf)), axis=0, keepdims=0)
    token = body("Gather", candidates, chosen)
    longer = ctc_graph.extend(body, prefix, ctc, chosen)
    latest = body("Unsqueeze", token, _FIRST)
    history = body("Concat", body("Slice", "step/history", np.array([1]), _REST), latest, axis=0)

    config = bundle.model
    width = config.d_model // config.heads
    # There is one utterance; that the batch may be any was known of the decoder alone, and ONNX Runtime fuses by it
    cache: list[int | str | None] = [config.decoder_layers, "batch", config.heads, None, width]
    no_cache = np.zeros((config.decoder_layers, 1, config.heads, 0, width), np.float32)
    nothing = np.full((options.repeat_limit + 1) * LONGEST_GROUP - 1, _NOTHING)
    zero = np.float64(0)
    states = [
        _State("token", TensorProto.INT64, ["batch"], np.array([BOS]), latest),
        _State("past_k", TensorProto.FLOAT, cache, no_cache, "decoder/new_k"),
        _State("past_v", TensorProto.FLOAT, cache, no_cache, "decoder/new_v"),
        _State("history", TensorProto.INT64, nothing.shape, nothing, history),
        _State("non_blank", TensorProto.DOUBLE, [None], empty.non_blank, longer.non_blank),
        _State("blank", TensorProto.DOUBLE, [None], empty.blank, longer.blank),
        _State("sum", TensorProto.DOUBLE, [], zero, body("Gather", sums, chosen)),
        _State("total", TensorProto.DOUBLE, [], zero, body("Gather", total, chosen)),
    ]
    going = body("Not", body("Equal", token, np.array(EOS)))
    results = [
        helper.make_tensor_value_info(body.named(value, f"step/{name}"), kind, shape)
        for value, name, kind, shape in (
            (going, "goes_on", TensorProto.BOOL, ()),
            *((state.following, f"next_{state.name}", state.kind, state.shape) for state in states),
            (token, "written", TensorProto.INT64, ()),
            (body("Gather", decoded, chosen), "log_prob", TensorProto.FLOAT, ()),
        )
    ]
    given = [
        helper.make_tensor_value_info("step/number", TensorProto.INT64, []),
        helper.make_tensor_value_info("step/going", TensorProto.BOOL, []),
        *(state.given for state in states),
    ]
    *_, score, tokens, written = outer.several(
        "Loop", len(states) + 2, outer("Add", limit, np.array(1)), sound.audible, *(state.first for state in states),
        body=helper.make_graph(body.list, "step", given, results, value_info=body.shapes),
    )  # fmt: skip
    count = outer("Max", outer("Cast", outer("Size", tokens), to=TensorProto.DOUBLE), np.float64(1))
    return Text(outer("Slice", tokens, _FIRST, _LAST), written, outer("Div", score, count))


def _limit(g: Nodes, seconds: str, options: SearchOptions) -> str:
    """As SearchOptions.max_tokens."""
    most = g("Ceil", g("Mul", seconds, np.float64(options.tokens_per_second)))
    return g("Max", g("Cast", most, to=TensorProto.INT64), np.array(options.min_tokens))


def _candidates(g: Nodes, log_probs: str, vocabulary: int, options: SearchOptions) -> str:
    """The likeliest tokens and the end, ascending: the first of those that tie is taken. (C,)"""
    count = min(vocabulary, 2 * options.beam + LONGEST_GROUP)
    _, likeliest = g.several("TopK", 2, log_probs, np.array([count]), axis=0)
    both = g("Concat", likeliest, np.array([EOS]), axis=0)
    return g.several("TopK", 2, both, np.array([count + 1]), axis=0, largest=0)[0]


def _repeats(g: Nodes, history: str, candidates: str, options: SearchOptions) -> str:
    """Whether each candidate would complete a group that then stands too often in a row. (C,)

    It does so where all of history's last tokens equal those one group before them, and the candidate the token that
    stands one group before it.
    """
    size = (options.repeat_limit + 1) * LONGEST_GROUP - 1
    left = np.zeros((LONGEST_GROUP, options.repeat_limit * LONGEST_GROUP - 1), np.int64)
    right = left.copy()  # the same place on both sides: no condition
    for row, group in enumerate(range(1, LONGEST_GROUP + 1)):
        count = options.repeat_limit * group - 1
        left[row, :count] = size - count + np.arange(count)
        right[row, :count] = left[row, :count] - group
    equal = g("Equal", g("Gather", history, left), g("Gather", history, right))
    periodic = g("ReduceMin", g("Cast", equal, to=TensorProto.INT32), np.array([1]), keepdims=0)
    before = g("Gather", history, size - np.arange(1, LONGEST_GROUP + 1))
    forbidden = g("Where", g("Cast", periodic, to=TensorProto.BOOL), before, np.array(_NOTHING))  # (4,)
    hit = g("Equal", g("Unsqueeze", candidates, np.array([1])), forbidden)  # (C, 4)
    return g(
        "Cast", g("ReduceMax", g("Cast", hit, to=TensorProto.INT32), np.array([1]), keepdims=0), to=TensorProto.BOOL
    )
