"""A bundle as one standard ONNX graph: samples in, tokens out; front end, encoder and greedy decoding inside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from asr.errors import BundleError, CepstraError
from asr.files import write_atomically
from asr.hearing import SILENCE
from asr.runtime import OnnxBackend
from asr.search import decode
from asr.search.hypothesis import CTC_WEIGHT, SearchOptions
from asr.tokenizer import SPECIALS, WORD_START
from export.babble import babble
from export.greedy_graph import Sound, greedy_graph
from export.nodes import Constants, Nodes
from export.standard import IR_VERSION, OPSET, standard_graph

if TYPE_CHECKING:
    from pathlib import Path

    from asr.bundle import Bundle

BOUND = 1e-2  # largest difference in score: another way to add up may tip a value over to the next step of 8 bits
SECONDS = (1 / 16000, 0.02, 0.5, 1.0, 2.15, 4.0, 12.0)  # of sound that is tried
FORMAT = 1  # of the metadata; raised when a reader must know
OPTIONS = SearchOptions(ctc_weight=CTC_WEIGHT)  # as a recogniser has them


def one_graph(bundle: Bundle) -> bytes:
    """The graph: samples (1, N) float32 at the model's rate, full scale ±1, of one utterance.

    Gives tokens (U,) int64; pieces (U,) strings, of which a word's first begins with a space; count, a scalar;
    log_probs (U + 1,) float32, the decoder's of each token and of the end; score, a scalar, what the search ranked by.
    Raises BundleError for a bundle whose graphs can't be put together.
    """
    encoder, decoder = standard_graph(bundle.encoder, "encoder"), standard_graph(bundle.decoder, "decoder")
    g = Nodes("outer", Constants())
    sound, flaw = _sound(g, encoder, bundle)
    text = greedy_graph(g, decoder, bundle, sound, OPTIONS)
    pieces = np.array(_fragments(bundle), object)
    score = g("Cast", g("Add", text.score, flaw), to=TensorProto.FLOAT)
    outputs = [
        helper.make_tensor_value_info(g.named(value, name), kind, shape)
        for name, value, kind, shape in (
            ("tokens", text.tokens, TensorProto.INT64, ["tokens"]),
            ("pieces", g("Gather", pieces, text.tokens), TensorProto.STRING, ["tokens"]),
            ("count", g("Size", text.tokens), TensorProto.INT64, []),
            ("log_probs", text.log_probs, TensorProto.FLOAT, ["tokens_and_end"]),
            ("score", score, TensorProto.FLOAT, []),
        )
    ]
    samples = helper.make_tensor_value_info("samples", TensorProto.FLOAT, [1, "length"])
    graph = helper.make_graph(
        g.list, "cepstra", [samples], outputs, [*encoder.initializer, *decoder.initializer, *g.constants.tensors],
        value_info=g.shapes,
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="Cepstra"
    )
    helper.set_model_props(model, metadata(bundle))
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise BundleError(f"bundle {bundle.name}: no valid graph comes of it ({error}); export it again") from None
    return bytes(model.SerializeToString(deterministic=True))


def write_one_graph(path: Path, bundle: Bundle) -> None:
    """Write the graph of a bundle, once it has been seen to find the same texts.

    Raises BundleError where the graphs can't be put together, CepstraError where the text would be another one, or the
    file can't be written.
    """
    graph = one_graph(bundle)
    check(bundle, graph)
    write_atomically(path, graph)


def check(bundle: Bundle, graph: bytes) -> None:
    """Raise CepstraError unless the graph finds in each of several sounds what the bundle's own search finds there."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    backend, rate = OnnxBackend(bundle, threads=1), bundle.front_end.sample_rate
    rng = np.random.default_rng(0)
    for seconds in SECONDS:
        clip = babble(rng, round(seconds * rate)) if seconds * rate > 1 else np.full(1, 0.1, np.float32)
        tokens, score = session.run(["tokens", "score"], {"samples": clip[None]})
        (expected,) = decode(backend, backend.encode([clip]), [len(clip) / rate], OPTIONS)
        if tuple(tokens) != expected.tokens or not abs(score - expected.score) <= BOUND:
            raise CepstraError(
                f"bundle {bundle.name}: in {len(clip) / rate:.2f} s of sound its one graph finds "
                f"{bundle.tokenizer.decode(tokens)!r} ({score:.4f}), the bundle "
                f"{bundle.tokenizer.decode(expected.tokens)!r} ({expected.score:.4f}); not written: "
                f"report this with the version of onnxruntime ({ort.__version__})"
            )


def metadata(bundle: Bundle) -> dict[str, str]:
    """What the graph's metadata_props say; all but the first five are JSON."""
    tokenizer = bundle.tokenizer
    structured = {
        "special_ids": {name: getattr(tokenizer, f"{name}_id") for name in ("blank", "bos", "eos", "unk")},
        "pieces": [tokenizer.token(i) for i in range(tokenizer.vocab_size)],
        "front_end": bundle.front_end.to_dict(),
        "model": bundle.model.to_dict(),
        "facts": bundle.facts,
    }
    return {
        "format": str(FORMAT),
        "name": bundle.name,
        "language": bundle.language,
        "precision": bundle.precision,
        "sample_rate": str(bundle.front_end.sample_rate),
        **{name: json.dumps(value, ensure_ascii=False) for name, value in structured.items()},
    }


def _sound(g: Nodes, encoder: onnx.GraphProto, bundle: Bundle) -> tuple[Sound, str]:
    """What the encoder says of the samples. Also a scalar that is 0, or not-a-number where a sample isn't finite."""
    length = g("Shape", "samples", start=1, end=2)  # (1,)
    # The encoder needs a sample to look at
    missing = g("Max", g("Sub", np.array([1]), length), np.array([0]))
    samples = g("Pad", "samples", g("Concat", np.array([0, 0, 0]), missing, axis=0))
    flaw = g("ReduceSum", g("Mul", samples, np.float32(0)), keepdims=0)
    loud = g("GreaterOrEqual", g("ReduceMax", g("Abs", samples), keepdims=0), np.float32(SILENCE))
    old = len(encoder.input) == 2  # of bundles of format 1, for padded batches
    g.insert(encoder, encoder.node, samples=samples, **({"lengths": length} if old else {}))
    positions = "encoder/positions" if old else g("Shape", "encoder/ctc", start=1, end=2)
    ctc = g("Slice", g("Squeeze", "encoder/ctc", np.array([0])), np.array([0]), positions)
    seconds = g("Div", g("Cast", g("Squeeze", length), to=TensorProto.DOUBLE), np.float64(bundle.front_end.sample_rate))
    audible = g("And", loud, g("Equal", flaw, np.float32(0)))
    sound = Sound("encoder/memory_k", "encoder/memory_v", ctc, positions, seconds, audible)
    return sound, g("Cast", flaw, to=TensorProto.DOUBLE)


def _fragments(bundle: Bundle) -> list[str]:
    """What each token adds to the text."""
    tokens = [bundle.tokenizer.token(i).replace(WORD_START, " ") for i in range(bundle.tokenizer.vocab_size)]
    return ["" if i < len(SPECIALS) else token for i, token in enumerate(tokens)]
