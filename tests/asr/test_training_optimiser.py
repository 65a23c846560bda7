"""Which parameters go by which rule, and what one step does to them."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from asr.model.config import preset
from asr.model.transformer import Transformer
from asr.training.config import OptimiserConfig
from asr.training.optimiser import make_optimiser
from audio.mfcc import MfccSpec

MUON = OptimiserConfig(name="muon", learning_rate=0.01, weight_decay=0.0)


class Toy(nn.Module):
    """One matrix within the layers, one without, and a vector in each place."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList([nn.Linear(24, 40)])
        self.head = nn.Linear(40, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.encoder.layers[0](x))  # type: ignore[operator,index]
        return y


def stepped(model: nn.Module, settings: OptimiserConfig, steps: int = 1) -> dict[str, torch.Tensor]:
    """What each parameter moved by."""
    model = copy.deepcopy(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = make_optimiser(model, settings)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        optimiser.zero_grad()
        model(torch.randn(16, 24, generator=generator)).square().mean().backward()
        optimiser.step()
    return {name: p.detach() - before[name] for name, p in model.named_parameters()}


@pytest.fixture
def pair() -> Toy:
    torch.manual_seed(0)
    return Toy()


def test_muon_turns_a_matrix_the_same_way_in_every_direction(pair: Toy) -> None:
    moved = stepped(pair, MUON)["encoder.layers.0.weight"]
    # The nearest (semi-)orthogonal matrix to the gradient, roughly, times 0.2 sqrt(longer side)
    x = torch.randn(16, 24, generator=torch.Generator().manual_seed(1))
    pair(x).square().mean().backward()
    gradient = pair.encoder.layers[0].weight.grad  # type: ignore[index,union-attr]
    assert isinstance(gradient, torch.Tensor)
    u, s, v = torch.linalg.svd(gradient, full_matrices=False)
    rank = int((s > 1e-3 * s[0]).sum())  # no more than the six outputs have
    scale = 0.01 * 0.2 * math.sqrt(40)
    along = torch.diag(u[:, :rank].T @ moved @ v[:rank].T) / -scale
    assert rank == 6
    # Five Newton-Schulz steps bring singular values to 0.7 … 1.2
    assert (along > 0.6).all()
    assert (along < 1.3).all()


def test_the_rest_goes_as_by_adamw_alone(pair: Toy) -> None:
    alone, together = stepped(pair, replace(MUON, name="adamw")), stepped(pair, MUON)
    for name in ("encoder.layers.0.bias", "head.weight", "head.bias"):
        torch.testing.assert_close(together[name], alone[name])
    assert not torch.allclose(together["encoder.layers.0.weight"], alone["encoder.layers.0.weight"])


def groups(model: nn.Module, settings: OptimiserConfig) -> dict[str, dict[str, Any]]:
    optimiser = make_optimiser(model, settings)
    by_id = {id(p): group for group in optimiser.param_groups for p in group["params"]}
    return {name: by_id.get(id(p), {}) for name, p in model.named_parameters()}


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_parameter_has_one_rule_and_only_matrices_decay(name: Any) -> None:
    settings = OptimiserConfig(name=name, weight_decay=0.3)
    model = Transformer(replace(preset("tiny"), encoder_layers=2, decoder_layers=1), MfccSpec(), 40)
    found = groups(model, settings)
    counted = sum(len(group["params"]) for group in make_optimiser(model, settings).param_groups)
    assert counted == len(found)
    for parameter, group in found.items():
        is_matrix = model.get_parameter(parameter).ndim >= 2
        assert group["weight_decay"] == (0.3 if is_matrix else 0.0), parameter
        inside = name == "muon" and ".layers." in parameter and is_matrix
        assert ("momentum" in group) == inside, parameter


def test_a_schedule_reaches_all_and_state_comes_back(pair: Toy) -> None:
    optimiser = make_optimiser(pair, MUON)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5**step)
    for _ in range(2):
        pair(torch.ones(2, 24)).square().mean().backward()
        optimiser.step()
        schedule.step()
    assert [group["lr"] for group in optimiser.param_groups] == [0.0025] * 3
    twin = copy.deepcopy(pair)
    other = make_optimiser(twin, MUON)
    other.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    assert [group["lr"] for group in other.param_groups] == [0.0025] * 3
    for model, one in ((pair, optimiser), (twin, other)):
        one.zero_grad()
        model(torch.ones(2, 24)).square().mean().backward()
        one.step()
    for mine, its in zip(pair.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine, its)
