"""What a graph gives, held to what the search relies on: shapes that fit together, and log-probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asr.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.search.backend import Cache, Floats, Ints


def check_memory(name: str, rows: int, encoded: Sequence[Any]) -> None:
    """Raise BundleError where an encoder gives what no encoder does for so many rows.

    name: what errors call the bundle. encoded: keys, values and CTC log-probabilities, and of each row how many
    positions count, unless all do.
    """
    k, v, ctc = encoded[:3]
    lengths = encoded[3] if len(encoded) > 3 else np.full(rows, ctc.shape[1])
    if {k.shape[1:4:2], v.shape[1:4:2], ctc.shape[:2]} != {(rows, ctc.shape[1])} or lengths.shape != (rows,):
        raise BundleError(f"{name}: encoder.onnx gives shapes that don't fit together; export it again")
    if lengths.min(initial=1) < 1 or lengths.max(initial=1) > ctc.shape[1] or not _are_log_probabilities(ctc):
        raise BundleError(f"{name}: encoder.onnx gives no log-probabilities; export it again")


def check_step(name: str, tokens: Ints, log_probs: Floats, cache: Cache, before: Cache) -> None:
    """Raise BundleError where a decoder gives anything but log-probabilities, and a cache as much longer."""
    rows, more = len(tokens), tokens.shape[1] if tokens.ndim == 2 else 1
    wanted = (rows, before.past_k.shape[3] + more)
    if {cache.past_k.shape[1:4:2], cache.past_v.shape[1:4:2]} != {wanted} or log_probs.shape[:-1] != tokens.shape:
        raise BundleError(f"{name}: decoder.onnx gives shapes that don't fit together; export it again")
    if not _are_log_probabilities(log_probs):
        raise BundleError(f"{name}: decoder.onnx gives no log-probabilities; export it again")


def _are_log_probabilities(values: Floats) -> bool:
    """Whether none is above 0, rounding apart, or not a number; so that one that is unlikely beyond measure is fine."""
    return bool(values.max(initial=-np.inf) < 1e-3)
