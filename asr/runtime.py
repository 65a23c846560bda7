"""A bundle's graphs in ONNX Runtime, as a back end of the search."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort

from asr.errors import BundleError
from asr.graph_outputs import check_memory, check_step
from asr.search.backend import AT_ONCE, Cache, Memory, pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.bundle import Bundle
    from asr.search.backend import Floats, Ints


class OnnxBackend:
    """Thread-safe: a session may run in several threads at once, and the cache belongs to the caller."""

    def __init__(self, bundle: Bundle, threads: int) -> None:
        self._name = f"bundle {bundle.name}"
        self._encoder = open_session(bundle.encoder, self._name, threads)
        # One thread: a step is too little work to be shared
        self._decoder = open_session(bundle.decoder, self._name, 1)
        layers, heads, width = (
            bundle.model.decoder_layers,
            bundle.model.heads,
            bundle.model.d_model // bundle.model.heads,
        )
        self._past = (layers, 0, heads, 0, width)
        # Bundles of format 1 have an encoder for padded batches, and a decoder that reads one token at a time
        self._old = len(self._encoder.get_inputs()) == 2
        self.at_once = 1 if self._old else AT_ONCE
        _check(bundle, self._encoder, self._decoder, old=self._old)
        _give_back()

    def encode(self, samples: Sequence[Floats]) -> Memory:
        """Clips (N,) -> encoder memory."""
        if self._old:
            batch, lengths = pad(samples)
            k, v, ctc, positions = run_session(self._encoder, self._name, {"samples": batch, "lengths": lengths})
            check_memory(self._name, len(samples), (k, v, ctc, positions))
        else:  # each alone: one fills a processor, and padding would cost as much as sound
            alone = [run_session(self._encoder, self._name, {"samples": pad([clip])[0]}) for clip in samples]
            for one in alone:
                check_memory(self._name, 1, one)
            k, v, ctc, positions = _side_by_side(alone)
        past = np.zeros((self._past[0], len(samples), *self._past[2:]), np.float32)
        return Memory(Cache(past, past, k, v, positions), ctc, positions)

    def step(self, tokens: Ints, cache: Cache) -> tuple[Floats, Cache]:
        """Tokens (B, S) -> log-probabilities (B, S, V) and the longer cache."""
        if not self._old:
            return self._step(tokens, cache)
        scores = []
        for column in tokens.T:
            log_probs, cache = self._step(column, cache)
            scores.append(log_probs)
        return np.stack(scores, axis=1), cache

    def _step(self, tokens: Ints, cache: Cache) -> tuple[Floats, Cache]:
        log_probs, past_k, past_v = run_session(
            self._decoder,
            self._name,
            {
                "tokens": tokens,
                "past_k": cache.past_k,
                "past_v": cache.past_v,
                "memory_k": cache.memory_k,
                "memory_v": cache.memory_v,
                "lengths": cache.lengths,
            },
        )
        longer = Cache(past_k, past_v, cache.memory_k, cache.memory_v, cache.lengths)
        check_step(self._name, tokens, log_probs, longer, cache)
        return log_probs, longer


def open_session(graph: bytes, name: str, threads: int) -> ort.InferenceSession:
    """A graph, ready to run on CPUs; name: what errors call it. Raises BundleError for one that can't be used."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # A thread that spins between two operators takes a core from everyone else on a small board
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Clips differ in length: an arena would keep what the longest one needed, and a plan of memory would be made for
    # each new length and never forgotten: 4 kB for every utterance
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    try:
        # Without the fallback, which prints to standard output what it then raises all the same
        session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"], enable_fallback=0)
        for value in (*session.get_inputs(), *session.get_outputs()):
            _ = value.name, value.shape  # names that are no Unicode fail only here
        if hasattr(session, "_model_bytes"):  # kept for another provider to begin with, of which there is none
            session._model_bytes = b""  # noqa: SLF001
    except Exception as error:  # noqa: BLE001  onnxruntime's own exceptions share no base but this
        reason = " ".join(str(error).split())
        raise BundleError(f"{name}: ONNX Runtime refuses it: {reason}; export it again") from None
    return session


def run_session(session: ort.InferenceSession, name: str, inputs: dict[str, Any]) -> list[Any]:
    """All outputs. Raises BundleError where it fails, MemoryError where that is why."""
    try:
        outputs: list[Any] = session.run(None, inputs)
    except Exception as error:  # noqa: BLE001  onnxruntime's own exceptions share no base but this
        if "bad_alloc" in str(error) or "allocate memory" in str(error):
            raise MemoryError(f"{name}: no memory for a batch of this size") from None
        reason = " ".join(str(error).split())
        raise BundleError(f"{name}: ONNX Runtime fails: {reason}; export it again") from None
    return outputs


def _give_back() -> None:
    """Return to the system what loading a graph needed beside it, which glibc would keep: 15 MB of 105."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:  # glibc
        trim(0)


def _side_by_side(encoded: Sequence[Sequence[Floats]]) -> tuple[Floats, Floats, Floats, Ints]:
    """Memories of one utterance each as those of a batch, with zeros behind the shorter ones, and their lengths."""
    lengths = np.array([ctc.shape[1] for _, _, ctc in encoded], np.int64)
    if len(encoded) == 1:
        ((k, v, ctc),) = encoded
        return k, v, ctc, lengths
    longest = int(lengths.max())
    k, v = (
        np.concatenate([np.pad(one[i], [(0, 0)] * 3 + [(0, longest - one[i].shape[3]), (0, 0)]) for one in encoded], 1)
        for i in (0, 1)
    )
    ctc = np.concatenate([np.pad(one[2], [(0, 0), (0, longest - one[2].shape[1]), (0, 0)]) for one in encoded])
    return k, v, ctc, lengths


def _check(bundle: Bundle, encoder: ort.InferenceSession, decoder: ort.InferenceSession, *, old: bool) -> None:
    """Graphs, settings and tokenizer that don't belong together would fail later, in the middle of a transcription."""
    model, vocabulary = bundle.model, bundle.tokenizer.vocab_size
    cache = (model.decoder_layers, None, model.heads, None, model.d_model // model.heads)
    rows: tuple[int | None, ...] = (None,)
    tokens = rows if old else (None, None)
    past, memory = dict.fromkeys(("past_k", "past_v"), cache), dict.fromkeys(("memory_k", "memory_v"), cache)
    for part, found, wanted in (
        ("encoder.onnx", encoder.get_inputs(), {"samples": (None, None), **({"lengths": rows} if old else {})}),
        (
            "encoder.onnx",
            encoder.get_outputs(),
            {**memory, "ctc": (None, None, vocabulary), **({"positions": rows} if old else {})},
        ),
        ("decoder.onnx", decoder.get_inputs(), {"tokens": tokens, **past, **memory, "lengths": rows}),
        ("decoder.onnx", decoder.get_outputs(), {"log_probs": (*tokens, vocabulary), "new_k": cache, "new_v": cache}),
    ):
        for value in found:
            kind = "tensor(int64)" if value.name in {"tokens", "lengths", "positions"} else "tensor(float)"
            if value.type != kind:
                raise BundleError(f"bundle {bundle.name}: {part} has {value.name} as {value.type}; export it again")
        # Sizes that a graph leaves open have names; None stands for them here
        shapes = {value.name: tuple(n if isinstance(n, int) else None for n in value.shape) for value in found}
        if list(shapes) != list(wanted):
            raise BundleError(f"bundle {bundle.name}: {part} has {list(shapes)}, not {list(wanted)}; export it again")
        for name, sizes in wanted.items():
            if len(shapes[name]) != len(sizes) or any(
                known != size and None not in {known, size} for known, size in zip(shapes[name], sizes, strict=True)
            ):
                raise BundleError(
                    f"bundle {bundle.name}: {part} gives {name} the shape {shapes[name]}, its settings {sizes}; "
                    "export it again"
                )
