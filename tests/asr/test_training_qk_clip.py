"""Attention's scores, held down while training."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import lightning as L
import pytest
import torch

from asr.model.config import ModelConfig
from asr.model.layers import CrossAttention, SelfAttention, split_heads
from asr.training.qk_clip import EVERY, GENTLY, QkClip

CONFIG = ModelConfig(d_model=8, heads=2)


class Both(L.LightningModule):
    """Attention of both kinds."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.own, self.cross = SelfAttention(CONFIG), CrossAttention(CONFIG)
        with torch.no_grad():
            self.own.qkv.weight[:4] *= 300  # the queries of the first head
            self.cross.kv.weight[4:8] *= 400  # the keys of the second
        self.logged: dict[str, float] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.own(x, None) + self.cross(
            x, *self.cross.project_memory(x), torch.ones(1, 1, 1, x.shape[1], dtype=torch.bool)
        )
        return mixed

    def log(self, name: str, value: Any, **_: Any) -> None:  # type: ignore[override]
        self.logged[name] = float(value)

    @torch.no_grad()
    def peaks(self, x: torch.Tensor) -> list[list[float]]:
        """Of both heads of both, computed once more, from the definition."""
        q, k, _ = self.own.qkv(x).chunk(3, dim=2)
        pairs = [(q, k), (self.cross.q(x), self.cross.kv(x).chunk(2, dim=2)[0])]
        found = []
        for q, k in pairs:
            scores = torch.einsum("bhqk,bhsk->bhqs", split_heads(q, 2), split_heads(k, 2)) / 2  # √4
            found.append(scores.abs().amax(dim=(0, 2, 3)).tolist())
        return found


def _step(clip: QkClip, module: Both, x: torch.Tensor, number: int) -> None:
    trainer: Any = SimpleNamespace(global_step=number, world_size=1)
    clip.on_train_batch_start(trainer, module, None, 0)
    module(x)
    clip.on_train_batch_end(trainer, module, None, None, 0)


def test_heads_above_the_bound_come_down_to_it_and_the_others_stay() -> None:
    module, clip = Both(), QkClip(5.0)
    clip.on_fit_start(SimpleNamespace(), module)  # type: ignore[arg-type]
    x = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(1))
    before = module.peaks(x)
    assert before[0][0] > 50
    assert before[0][1] < 5
    assert before[1][1] > 50
    assert before[1][0] < 5
    values = module.own.qkv.weight[16:].clone(), module.cross.kv.weight[8:].clone()
    _step(clip, module, x, 0)
    assert module.logged["train/attention_peak"] == pytest.approx(max(map(max, before)))
    gently = module.peaks(x)
    assert gently[0] == pytest.approx([GENTLY * before[0][0], before[0][1]], rel=1e-5)
    assert gently[1] == pytest.approx([before[1][0], GENTLY * before[1][1]], rel=1e-5)
    for number in range(1, 30):
        _step(clip, module, x, number * EVERY)
    after = module.peaks(x)
    assert after[0] == pytest.approx([5.0, before[0][1]], rel=1e-4)
    assert after[1] == pytest.approx([before[1][0], 5.0], rel=1e-4)
    assert torch.equal(values[0], module.own.qkv.weight[16:])
    assert torch.equal(values[1], module.cross.kv.weight[8:])


def test_it_looks_at_one_step_in_ten() -> None:
    module, clip = Both(), QkClip(5.0)
    clip.on_fit_start(SimpleNamespace(), module)  # type: ignore[arg-type]
    x = torch.randn(1, 3, 8)
    weights = module.own.qkv.weight.clone()
    for number in range(1, EVERY):
        _step(clip, module, x, number)
        assert torch.equal(weights, module.own.qkv.weight)
    _step(clip, module, x, EVERY)
    assert not torch.equal(weights, module.own.qkv.weight)
