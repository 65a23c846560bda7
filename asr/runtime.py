"""A bundle's graphs in ONNX Runtime, as a back end of the search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

from asr.errors import BundleError
from asr.search.backend import Cache, Memory, pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.bundle import Bundle
    from asr.search.backend import Floats, Ints


class OnnxBackend:
    """Thread-safe: a session may run in several threads at once, and the cache belongs to the caller."""

    def __init__(self, bundle: Bundle, threads: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # A thread that spins between two operators takes a core from everyone else on a small board
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Clips differ in length: an arena would keep what the longest one needed
        options.enable_cpu_mem_arena = False
        try:
            self._encoder = ort.InferenceSession(bundle.encoder, options, providers=["CPUExecutionProvider"])
            self._decoder = ort.InferenceSession(bundle.decoder, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own exceptions share no base but this
            raise BundleError(f"bundle {bundle.name}: ONNX Runtime refuses it: {' '.join(str(error).split())}") from None
        model = bundle.model
        self._past = (model.decoder_layers, 0, model.heads, 0, model.d_model // model.heads)

    def encode(self, samples: Sequence[Floats]) -> Memory:
        """Clips (N,) -> encoder memory."""
        batch, lengths = pad(samples)
        k, v, ctc, positions = self._encoder.run(None, {"samples": batch, "lengths": lengths})
        past = np.zeros((self._past[0], len(batch), *self._past[2:]), np.float32)
        return Memory(Cache(past, past, k, v, positions), ctc, positions)

    def step(self, tokens: Ints, cache: Cache) -> tuple[Floats, Cache]:
        """Tokens (B,) -> log-probabilities (B, V) and the longer cache."""
        log_probs, past_k, past_v = self._decoder.run(
            None,
            {
                "tokens": tokens,
                "past_k": cache.past_k,
                "past_v": cache.past_v,
                "memory_k": cache.memory_k,
                "memory_v": cache.memory_v,
                "lengths": cache.lengths,
            },
        )
        return log_probs, Cache(past_k, past_v, cache.memory_k, cache.memory_v, cache.lengths)
