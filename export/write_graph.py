"""Tokens written one by one inside a graph, as asr.search.greedy chooses them, as long as a draft agrees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from asr.search.hypothesis import EOS, LONGEST_GROUP
from export import ctc_graph
from export.nodes import FIRST, LAST, REST, SECOND, Nodes, State, Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from asr.search import SearchOptions

_NOTHING = -1  # where there is no token
# What is known of the text so far, and handed from step to step: names, types and shapes
TEXT: tuple[tuple[str, int, list[int | str | None]], ...] = (
    ("history", TensorProto.INT64, [None]),  # the latest tokens, as many as a loop needs to be seen
    ("non_blank", TensorProto.DOUBLE, [None]),  # (T,) CTC's forward variables
    ("blank", TensorProto.DOUBLE, [None]),
    ("sum", TensorProto.DOUBLE, []),  # of the decoder's log-probabilities
    ("total", TensorProto.DOUBLE, []),  # what the search ranks by, before it is divided by the length
)


@dataclass(frozen=True)
class Draft:
    """Names of what a step goes by."""

    tokens: str  # (S - 1,)
    log_probs: str  # (S, V) float32, -inf for what can't come
    written: str  # scalar: tokens written before
    limit: str  # scalar: tokens that a text may have
    text: Sequence[str]  # see TEXT


def no_text(empty: ctc_graph.Forward, options: SearchOptions) -> list[str | np.generic | NDArray[np.int64]]:
    """What TEXT is before the first token."""
    nothing = np.full((options.repeat_limit + 1) * LONGEST_GROUP - 1, _NOTHING)
    return [nothing, empty.non_blank, empty.blank, np.float64(0), np.float64(0)]


def write(
    step: Nodes, draft: Draft, prefix: ctc_graph.PrefixGraph, options: SearchOptions, vocabulary: int
) -> tuple[list[str], str, str]:
    """Add a loop that writes tokens until one isn't the draft's, or ends the text.

    Gives names of TEXT as it is then, and of what was written: tokens (W,), and log-probabilities (W,).
    """
    g = Nodes("write", step.constants)
    history, non_blank, blank, so_far, _ = (f"write/{name}" for name, _, _ in TEXT)
    log_probs = g("Gather", draft.log_probs, "write/number")  # (V,)
    candidates = _candidates(g, log_probs, vocabulary, options)
    decoded = g("Gather", log_probs, candidates)  # (C,)
    sums = g("Add", so_far, g("Cast", decoded, to=TensorProto.DOUBLE))
    last = g("Slice", history, LAST, REST)
    ctc = ctc_graph.scores(g, prefix, ctc_graph.Forward(non_blank, blank), last, candidates)
    weight = np.float64(options.ctc_weight)
    total = g("Add", g("Mul", sums, 1 - weight), g("Mul", ctc.scores, weight))
    full = g("GreaterOrEqual", g("Add", draft.written, "write/number"), draft.limit)
    refused = g("Or", full, _repeats(g, history, candidates, options))
    allowed = g("Or", g("Equal", candidates, np.array([EOS])), g("Not", refused))
    chosen = g("ArgMax", g("Where", allowed, total, np.float64(-np.inf)), axis=0, keepdims=0)
    token = g("Gather", candidates, chosen)
    longer = ctc_graph.extend(g, prefix, ctc, chosen)
    forgotten = g("Slice", history, SECOND, REST)
    following = [
        g("Concat", forgotten, g("Unsqueeze", token, FIRST), axis=0),
        longer.non_blank, longer.blank, g("Gather", sums, chosen), g("Gather", total, chosen),
    ]  # fmt: skip
    # Behind the draft stands what no token equals
    expected = g("Gather", g("Concat", draft.tokens, np.array([_NOTHING]), axis=0), "write/number")
    goes_on = g("And", g("Equal", token, expected), g("Not", g("Equal", token, np.array(EOS))))
    states = [State(*told, first, after) for told, first, after in zip(TEXT, draft.text, following, strict=True)]
    log_prob = g("Gather", decoded, chosen)
    *after, tokens, written = step.loop(
        g, step("Add", step("Size", draft.tokens), np.array(1)), np.True_, states,
        Turn(goes_on, [(token, TensorProto.INT64), (log_prob, TensorProto.FLOAT)]),
    )  # fmt: skip
    return after, tokens, written


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
