"""CTC's prefix scores as nodes of a graph: what asr.search.ctc computes, in the same float64, for one hypothesis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from asr.search.ctc import NEVER, UNLIKELY
from asr.search.hypothesis import BLANK, EOS
from export.nodes import FIRST, LAST, SECOND

if TYPE_CHECKING:
    from export.nodes import Nodes

_BLOCK = 16  # positions: sums within blocks, and then over blocks, cost T (16 + T / 256) exponentials and no loop


@dataclass(frozen=True)
class PrefixGraph:
    """Names of values of one utterance, that every step uses."""

    log_probs: str  # (V, T) float64: sums run along what is stored side by side
    size: str  # (1,) T
    blank: str  # (T,) log-probability of blank
    blank_total: str  # (T,) its sum up to and with each position
    padding: str  # (2,) what makes T a multiple of a block
    blocks_before: str  # (blocks, blocks) 0 for those that come before, else NEVER


@dataclass(frozen=True)
class Forward:
    """Names of a prefix' forward variables, see asr.search.ctc.PrefixState."""

    non_blank: str  # (T,)
    blank: str  # (T,)


@dataclass(frozen=True)
class Candidates:
    """Names of what a step finds out of C tokens that could follow."""

    scores: str  # (C,)
    entry: str  # (C, T)
    log_probs: str  # (C, T)


def start(g: Nodes, ctc: str) -> tuple[PrefixGraph, Forward]:
    """ctc: (T, V) float32. Also the empty prefix."""
    log_probs = g("Max", g("Cast", g("Transpose", ctc, perm=[1, 0]), to=TensorProto.DOUBLE), UNLIKELY)
    size = g("Shape", log_probs, start=1, end=2)
    blank = g("Gather", log_probs, np.array(BLANK), axis=0)
    total = g("CumSum", blank, np.array(0))
    blocks = g("Div", g("Add", size, np.array([_BLOCK - 1])), np.array([_BLOCK]))
    missing = g("Sub", g("Mul", blocks, np.array([_BLOCK])), size)
    numbers = g("Range", np.array(0), g("Squeeze", blocks), np.array(1))
    earlier = g("Less", g("Unsqueeze", numbers, FIRST), g("Unsqueeze", numbers, SECOND))
    graph = PrefixGraph(
        log_probs, size, blank, total,
        padding=g("Concat", np.array([0]), missing, axis=0),
        blocks_before=g("Where", earlier, np.float64(0), NEVER),
    )  # fmt: skip
    return graph, Forward(g("Expand", NEVER, size), total)


def scores(g: Nodes, prefix: PrefixGraph, forward: Forward, last: str, candidates: str) -> Candidates:
    """Scores of the prefixes one token longer. last: the prefix' last token (1,), or -1; candidates: (C,)."""
    log_probs = g("Gather", prefix.log_probs, candidates, axis=0)  # (C, T)
    either = _either(g, forward.non_blank, forward.blank)  # (T,)
    column = g("Unsqueeze", candidates, SECOND)
    # Before a repeated token there must be a blank
    before = g("Where", g("Equal", column, last), forward.blank, either)  # (C, T)
    # The candidate's first position is one after the prefix, or the very first
    first = g("Where", g("GreaterOrEqual", last, FIRST), NEVER, np.float64(0))  # (1,)
    entry = g("Concat", g("Expand", first, g("Shape", column)), g("Slice", before, FIRST, LAST, SECOND), axis=1)
    found = _sum(g, g("Add", entry, log_probs), 1)
    whole = g("Gather", either, np.array(-1), axis=0)
    return Candidates(g("Where", g("Equal", candidates, np.array([EOS])), whole, found), entry, log_probs)


def extend(g: Nodes, prefix: PrefixGraph, candidates: Candidates, chosen: str) -> Forward:
    """The prefix with one of the candidates. chosen: its place among them, a scalar."""
    entry = g("Gather", candidates.entry, chosen, axis=0)
    log_probs = g("Gather", candidates.log_probs, chosen, axis=0)
    non_blank = _recur(g, prefix, entry, log_probs, g("CumSum", log_probs, np.array(0)))
    shifted = g("Concat", np.array([NEVER]), g("Slice", non_blank, FIRST, LAST), axis=0)
    return Forward(non_blank, _recur(g, prefix, shifted, prefix.blank, prefix.blank_total))


def _recur(g: Nodes, prefix: PrefixGraph, entry: str, stay: str, total: str) -> str:
    """See asr.search.ctc: a sum relative to all of stay. All (T,)."""
    return g("Add", _running_sum(g, prefix, g("Sub", entry, g("Sub", total, stay))), total)


def _running_sum(g: Nodes, prefix: PrefixGraph, values: str) -> str:
    """The logarithm of the sum of exponentials up to and with each position. (T,)"""
    rows = g("Reshape", g("Pad", values, prefix.padding, NEVER), np.array([-1, 1, _BLOCK]))
    later = np.where(np.tri(_BLOCK, dtype=bool), np.float64(0), NEVER)
    inside = _sum(g, g("Add", rows, later), 2)  # (blocks, block)
    whole = g("Gather", inside, np.array(-1), axis=1)  # (blocks,)
    before = _sum(g, g("Add", whole, prefix.blocks_before), 1)  # (blocks,)
    summed = _either(g, inside, g("Unsqueeze", before, SECOND))
    return g("Slice", g("Reshape", summed, np.array([-1])), FIRST, prefix.size)


def _sum(g: Nodes, values: str, axis: int) -> str:
    """The logarithm of the sum of exponentials along an axis; written out: not every runtime takes off the most."""
    most = g("ReduceMax", values, np.array([axis]), keepdims=1)
    shares = g("ReduceSum", g("Exp", g("Sub", values, most)), np.array([axis]), keepdims=0)
    return g("Add", g("Log", shares), g("Squeeze", most, np.array([axis])))


def _either(g: Nodes, left: str, right: str) -> str:
    """As numpy's logaddexp."""
    least = g("Neg", g("Abs", g("Sub", left, right)))
    return g("Add", g("Max", left, right), g("Log", g("Add", g("Exp", least), np.float64(1))))
