"""Weights to go on from, in half precision: one safetensors file that is half the size of a checkpoint's model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from asr.errors import ConfigError
from asr.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

SUFFIX = ".safetensors"
_KEY = "cepstra"  # of the file's metadata: model, front end, tokenizer, language and what is known about the training


def write_weights(path: Path, weights: dict[str, Tensor], facts: dict[str, Any], steps: int) -> None:
    """Weights by name, rounded to float16, whole or not at all; facts are a checkpoint's "cepstra" part.

    Raises ConfigError where a weight is beyond half precision, or the file can't be written.
    """
    largest = torch.finfo(torch.float16).max
    for name, value in weights.items():
        if not value.abs().max() <= largest:
            raise ConfigError(f"{path}: weight {name} is too large for float16, or not a number; not written")
    halves = {name: value.to(torch.float16).contiguous() for name, value in weights.items()}
    metadata = {_KEY: json.dumps({**facts, "steps": steps})}
    write_atomically(path, safetensors.torch.save(halves, metadata), ConfigError)


def read_weights(path: Path) -> dict[str, Any]:
    """What a checkpoint of the same model holds, with float32 weights. Raises ConfigError where it is no such file."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()[_KEY])
            weights = {f"model.{name}": file.get_tensor(name).to(torch.float32) for name in file.keys()}  # noqa: SIM118
        return {"state_dict": weights, "global_step": int(facts.pop("steps")), "cepstra": facts}
    except OSError as error:
        raise ConfigError(
            f"{path}: can't be read ({error.strerror or error}); give weights of `cepstra export`"
        ) from None
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise ConfigError(f"{path}: not weights of `cepstra export`, or damaged") from None
