"""Greedy decoding as a loop inside a graph: asr.search.beam with one hypothesis, step for step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper

from asr.search.ctc import NEVER
from asr.search.hypothesis import BLANK, BOS, EOS, LONGEST_GROUP
from export import ctc_graph
from export.nodes import Nodes
from export.standard import split_by

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto

    from asr.bundle import Bundle
    from asr.search import SearchOptions

_NOTHING = -1  # where there is no token yet


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
    prefix, non_blank, blank = ctc_graph.start(outer, sound.ctc)
    before, inside = split_by(decoder, [f"decoder/{name}" for name in ("tokens", "past_k", "past_v")])
    outer.insert(decoder, before, memory_k=sound.memory_k, memory_v=sound.memory_v, lengths=sound.positions)

    body = Nodes("step", outer.constants)
    body.insert(decoder, inside, tokens="step/token", past_k="step/past_k", past_v="step/past_v")
    # Blank belongs to CTC and BOS to the start: neither is ever written
    never = np.isin(np.arange(bundle.tokenizer.vocab_size), [BLANK, BOS])
    log_probs = body("Where", never, np.float32(-np.inf), body("Squeeze", "decoder/log_probs", np.array([0])))
    candidates = _candidates(body, log_probs, bundle.tokenizer.vocab_size, options)
    decoded = body("Gather", log_probs, candidates)  # (C,)
    sums = body("Add", "step/sum", body("Cast", decoded, to=TensorProto.DOUBLE))
    last = body("Slice", "step/history", np.array([-1]), np.array([np.iinfo(np.int64).max]))
    ctc = ctc_graph.scores(body, prefix, "step/non_blank", "step/blank", last, candidates)
    total = body(
        "Add",
        body("Mul", sums, np.float64(1 - options.ctc_weight)),
        body("Mul", ctc.scores, np.float64(options.ctc_weight)),
    )
    end = body("Equal", candidates, np.array([EOS]))
    full = body("GreaterOrEqual", "step/number", limit)
    looping = _repeats(body, "step/history", candidates, options)
    allowed = body("Or", end, body("Not", body("Or", full, looping)))
    chosen = body("ArgMax", body("Where", allowed, total, np.float64(-np.inf)), axis=0, keepdims=0)
    token = body("Gather", candidates, chosen)
    new_non_blank, new_blank = ctc_graph.extend(body, prefix, ctc, chosen)
    latest = body("Unsqueeze", token, np.array([0]))
    forgotten = body("Slice", "step/history", np.array([1]), np.array([np.iinfo(np.int64).max]))

    config = bundle.model
    # The batch has one utterance; that it is any number is what the decoder was told alone, and is fused by
    cache = [config.decoder_layers, "batch", config.heads, None, config.d_model // config.heads]
    empty = np.zeros((config.decoder_layers, 1, config.heads, 0, config.d_model // config.heads), np.float32)
    size = (options.repeat_limit + 1) * LONGEST_GROUP - 1
    # Name, type and shape; what it is at first, and after the step
    states = [
        ("token", TensorProto.INT64, ["batch"], np.array([BOS]), latest),
        ("past_k", TensorProto.FLOAT, cache, empty, "decoder/new_k"),
        ("past_v", TensorProto.FLOAT, cache, empty, "decoder/new_v"),
        ("history", TensorProto.INT64, [size], np.full(size, _NOTHING), body("Concat", forgotten, latest, axis=0)),
        ("sum", TensorProto.DOUBLE, [], np.float64(0), body("Gather", sums, chosen)),
        ("non_blank", TensorProto.DOUBLE, [None], non_blank, new_non_blank),
        ("blank", TensorProto.DOUBLE, [None], blank, new_blank),
        ("total", TensorProto.DOUBLE, [], np.float64(0), body("Gather", total, chosen)),
    ]
    going = body("Not", body("Equal", token, np.array(EOS)))
    results = [
        helper.make_tensor_value_info(body.named(value, f"step/{name}"), kind, shape)
        for value, name, kind, shape in (
            (going, "goes_on", TensorProto.BOOL, []),
            *((after, f"next_{name}", kind, shape) for name, kind, shape, _, after in states),
            (token, "written", TensorProto.INT64, []),
            (body("Gather", decoded, chosen), "log_prob", TensorProto.FLOAT, []),
        )
    ]
    given: list[ValueInfoProto] = [
        helper.make_tensor_value_info("step/number", TensorProto.INT64, []),
        helper.make_tensor_value_info("step/going", TensorProto.BOOL, []),
        *(helper.make_tensor_value_info(f"step/{name}", kind, shape) for name, kind, shape, _, _ in states),
    ]
    found = outer.several(
        "Loop", len(states) + 2, outer("Add", limit, np.array(1)), sound.audible, *(first for _, _, _, first, _ in states),
        body=helper.make_graph(body.list, "step", given, results, value_info=body.shapes),
    )  # fmt: skip
    tokens, written = found[-2:]
    count = outer("Cast", outer("Size", tokens), to=TensorProto.DOUBLE)
    score = outer("Div", found[len(states) - 1], outer("Max", count, np.float64(1)))
    return Text(outer("Slice", tokens, np.array([0]), np.array([-1])), written, score)


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
