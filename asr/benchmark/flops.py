"""Floating-point operations that a model asks for, by the precision in which they are done.

Counted are matrix products, two operations for each multiplication with its addition; what is done value by value is
little beside them. It is the model that is counted, not a graph: of a layer that sees a window only what lies within,
and nothing for padding. What a graph does beyond that lowers its share of the peak.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from audio.mfcc import spectrum_bins
from audio.spectrum import tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from asr.benchmark.trace import Call
    from asr.bundle import Bundle
    from asr.model.config import ModelConfig
    from audio.mfcc import MfccSpec

Precision = Literal["float64", "float32", "int8"]
Work = Counter[Precision]  # operations

FRONT_END: Precision = "float64"  # see audio.mfcc_torch


def weights_precision(bundle: Bundle) -> Precision:
    """In which products by weights are done: float16 is a way of storing them."""
    return "int8" if bundle.precision == "int8" else "float32"


def front_end_work(spec: MfccSpec, samples: int) -> Work:
    """Of one clip: frames to spectra, to mel bands, to cepstra."""
    spectra = sum(table.size for table in tables(spec).values())
    frame = spectra + len(spectrum_bins(spec)) * spec.n_mels + spec.n_mels * spec.n_cepstra
    return Counter({FRONT_END: 2 * spec.frames(samples) * frame})


def encoder_work(config: ModelConfig, features: int, frames: int, vocabulary: int, weights: Precision) -> Work:
    """Of one clip of so many frames with so many features: encoder, CTC head and what the decoder wants of the memory.

    weights: in which precision products by weights are done; attention, and the convolution, are float32.
    """
    d = config.d_model
    positions = config.memory_length(frames)  # of the memory
    below = positions * config.frames_per_position // config.stride
    at = [below if i < config.halve_after else positions for i in range(config.encoder_layers)]  # of each layer
    splice = below * features * (config.stride + 2 * config.splice) * d
    layer = 4 * d * d + 2 * d * config.encoder_ff  # queries, keys, values, output; feed-forward
    halving = positions * 2 * d * d if config.halves else 0
    by_weights = sum(at) * layer + halving + positions * (config.decoder_layers * 2 * d * d + d * vocabulary)
    windows = (*config.windows, *[0] * config.encoder_layers)
    pairs = sum(_pairs(size, window) for size, window in zip(at, windows, strict=False))
    return Counter({weights: 2 * by_weights}) + Counter({"float32": 2 * (splice + pairs * 2 * d)})


def token_work(config: ModelConfig, past: int, positions: int, vocabulary: int, weights: Precision) -> Work:
    """Of a token that the decoder reads: `past` tokens before it, and a memory of so many positions.

    The product with the embedding, which gives the scores, is float32.
    """
    d = config.d_model
    layer = 6 * d * d + 2 * d * config.decoder_ff  # as in the encoder; cross-attention's queries and output
    seen = past + 1 + positions
    by_weights = config.decoder_layers * layer
    return Counter({weights: 2 * by_weights}) + Counter(
        {"float32": 2 * (config.decoder_layers * seen * 2 * d + d * vocabulary)}
    )


def _pairs(positions: int, window: int) -> int:
    """How many positions are seen by all positions together; window 0 is everything."""
    if not window or window >= positions:
        return positions * positions
    return positions * (2 * window + 1) - window * (window + 1)


def work_of(calls: Sequence[Call], bundle: Bundle) -> tuple[Work, Work]:
    """What the encoder (with front end) and the decoder were asked for in these calls."""
    spec, vocabulary, weights = bundle.front_end, bundle.tokenizer.vocab_size, weights_precision(bundle)
    encoder: Work = Counter()
    decoder: Work = Counter()
    for call in calls:
        for size in call.sizes:
            if call.kind == "encode":
                encoder += front_end_work(spec, size)
                encoder += encoder_work(bundle.model, spec.n_cepstra, spec.frames(size), vocabulary, weights)
            else:
                for token in range(call.tokens):
                    decoder += token_work(bundle.model, call.past + token, size, vocabulary, weights)
    return encoder, decoder


def seconds_at(work: Work, peaks: Mapping[Precision, float]) -> float:
    """How long it would take at these operations per second."""
    return sum(operations / peaks[precision] for precision, operations in work.items())
