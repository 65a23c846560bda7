"""Reading checkpoints, as plain data only, and averaging them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from asr.errors import ConfigError
from asr.model.config import ModelConfig
from asr.model.transformer import Transformer
from asr.tokenizer import Tokenizer
from audio.mfcc import MfccSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Trained:
    """A model out of a checkpoint, in evaluation mode, with what belongs to it."""

    model: Transformer
    tokenizer: Tokenizer
    language: str
    facts: dict[str, Any]  # the whole "cepstra" part, with how it was trained and measured where known


def read_checkpoint(path: Path) -> Trained:
    """The trained model. Raises ConfigError where the file is not such a checkpoint."""
    content = _read(path)
    facts = content["cepstra"]
    tokenizer = Tokenizer.from_json(facts["tokenizer"])
    config, spec = ModelConfig.from_dict(facts["model"]), MfccSpec.from_dict(facts["front_end"])
    model = Transformer(config, spec, tokenizer.vocab_size)
    weights = {k.removeprefix("model."): v for k, v in content["state_dict"].items() if k.startswith("model.")}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ConfigError(f"{path}: its weights don't fit its own settings ({str(error).splitlines()[0]})") from None
    return Trained(model.eval(), tokenizer, facts["language"], facts)


def average(paths: Sequence[Path], target: Path, **facts: Any) -> None:
    """The mean of the weights of several checkpoints of one run, as a checkpoint; facts join its "cepstra" part."""
    first = _read(paths[0])
    weights = first["state_dict"]
    for path in paths[1:]:
        for name, value in _read(path)["state_dict"].items():
            weights[name] = weights[name] + value
    content = {
        "state_dict": {name: value / len(paths) if value.is_floating_point() else value for name, value in weights.items()},
        "cepstra": {**first["cepstra"], **facts},
    }
    part = target.with_name(f".{target.name}")
    torch.save(content, part)
    part.replace(target)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror or error}); give a checkpoint of `cepstra train`") from None
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, ValueError):
        raise ConfigError(f"{path}: not a checkpoint, or damaged; give a .ckpt file of `cepstra train`") from None
    if not isinstance(content, dict) or not isinstance(content.get("cepstra"), dict) or "state_dict" not in content:
        raise ConfigError(f"{path}: not a checkpoint of `cepstra train`")
    return content
