"""The encoder and the decoder against plain loops in numpy; who sees what; padding; the cache."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from asr.model.config import ModelConfig
from asr.model.encoder import attention_masks
from asr.model.transformer import Transformer
from audio.mfcc import MfccSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.model.layers import FeedForward

    Doubles = NDArray[np.float64]

CONFIG = ModelConfig(
    d_model=24, heads=3, encoder_layers=3, encoder_ff=40, decoder_layers=2, decoder_ff=32, windows=(2,)
)
SPEC = MfccSpec(n_cepstra=13)
VOCAB = 30
VARIANTS = {
    "default": CONFIG,
    "gelu": replace(CONFIG, activation="gelu"),
    "learned": replace(CONFIG, positions="learned", max_positions=64),
    "no splice": replace(CONFIG, stride=1, splice=0, windows=()),
    "halved": replace(CONFIG, halve_after=1, windows=(2, 3)),
    "halved never": replace(CONFIG, halve_after=3),
    "halved, stride 2": replace(CONFIG, halve_after=2, stride=2, splice=1, windows=(2, 3)),
}


def _model(config: ModelConfig = CONFIG) -> Transformer:
    """In evaluation mode, every weight and bias random."""
    torch.manual_seed(0)
    model = Transformer(config, SPEC, VOCAB).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def _batch(frames: list[int], seed: int = 1) -> tuple[Tensor, Tensor]:
    """Cepstra (B, F, 13), zero beyond the lengths."""
    features = torch.randn(len(frames), max(frames), 13, generator=torch.Generator().manual_seed(seed))
    lengths = torch.tensor(frames)
    return features * (torch.arange(max(frames)) < lengths[:, None])[:, :, None], lengths


def _tokens(*shape: int) -> Tensor:
    return torch.randint(VOCAB, shape, generator=torch.Generator().manual_seed(2))


# The model again, in numpy and one utterance at a time, from its weights and the papers' formulas.


def _values(weight: Tensor | None) -> Doubles:
    assert weight is not None
    values: Doubles = weight.detach().double().numpy()
    return values


def _linear(x: Doubles, module: nn.Linear) -> Doubles:
    mapped: Doubles = x @ _values(module.weight).T + _values(module.bias)
    return mapped


def _norm(x: Doubles, module: nn.LayerNorm) -> Doubles:
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    scaled: Doubles = x * _values(module.weight) + _values(module.bias)
    return scaled


def _attention(q: Doubles, k: Doubles, v: Doubles, heads: int, may: NDArray[np.bool_]) -> Doubles:
    out = np.zeros_like(q)
    width = q.shape[1] // heads
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        for i in range(len(q)):
            seen = np.flatnonzero(may[i])
            weights = np.exp([q[i, part] @ k[j, part] / math.sqrt(width) for j in seen])
            out[i, part] = sum(w * v[j, part] for w, j in zip(weights / weights.sum(), seen, strict=True))
    return out


def _feed_forward(x: Doubles, ff: FeedForward, config: ModelConfig) -> Doubles:
    x = _linear(x, ff.up)
    erf = np.vectorize(math.erf)
    x = np.maximum(x, 0) if config.activation == "relu" else x * (1 + erf(x / math.sqrt(2))) / 2
    return _linear(x, ff.down)


def _with_positions(x: Doubles, table: Tensor | None) -> Doubles:
    size, width = x.shape
    if table is not None:
        return x + 0.5 * _values(table)[:size]
    angle = np.arange(size)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    return x + 0.5 * np.concatenate([np.sin(angle), np.cos(angle)], axis=1)


def _encode_plainly(model: Transformer, features: Tensor) -> Doubles:
    """(F, C) -> (T, D)."""
    config, encoder = model.config, model.encoder
    frames = _values(features)
    weight = _values(encoder.splice.weight)  # (D, C, stride + 2 splice)
    rows = []
    halving = 2 if config.halves else 1
    for p in range(halving * math.ceil(len(frames) / (halving * config.stride))):
        row = _values(encoder.splice.bias).copy()
        for j in range(config.stride + 2 * config.splice):
            at = config.stride * p - config.splice + j
            if 0 <= at < len(frames):
                row += weight[:, :, j] @ frames[at]
        rows.append(row * math.sqrt(config.d_model))
    x = _with_positions(np.array(rows), encoder.positions.table)
    for i, layer in enumerate(encoder.layers):
        if encoder.halve is not None and i == config.halve_after:
            pairs = [np.concatenate([x[p], x[p + 1]]) for p in range(0, len(x), 2)]
            x = _linear(np.array(pairs), encoder.halve)
        distance = np.abs(np.subtract.outer(np.arange(len(x)), np.arange(len(x))))
        window = config.windows[i] if i < len(config.windows) else len(x)
        q, k, v = np.split(_linear(_norm(x, layer.attention_norm), layer.attention.qkv), 3, axis=1)
        x = x + _linear(_attention(q, k, v, config.heads, distance <= window), layer.attention.out)
        x = x + _feed_forward(_norm(x, layer.ff_norm), layer.ff, config)
    return _norm(x, encoder.norm)


def _decode_plainly(model: Transformer, tokens: list[int], memory: Doubles) -> Doubles:
    """Tokens (U,) and memory (T, D) -> logits (U, V)."""
    config, decoder = model.config, model.decoder
    embedding = _values(decoder.embedding.weight)
    x = _with_positions(embedding[tokens] * math.sqrt(config.d_model), decoder.positions.table)
    past = np.tri(len(x), dtype=bool)
    for layer in decoder.layers:
        q, k, v = np.split(_linear(_norm(x, layer.self_norm), layer.self_attention.qkv), 3, axis=1)
        x = x + _linear(_attention(q, k, v, config.heads, past), layer.self_attention.out)
        q = _linear(_norm(x, layer.cross_norm), layer.cross_attention.q)
        k, v = np.split(_linear(memory, layer.cross_attention.kv), 2, axis=1)
        everywhere = np.ones((len(x), len(memory)), bool)
        x = x + _linear(_attention(q, k, v, config.heads, everywhere), layer.cross_attention.out)
        x = x + _feed_forward(_norm(x, layer.ff_norm), layer.ff, config)
    logits: Doubles = _norm(x, decoder.norm) @ embedding.T
    return logits


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_whole_model_is_its_formulas(config: ModelConfig) -> None:
    model = _model(config)
    features, lengths = _batch([22])
    tokens = _tokens(1, 6)
    with torch.no_grad():
        logits, ctc, positions = model(features, lengths, tokens)
    memory = _encode_plainly(model, features[0])
    assert positions.tolist() == [len(memory)]
    np.testing.assert_allclose(ctc[0].numpy(), _linear(memory, model.ctc_head), atol=2e-5)
    np.testing.assert_allclose(logits[0].numpy(), _decode_plainly(model, tokens[0].tolist(), memory), atol=5e-5)


@torch.no_grad()
def test_a_token_changes_nothing_before_it() -> None:
    model = _model()
    features, lengths = _batch([30, 18])
    tokens = _tokens(2, 8)
    logits = model(features, lengths, tokens)[0]
    for t in range(8):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % VOCAB
        other = model(features, lengths, changed)[0]
        assert torch.equal(other[:, :t], logits[:, :t])
        assert (other[:, t:] - logits[:, t:]).abs().amax(dim=2).gt(1e-4).all()  # and matters for all after it


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
@torch.no_grad()
def test_a_batch_of_one_is_a_batch_of_many(config: ModelConfig) -> None:
    model = _model(config)
    frames = [1, 3, 47, 28, 20, 2]
    features, lengths = _batch(frames)
    tokens = _tokens(len(frames), 5)
    logits, ctc, positions = model(features, lengths, tokens)
    for i, count in enumerate(frames):
        alone, alone_ctc, alone_positions = model(features[i : i + 1, :count], lengths[i : i + 1], tokens[i : i + 1])
        assert alone_positions.tolist() == [positions[i]] == [math.ceil(count / config.frames_per_position)]
        torch.testing.assert_close(logits[i], alone[0], atol=1e-4, rtol=0)
        torch.testing.assert_close(ctc[i, : positions[i]], alone_ctc[0], atol=1e-4, rtol=0)


@torch.no_grad()
def test_samples_of_any_length_together_are_each_alone() -> None:
    model = _model()
    lengths = [0, 1, 399, 400, 401, 16000, 23456]
    samples = 0.1 * torch.randn(len(lengths), max(lengths), generator=torch.Generator().manual_seed(3))
    samples *= torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    k, v, ctc, positions = model.encode(samples, torch.tensor(lengths))
    assert k.shape == v.shape == (2, len(lengths), 3, ctc.shape[1], 8)
    assert (positions >= 1).all()
    torch.testing.assert_close(ctc.exp().sum(dim=2), torch.ones(ctc.shape[:2]))
    for i, length in enumerate(lengths):
        ours, alone = slice(0, int(positions[i])), model.encode(samples[i : i + 1, :length], torch.tensor([length]))
        assert alone[3].tolist() == [positions[i]]
        torch.testing.assert_close(ctc[i, ours], alone[2][0], atol=1e-4, rtol=0)
        torch.testing.assert_close(k[:, i, :, ours], alone[0][:, 0], atol=1e-4, rtol=0)
        torch.testing.assert_close(v[:, i, :, ours], alone[1][:, 0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
@torch.no_grad()
def test_cached_steps_are_full_decoding(config: ModelConfig) -> None:
    model = _model(config)
    features, lengths = _batch([40, 13, 29])
    tokens = _tokens(3, 9)
    memory, positions = model.encoder(features, lengths)
    full = model.decoder(tokens, memory, positions)  # (3, 9, V)
    projected = model.decoder.project_memory(memory)
    past = projected[0].new_zeros(2, 3, 3, 0, 8)
    cache = (past, past)
    u = 0
    for count in (1, 1, 4, 2, 1):
        logits, *longer = model.decoder.step(tokens[:, u : u + count], cache, projected, positions)
        cache = (longer[0], longer[1])
        assert cache[0].shape == cache[1].shape == (2, 3, 3, u + count, 8)
        torch.testing.assert_close(logits, full[:, u : u + count], atol=1e-5, rtol=1e-5)
        u += count


@torch.no_grad()
def test_a_step_leaves_its_cache_as_it_was() -> None:
    model = _model()
    memory, positions = model.encoder(*_batch([20]))
    projected = model.decoder.project_memory(memory)
    past = (torch.randn(2, 1, 3, 4, 8), torch.randn(2, 1, 3, 4, 8))
    before = [value.clone() for value in (*past, *projected)]
    model.decoder.step(torch.tensor([[5, 6]]), past, projected, positions)
    for value, copy in zip((*past, *projected), before, strict=True):
        assert torch.equal(value, copy)


@pytest.mark.parametrize("window", [1, 3])
@torch.no_grad()
def test_windows_bound_what_a_position_sees(window: int) -> None:
    layers = 2
    model = _model(replace(CONFIG, encoder_layers=layers, windows=(window,) * layers))
    features, lengths = _batch([150])
    memory = model.encoder(features, lengths)[0]
    reach = layers * window  # positions to either side
    changed = features.clone()
    changed[0, 75] += 1.0  # seen by positions p with 3p-5 <= 75 <= 3p+7: 23 … 26
    moved = (model.encoder(changed, lengths)[0] - memory).abs().amax(dim=2)[0]  # (T,)
    assert moved[: 23 - reach].max() == 0
    assert moved[26 + reach + 1 :].max() == 0
    assert moved[23 - reach : 26 + reach + 1].min() > 1e-6  # and all of that is used


@torch.no_grad()
def test_without_a_window_everything_is_seen() -> None:
    model = _model(replace(CONFIG, encoder_layers=1, windows=(0,)))
    features, lengths = _batch([90])
    changed = features.clone()
    changed[0, 0] += 1.0
    moved = (model.encoder(changed, lengths)[0] - model.encoder(features, lengths)[0]).abs().amax(dim=2)
    assert moved.min() > 0


def test_attention_masks_position_by_position() -> None:
    lengths = torch.tensor([6, 2])
    masks = attention_masks(6, lengths, (1, 3, 1))
    assert set(masks) == {0, 1, 3}
    for window, mask in masks.items():
        assert mask.shape == (2, 1, 6, 6)
        for b, length in enumerate([6, 2]):
            for i in range(6):
                for j in range(6):
                    seen = j < length and (window == 0 or abs(i - j) <= window)
                    assert bool(mask[b, 0, i, j]) == (seen or i == j)


@torch.no_grad()
def test_attention_maps_are_weights_on_the_memory_that_counts() -> None:
    model = _model()
    features, lengths = _batch([30, 12])
    memory, positions = model.encoder(features, lengths)
    maps = model.decoder.attention_maps(_tokens(2, 4), memory, positions)
    assert maps.shape == (2, 2, 3, 4, 10)
    torch.testing.assert_close(maps.sum(dim=4), torch.ones(2, 2, 3, 4))
    assert maps[:, 1, :, :, 4:].max() == 0
    assert maps.min() >= 0


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
def test_gradients_reach_every_parameter(config: ModelConfig) -> None:
    model = _model(config).train()
    samples = 0.1 * torch.randn(3, 9000, generator=torch.Generator().manual_seed(4))
    features, frames = model.features(samples, torch.tensor([9000, 7000, 5000]))
    logits, ctc, _ = model(features, frames, _tokens(3, 6))
    (logits.logsumexp(2).sum() + ctc.logsumexp(2).sum()).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 0, name
        assert weight.grad.isfinite().all(), name


def test_a_sum_over_padding_has_finite_gradients() -> None:
    model = _model().train()
    features, frames = _batch([60, 1])
    model(features, frames, _tokens(2, 3))[1].sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_output_is_tied_to_the_embedding() -> None:
    model = _model()
    names = [name for name, _ in model.named_parameters()]
    assert [n for n in names if n.startswith("decoder") and "layers" not in n] == [
        "decoder.embedding.weight", "decoder.norm.weight", "decoder.norm.bias",
    ]  # fmt: skip


def test_training_drops_and_evaluation_does_not() -> None:
    features, frames = _batch([24])
    model = _model()
    tokens = _tokens(1, 3)
    with torch.no_grad():
        assert torch.equal(model(features, frames, tokens)[0], model(features, frames, tokens)[0])
        model.train()
        assert not torch.equal(model(features, frames, tokens)[0], model(features, frames, tokens)[0])


def test_a_fresh_model_is_not_sure_of_anything_wrong() -> None:
    """Small at initialisation, else the first losses are in the hundreds."""
    torch.manual_seed(7)
    model = Transformer(ModelConfig(), MfccSpec(), 256).eval()
    features = torch.randn(2, 100, 40)
    with torch.no_grad():
        logits, ctc, _ = model(features, torch.tensor([100, 80]), torch.randint(256, (2, 10)))
    chance = math.log(256)
    ctc_loss, loss = (-scores.log_softmax(dim=2).mean().item() for scores in (ctc, logits))  # of random targets
    assert chance < ctc_loss < chance + 1.5
    assert chance < loss < 4 * chance  # tied as it is, it would say each token again
