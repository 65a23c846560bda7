"""A checkpoint becomes a bundle, checked against the torch model before anything is written."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from asr.bundle import Bundle, write_bundle
from asr.errors import CepstraError, ConfigError
from asr.model.backend import TorchBackend
from asr.runtime import OnnxBackend
from asr.training.checkpoint import Trained, read_checkpoint
from asr.training.weights import write_weights
from export.babble import babble
from export.graphs import decoder_graph, encoder_graph
from export.halve import halve
from export.loss import MAX_WER_LOSS, Loss, LossError, as_fact, measure_loss
from export.quantise import quantise
from export.spectrum import compute_spectrum
from export.standard import OPSET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from asr.manifest.records import Utterance
    from asr.search.backend import Floats

Precision: TypeAlias = Literal["float32", "float16", "int8"]

BOUND = 1e-3  # largest difference between a log-probability of torch and of ONNX Runtime
# Batch sizes and seconds; training sees at most half a minute, and the exporter's own example was 3 times 1.5 s
CASES = ((1, 0.0), (1, 0.02), (1, 0.5), (2, 1.0), (3, 2.15), (7, 4.0), (1, 45.0), (16, 0.7))
STEPS = 6


@dataclass(frozen=True)
class Parity:
    """How far ONNX Runtime is from torch."""

    utterances: int
    encoder: float  # largest difference of a CTC log-probability
    decoder: float  # largest difference of a decoder log-probability

    @property
    def worst(self) -> float:
        """The larger of the two; not-a-number where either is."""
        return float(np.maximum(self.encoder, self.decoder))


@dataclass(frozen=True)
class Exported:
    """What the comparisons gave."""

    parity: Parity  # of the float32 graphs with torch
    precision: Precision = "float32"
    rounded: Parity | None = None  # of those written, where their weights were rounded
    losses: tuple[Loss, ...] = ()  # of word error rate, where their weights were rounded and manifests given


def export(
    checkpoint: Path,
    output: Path,
    *,
    name: str | None = None,
    precision: Precision = "float32",
    development: Sequence[Utterance] = (),
    max_wer_loss: float = MAX_WER_LOSS,
    facts: dict[str, Any] | None = None,
    stage: Callable[[str], None] = lambda _: None,
    write: Callable[[Path, Bundle], None] = write_bundle,
) -> Exported:
    """Write the bundle of a checkpoint, or of weights (.safetensors); stage is told what begins.

    precision: of the weights. development: recordings over which those rounded are compared with float32, as
    export.loss.read_development reads them.
    max_wer_loss: points of word error rate that rounding may cost there, greedily or with a beam of 4. write: as what;
    export.one_graph.write_one_graph makes one ONNX file of it.
    Raises CepstraError where the graphs don't say what the model says (judged in float32: what rounding changes is
    measured too, but is a matter of error rates), and where rounding costs more than it may.
    """
    if not 0 <= max_wer_loss < math.inf:
        raise ConfigError(f"max_wer_loss={max_wer_loss!r} must be a number of points, 0 or more")
    if development and precision == "float32":
        raise ConfigError("development: in float32 nothing is rounded, so that there is nothing to compare")
    trained = read_checkpoint(checkpoint)
    bundle = to_bundle(trained, name or output.stem, facts or {}, stage)
    stage("comparing with torch")
    parity = compare(trained, bundle)
    if not parity.worst <= BOUND:
        raise CepstraError(
            f"{checkpoint}: ONNX Runtime differs from torch by {parity.worst:.2g}, more than {BOUND}; not written"
        )
    if precision == "float32":
        write(output, bundle)
        return Exported(parity)
    stage("rounding the weights")
    rounded = round_weights(bundle, precision)
    difference = compare(trained, rounded)
    losses = measure_loss(bundle, rounded, development, stage) if development else []
    for loss in losses:
        if loss.points > max_wer_loss:
            raise LossError(_refusal(checkpoint, loss, precision, max_wer_loss))
    if losses or precision == "int8":  # that of float16 is known to be next to nothing
        rounded = replace(rounded, facts={**rounded.facts, "wer_loss": as_fact(losses)})
    write(output, rounded)
    return Exported(parity, precision, difference, tuple(losses))


def round_weights(bundle: Bundle, precision: Precision) -> Bundle:
    """A float32 bundle with its weights in float16, or in int8 with what is no matrix product in float16.

    Raises CepstraError for a weight too large for float16.
    """
    encoder, decoder = bundle.encoder, bundle.decoder
    if precision == "int8":
        encoder = quantise(compute_spectrum(encoder, bundle.front_end), "matrix")
        decoder = quantise(decoder, "row")
    return replace(bundle, encoder=halve(encoder), decoder=halve(decoder), precision=precision)


def _refusal(checkpoint: Path, loss: Loss, precision: Precision, most: float) -> str:
    other = "float16 (--half)" if precision == "int8" else "float32"
    return (
        f"{checkpoint}: {precision} costs {loss.points:.2f} points of word error rate, more than {most:g} "
        f"({loss.told(precision)}, {loss.utterances} utterances); not written: export it in {other}, "
        "or allow more with --max-wer-loss"
    )


def export_weights(checkpoint: Path, output: Path) -> None:
    """Write the weights of a checkpoint in half precision (.safetensors), to go on from. Raises ConfigError."""
    trained = read_checkpoint(checkpoint)
    write_weights(output, trained.model.state_dict(), trained.facts, trained.steps)


def to_bundle(
    trained: Trained, name: str, facts: dict[str, Any], stage: Callable[[str], None] = lambda _: None
) -> Bundle:
    """The float32 bundle of a trained model."""
    stage("exporting the encoder")
    encoder = encoder_graph(trained.model)
    stage("exporting the decoder")
    return Bundle(
        encoder,
        decoder_graph(trained.model),
        trained.tokenizer,
        trained.model.spec,
        trained.model.config,
        trained.language,
        name,
        facts={name: trained.facts[name] for name in ("training", "earlier") if name in trained.facts}
        | {"opset": OPSET, **facts},
    )


def compare(trained: Trained, bundle: Bundle) -> Parity:
    """Both back ends over batch sizes and lengths beyond those of training; the same tokens are fed to both."""
    rng = np.random.default_rng(0)
    torch_model, onnx_model = TorchBackend(trained.model), OnnxBackend(bundle, threads=2)
    encoder = decoder = 0.0
    utterances = 0
    for size, seconds in CASES:
        longest = int(seconds * trained.model.spec.sample_rate)
        # Of different lengths, so that masks matter; coloured noise with pauses is the nearest thing to speech at hand
        clips = [babble(rng, longest - longest * i // (2 * size)) for i in range(size)]
        ours, theirs = torch_model.encode(clips), onnx_model.encode(clips)
        if not np.array_equal(ours.lengths, theirs.lengths):
            return Parity(utterances, math.inf, math.inf)
        for i, length in enumerate(ours.lengths):
            encoder = _worse(encoder, ours.ctc[i, :length], theirs.ctc[i, :length])
        our_cache, their_cache = ours.cache, theirs.cache
        tokens = np.full((size, 1), trained.tokenizer.bos_id, np.int64)
        for at_once in range(STEPS):  # one token, two, three, one …
            our_scores, our_cache = torch_model.step(tokens, our_cache)
            their_scores, their_cache = onnx_model.step(tokens, their_cache)
            decoder = _worse(decoder, our_scores, their_scores)
            tokens = np.repeat(our_scores.argmax(axis=2)[:, -1:], 1 + at_once % 3, axis=1)
        utterances += size
    return Parity(utterances, encoder, decoder)


def _worse(worst: float, ours: Floats, theirs: Floats) -> float:
    """The largest difference so far; once not-a-number, always so."""
    return float(np.maximum(worst, np.abs(ours - theirs).max()))
