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
        if isinstance(value, bool) and get_type_hints(kind)[key] in (int, float):  # which Python takes for 0 or 1
            what = "whole number" if get_type_hints(kind)[key] is int else "number"
            raise ConfigError(f"{where}setting {prefix}{key}: {str(value).lower()} is not a {what}")
        inner = _inner(kind, key)
        for item in value if isinstance(value, list) else [value]:
            if inner and isinstance(item, dict):
                refuse_unknown(item, where, inner, f"{prefix}{key}.")


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
        inner = _inner(kind, field.name)
        yield field.name, f"{prefix}{field.name}{end}"
        if inner and "tuple" in str(field.type):
            yield from _everywhere(inner, f"{prefix}{field.name}=[{{", ": …}]")
        elif inner:
            yield from _everywhere(inner, f"{prefix}{field.name}.")


def _inner(kind: type, name: str) -> type | None:
    """The dataclass that a setting holds, or a list of which."""
    hint = get_type_hints(kind)[name]
    return next((t for t in (hint, *get_args(hint)) if isinstance(t, type) and is_dataclass(t)), None)
