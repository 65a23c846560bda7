"""The optimiser: AdamW, or Muon for the matrices between the layers and AdamW for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.training.config import OptimiserConfig


def make_optimiser(model: nn.Module, settings: OptimiserConfig) -> torch.optim.Optimizer:
    """What the settings say, for all parameters of a model: matrices decay, vectors (norms, biases) do not."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    hidden: list[nn.Parameter] = []
    if settings.name == "muon":
        hidden = [p for name, p in parameters.items() if ".layers." in name and p.ndim == 2]
    chosen = {id(p) for p in hidden}
    rest = [p for p in parameters.values() if id(p) not in chosen]
    groups = [
        {"params": [p for p in rest if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, settings.learning_rate, settings.betas, fused=True)
    if not hidden:
        return adamw
    # Scaled so that one learning rate suits both (Liu et al. 2025, "Muon is scalable for LLM training", section 2.2)
    muon = torch.optim.Muon(hidden, settings.learning_rate, settings.weight_decay, adjust_lr_fn="match_rms_adamw")
    return Together(muon, adamw)


class Together(torch.optim.Optimizer):
    """Several optimisers, each with parameters of its own, that step as one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})  # the same dictionaries

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of each."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self.parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Of each."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Into each."""
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self.param_groups = [group for part in self.parts for group in part.param_groups]
