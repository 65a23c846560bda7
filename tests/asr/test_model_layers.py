"""The Transformer's building blocks against torch's own, against formulas worked by hand, and against statistics."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from asr.model.config import ModelConfig
from asr.model.layers import CrossAttention, FeedForward, LockedDropout, Positions, SelfAttention, attend, split_heads

CONFIG = ModelConfig(d_model=24, heads=3)
B, T, U, D, H = 3, 7, 5, CONFIG.d_model, CONFIG.heads


def _noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _lengths_mask(size: int, lengths: list[int]) -> Tensor:
    """(B, size), true on padding."""
    return torch.arange(size) >= torch.tensor(lengths)[:, None]


@pytest.fixture(scope="module")
def self_pair() -> tuple[SelfAttention, nn.MultiheadAttention]:
    """Ours and torch's with the same weights, none of them zero."""
    torch.manual_seed(1)
    ours, theirs = SelfAttention(CONFIG), nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
        theirs.out_proj.bias.normal_()
    ours.load_state_dict(
        {
            "qkv.weight": theirs.in_proj_weight,
            "qkv.bias": theirs.in_proj_bias,
            "out.weight": theirs.out_proj.weight,
            "out.bias": theirs.out_proj.bias,
        }
    )
    return ours.eval(), theirs.eval()


def test_self_attention_is_that_of_torch(self_pair: tuple[SelfAttention, nn.MultiheadAttention]) -> None:
    ours, theirs = self_pair
    x = _noise(B, T, D)
    torch.testing.assert_close(ours(x, None), theirs(x, x, x, need_weights=False)[0])


def test_self_attention_with_padding_is_that_of_torch(self_pair: tuple[SelfAttention, nn.MultiheadAttention]) -> None:
    ours, theirs = self_pair
    x, padding = _noise(B, T, D), _lengths_mask(T, [7, 4, 1])
    expected = theirs(x, x, x, key_padding_mask=padding, need_weights=False)[0]
    torch.testing.assert_close(ours(x, ~padding[:, None, None]), expected)


def test_causal_self_attention_is_that_of_torch(self_pair: tuple[SelfAttention, nn.MultiheadAttention]) -> None:
    ours, theirs = self_pair
    x = _noise(B, T, D)
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    expected = theirs(x, x, x, attn_mask=future, need_weights=False)[0]
    torch.testing.assert_close(ours(x, None, causal=True), expected)


def test_cross_attention_is_that_of_torch() -> None:
    torch.manual_seed(2)
    ours, theirs = CrossAttention(CONFIG), nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
        theirs.out_proj.bias.normal_()
    ours.load_state_dict(
        {
            "q.weight": theirs.in_proj_weight[:D],
            "q.bias": theirs.in_proj_bias[:D],
            "kv.weight": theirs.in_proj_weight[D:],
            "kv.bias": theirs.in_proj_bias[D:],
            "out.weight": theirs.out_proj.weight,
            "out.bias": theirs.out_proj.bias,
        }
    )
    text, memory, padding = _noise(B, U, D), _noise(B, T, D, seed=3), _lengths_mask(T, [2, 7, 5])
    expected = theirs(text, memory, memory, key_padding_mask=padding, need_weights=False)[0]
    k, v = ours.project_memory(memory)
    assert k.shape == v.shape == (B, H, T, D // H)
    torch.testing.assert_close(ours(text, k, v, ~padding[:, None, None]), expected)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.integers(1, 8)),
    kind=st.sampled_from(["all", "mask", "causal"]),
    seed=st.integers(0, 2**20),
)
def test_attend_is_the_fused_kernel(shape: tuple[int, int, int, int, int], kind: str, seed: int) -> None:
    batch, heads, queries, keys, width = shape
    q = _noise(batch, heads, queries, width, seed=seed)
    k, v = _noise(batch, heads, keys, width, seed=seed + 1), _noise(batch, heads, keys, width, seed=seed + 2)
    mask = None
    if kind == "mask":
        mask = _noise(batch, 1, queries, keys, seed=seed + 3) > 0
        mask[..., 0] = True  # each query may look somewhere
    causal = kind == "causal"
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)  # (B, H, Q, K)
    joined = torch.cat([expected[:, h] for h in range(heads)], dim=2)
    torch.testing.assert_close(attend(q, k, v, mask, causal=causal), joined)


def test_attend_by_hand() -> None:
    # Width 4, so the scores 0 and 2 ln 3 are halved: weights 1/4 and 3/4
    q = torch.tensor([[[[1.0, 0, 0, 0]]]])
    k = torch.tensor([[[[0.0, 0, 0, 0], [2 * math.log(3), 0, 0, 0]]]])
    v = torch.tensor([[[[4.0, 0, 0, 0], [8.0, 4, 0, 0]]]])
    torch.testing.assert_close(attend(q, k, v, None), torch.tensor([[[7.0, 3, 0, 0]]]))
    torch.testing.assert_close(attend(q, k, v, torch.tensor([True, False])), torch.tensor([[[4.0, 0, 0, 0]]]))


def test_heads_are_consecutive_slices() -> None:
    x = _noise(2, 3, 12)
    parts = split_heads(x, 3)
    assert parts.shape == (2, 3, 3, 4)
    for head in range(3):
        assert torch.equal(parts[:, head], x[:, :, 4 * head : 4 * head + 4])


@pytest.mark.parametrize(("activation", "at_minus_one", "at_two"), [("relu", 0.0, 2.0), ("gelu", -0.158655, 1.954500)])
def test_feed_forward_by_hand(activation: str, at_minus_one: float, at_two: float) -> None:
    block = FeedForward(ModelConfig.from_dict({"d_model": 2, "heads": 1, "activation": activation}), width=2)
    block.load_state_dict({
        "up.weight": torch.eye(2), "up.bias": torch.tensor([0.0, 1.0]),
        "down.weight": torch.tensor([[1.0, 0.0], [1.0, 10.0]]), "down.bias": torch.tensor([0.5, 0.0]),
    })  # fmt: skip
    out = block(torch.tensor([[[-1.0, 1.0]]]))
    torch.testing.assert_close(
        out, torch.tensor([[[at_minus_one + 0.5, at_minus_one + 10 * at_two]]]), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("start", [0, 3])
def test_sinusoidal_positions_by_their_formula(start: int) -> None:
    config = ModelConfig(d_model=12, heads=2)
    x = _noise(2, 9, 12)
    added = Positions(config, scale=0.5)(x, start) - x
    for t in range(9):
        for i in range(6):
            angle = (start + t) / 10000 ** (2 * i / 12)
            for column, value in ((i, math.sin(angle)), (6 + i, math.cos(angle))):
                assert added[:, t, column].tolist() == pytest.approx([0.5 * value] * 2, abs=1e-5)


def test_learned_positions_are_a_trained_table() -> None:
    config = ModelConfig(d_model=12, heads=2, positions="learned", max_positions=10)
    positions = Positions(config, scale=0.5)
    (table,) = positions.parameters()
    assert table.shape == (10, 12)
    x = _noise(1, 4, 12)
    torch.testing.assert_close(positions(x, 3), x + 0.5 * table[3:7])
    positions(x).sum().backward()
    assert table.grad is not None
    torch.testing.assert_close(table.grad, 0.5 * (torch.arange(10)[:, None] < 4) * torch.ones(10, 12))


def test_sound_longer_than_the_learned_table_is_no_failure() -> None:
    positions = Positions(ModelConfig(d_model=12, heads=2, positions="learned", max_positions=4), scale=1.0)
    added = positions(torch.zeros(1, 9, 12))
    torch.testing.assert_close(added[0, 4:], added[0, 3].expand(5, 12))


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_keep_the_type_of_the_stream(kind: str) -> None:
    positions = Positions(ModelConfig.from_dict({"d_model": 12, "heads": 2, "positions": kind}), scale=1.0)
    assert positions(torch.zeros(1, 3, 12, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_locked_dropout_draws_one_mask_for_all_positions_of_an_utterance() -> None:
    torch.manual_seed(5)
    out = LockedDropout(0.25).train()(torch.ones(4, 6, 500))
    for utterance in out:
        assert torch.equal(utterance, utterance[:1].expand(6, 500))
    assert not torch.equal(out[0], out[1])
    assert out.unique().tolist() == pytest.approx([0.0, 4 / 3])


def test_locked_dropout_drops_its_rate_and_keeps_the_mean() -> None:
    torch.manual_seed(6)
    out = LockedDropout(0.25).train()(torch.ones(200, 1, 500))  # 100,000 draws: deviation 0.0014
    assert (out == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert out.mean().item() == pytest.approx(1.0, abs=0.01)


def test_locked_dropout_only_in_training() -> None:
    x = _noise(2, 3, 4)
    assert torch.equal(LockedDropout(0.5).eval()(x), x)
    assert torch.equal(LockedDropout(0.0).train()(x), x)
