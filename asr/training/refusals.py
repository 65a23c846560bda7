"""What is wrong with settings, in the words of whoever wrote them."""

from __future__ import annotations

import difflib
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from asr.errors import ConfigError
from asr.training.config import TrainConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEAR = 0.6  # of difflib's ratio: below it names have nothing to do with each other


def refuse_unknown(values: dict[str, Any], where: str = "", kind: type = TrainConfig, prefix: str = "") -> None:
    """Walk the values beside the dataclasses: a misspelt key must not be silently without effect.

    Raises ConfigError that begins with `where`, and names the key that was meant perhaps.
    """
    known = [field.name for field in fields(kind)]
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"{where}unknown setting {prefix}{key}; {_hint(str(key), known, prefix)}")
        _refuse_switch(value, get_type_hints(kind)[key], f"{where}setting {prefix}{key}")
        inner = inner_settings(kind, key)
        for item in value if isinstance(value, list) else [value]:
            if inner and isinstance(item, dict):
                refuse_unknown(item, where, inner, f"{prefix}{key}.")


def _refuse_switch(value: object, wanted: Any, what: str) -> None:  # noqa: ANN401  a type, or tuple[int, ...]
    """Raise ConfigError for true or false, which Python takes for 1 or 0, where numbers are wanted."""
    numbers = [kind for kind in (wanted, *get_args(wanted)) if kind in (int, float)]
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, bool) and numbers:
            raise ConfigError(f"{what}: {str(item).lower()} is not a {'whole number' if int in numbers else 'number'}")


def _hint(key: str, known: list[str], prefix: str) -> str:
    """Where a setting of this name is, or the one whose name is nearest; else what there is."""
    everywhere = list(_everywhere())
    names = [name for name, _ in everywhere]
    (nearest,) = difflib.get_close_matches(key, names, n=1, cutoff=_NEAR) or [""]
    meant = [f"{prefix}{nearest}"] if nearest in known else [shown for name, shown in everywhere if name == nearest]
    if meant:
        return f"did you mean {' or '.join(filter(None, (', '.join(meant[:-1]), meant[-1])))}?"
    return f"there {'is' if len(known) == 1 else 'are'} {', '.join(prefix + name for name in known)}"


def _everywhere(kind: type = TrainConfig, prefix: str = "", end: str = "") -> Iterator[tuple[str, str]]:
    """Each setting's own name, and how it is written from the top: optimiser.betas, stages=[{steps: …}]."""
    for field in fields(kind):
        inner = inner_settings(kind, field.name)
        yield field.name, f"{prefix}{field.name}{end}"
        if inner and "tuple" in str(field.type):
            yield from _everywhere(inner, f"{prefix}{field.name}=[{{", ": …}]")
        elif inner:
            yield from _everywhere(inner, f"{prefix}{field.name}.")


def inner_settings(kind: type, name: str) -> type | None:
    """The dataclass that a setting holds, or a list of which."""
    hint = get_type_hints(kind)[name]
    return next((t for t in (hint, *get_args(hint)) if isinstance(t, type) and is_dataclass(t)), None)
