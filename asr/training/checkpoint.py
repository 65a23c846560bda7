"""Reading checkpoints and weights, as plain data only, and averaging checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from asr.errors import CepstraError, ConfigError
from asr.files import atomic
from asr.model.config import ModelConfig
from asr.model.transformer import Transformer
from asr.tokenizer import Tokenizer
from asr.training.weights import SUFFIX, read_weights
from audio.mfcc import MfccSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Trained:
    """A model out of a checkpoint, in evaluation mode, with what belongs to it."""

    model: Transformer
    tokenizer: Tokenizer
    language: str
    facts: dict[str, Any]  # the whole "cepstra" part, with how it was trained and measured where known
    steps: int = 0  # optimiser steps that it has seen

    @property
    def history(self) -> list[dict[str, Any]]:
        """What there is to say about every run behind it, the first one first."""
        latest = self.facts.get("training")
        return [*self.facts.get("earlier", []), *([latest] if latest else [])]


def read_checkpoint(path: Path) -> Trained:
    """The trained model of a checkpoint, or of weights (.safetensors). Executes nothing of the file.

    Raises ConfigError where it is neither.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: {_instead(path)}")
    content = read_weights(path) if path.suffix == SUFFIX else _read(path)
    facts = content["cepstra"]
    weights = {k.removeprefix("model."): v for k, v in content["state_dict"].items() if k.startswith("model.")}
    try:
        tokenizer = Tokenizer.from_json(facts["tokenizer"])
        config, spec = ModelConfig.from_dict(facts["model"]), MfccSpec.from_dict(facts["front_end"])
        language, steps = str(facts["language"]), int(content.get("global_step", 0))
        # Shapes alone first: memory is taken for what the file holds, not for what it says of itself
        with torch.device("meta"):
            unfit = _unfit(Transformer(config, spec, tokenizer.vocab_size).state_dict(), weights)
        if unfit:
            raise ConfigError(f"damaged: its weights don't fit its own settings ({unfit})")
        model = Transformer(config, spec, tokenizer.vocab_size)
    except CepstraError as error:
        raise ConfigError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: damaged: its description can't be used ({type(error).__name__}: {error})") from None
    except (RuntimeError, MemoryError):
        raise ConfigError(f"{path}: its settings ask for more memory than there is; give another checkpoint") from None
    model.load_state_dict(weights)
    return Trained(model.eval(), tokenizer, language, facts, steps)


def _unfit(wanted: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]) -> str:
    """The first weight that is missing, not wanted, not finite, or of another shape or kind; "" if there is none."""
    for name, tensor in wanted.items():
        if name not in found:
            return f"{name} is missing"
        if found[name].is_floating_point() and not torch.isfinite(found[name]).all():
            return f"{name} holds what is no number"
        if found[name].shape != tensor.shape or found[name].is_floating_point() != tensor.is_floating_point():
            return f"{name} is {tuple(found[name].shape)}, not {tuple(tensor.shape)}"
    return next((f"{name} isn't one of them" for name in found if name not in wanted), "")


def average(paths: Sequence[Path], target: Path, **facts: object) -> None:
    """The mean of the weights of several checkpoints of one run, as a checkpoint; facts join its "cepstra" part.

    What is counted in whole numbers is taken from the first.
    """
    first = _read(paths[0])
    weights = first["state_dict"]
    means = {name: value.double() / len(paths) for name, value in weights.items() if value.is_floating_point()}
    for path in paths[1:]:
        others = _read(path)["state_dict"]
        for name, mean in means.items():
            mean += others[name].double() / len(paths)  # noqa: PLW2901  in place
    content = {
        "state_dict": weights | {name: mean.to(weights[name].dtype) for name, mean in means.items()},
        "global_step": first.get("global_step", 0),
        "cepstra": {**first["cepstra"], **facts},
    }
    with atomic(target, ConfigError) as file:
        torch.save(content, file)


def _instead(path: Path) -> str:
    """What is wrong with a path where no checkpoint is, and which one was meant perhaps."""
    folder, fault = (path, "is a folder") if path.is_dir() else (path.parent, "no such file")
    if (folder / "best.ckpt").is_file():
        return f"{fault}; its finished run is {folder / 'best.ckpt'}"
    if (folder / "last.ckpt").is_file():
        return (
            f"{fault}; the run in {folder} isn't finished: go on with its `cepstra train`, or take it as it is from "
            f"{folder / 'last.ckpt'}"
        )
    return f"{fault}; give best.ckpt of a run's folder"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigError(
            f"{path}: can't be read ({error.strerror or error}); give a checkpoint of `cepstra train`"
        ) from None
    except Exception:  # noqa: BLE001  whatever a damaged file makes torch stumble over
        raise ConfigError(f"{path}: not a checkpoint, or damaged; give a .ckpt file of `cepstra train`") from None
    if (
        not isinstance(content, dict)
        or not isinstance(content.get("cepstra"), dict)
        or not isinstance(content.get("state_dict"), dict)
        or not all(isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in content["state_dict"].items())
    ):
        raise ConfigError(f"{path}: not a checkpoint of `cepstra train`")
    return content
