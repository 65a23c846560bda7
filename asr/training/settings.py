"""Settings from YAML files that state only differences, and from key=value overrides."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from asr.errors import CepstraError, ConfigError
from asr.files import real_path
from asr.model.config import PRESETS
from asr.settings_file import fault, parse_yaml, read_settings
from asr.training.config import DataConfig, TrainConfig, usual_warmup
from asr.training.refusals import refuse_unknown

_PATHS = ("manifest", "cache", "output", "start_from")  # settings that name files


def load_config(path: str | Path | None, overrides: list[str] | tuple[str, ...] = ()) -> TrainConfig:
    """The settings of a run.

    path: a YAML file; paths in it are relative to its own folder, and so are output (runs/ and the name of the file)
    and data.cache where it leaves them out. overrides: "optimiser.learning_rate=1e-3", values in YAML; paths in them
    are relative to the current folder.
    Raises ConfigError that names the setting, and the one that was meant perhaps.
    """
    values: dict[str, Any] = {}
    if path is not None:
        path = Path(path)
        values = read_settings(path)
        refuse_unknown(values, f"{path}: ")
        _default(values, "output", f"runs/{path.stem}")
        if isinstance(_default(values, "data", {}), dict):
            _default(values["data"], "cache", DataConfig.cache)
        _resolve(values, real_path(path).parent)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{override!r} is not key=value, such as steps=2000")
        _set(values, key.strip(), _parse(text, override), Path.cwd())
    return build(values)


def build(values: dict[str, Any]) -> TrainConfig:
    """A tree of settings out of nested dictionaries, on top of the preset. Raises ConfigError."""
    refuse_unknown(values)
    values = {key: value for key, value in values.items() if value is not None}  # a heading with nothing below it
    name, model = values.get("preset", TrainConfig.preset), values.get("model", {})
    if isinstance(name, str) and name in PRESETS and isinstance(model, dict):
        values["model"] = PRESETS[name].to_dict() | model
    steps, optimiser = values.get("steps", TrainConfig.steps), values.get("optimiser", {})
    if isinstance(steps, int) and isinstance(optimiser, dict):
        values["optimiser"] = {"warmup_steps": usual_warmup(steps)} | {
            k: v for k, v in optimiser.items() if v is not None
        }
    try:
        return _adapter().validate_python(values)
    except ValidationError as error:
        raise ConfigError(fault(error.errors()[0])) from None
    except CepstraError as error:
        raise ConfigError(str(error)) from None


@cache
def _adapter() -> TypeAdapter[TrainConfig]:
    return TypeAdapter(TrainConfig)


def _parse(text: str, override: str) -> object:
    try:
        value = parse_yaml(text)
    except (yaml.YAMLError, ValueError):
        shown = override if len(override) <= 80 else f"{override[:79]}…"
        raise ConfigError(f"{shown!r}: the value is not YAML that can be read") from None
    if isinstance(value, str):
        try:
            return float(value)  # YAML 1.1 takes 1e-3 for a string
        except ValueError:
            return value
    return value


def _set(values: dict[str, Any], key: str, value: object, folder: Path) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        if values.get(parent) is None:
            values[parent] = {}
        values = values[parent]
        if not isinstance(values, dict):
            raise ConfigError(f"setting {key}: {parent} holds no settings of its own")
    new = {last: value}
    _resolve(new, folder)
    values |= new


def _resolve(values: object, folder: Path) -> None:
    """Make the paths in values absolute, in place."""
    if isinstance(values, list):
        for value in values:
            _resolve(value, folder)
    elif isinstance(values, dict):
        for key, value in values.items():
            if key in _PATHS and isinstance(value, str):
                values[key] = _absolute(key, value, folder)
            else:
                _resolve(value, folder)


def _absolute(key: str, value: str, folder: Path) -> str:
    if not value.strip() or not value.isprintable():
        raise ConfigError(f"setting {key}: {value!r} is no path; name a file or folder")
    try:
        return str(real_path(folder / Path(value).expanduser()))
    except RuntimeError:  # ~ and the name of nobody here
        raise ConfigError(f"setting {key}: {value}: there is no such user; write the whole path") from None


def _default(values: dict[str, Any], key: str, value: object) -> object:
    """What is said of a key; `value`, put there, where nothing is."""
    if values.get(key) is None:
        values[key] = value
    return values[key]
