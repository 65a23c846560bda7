"""What a caller of the library gave: checked, and shown in messages."""

from __future__ import annotations

import math
import reprlib
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from asr.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SHOWN: Final = 60  # characters of a value


def whole_number(name: str, value: object, least: int, most: float = math.inf, otherwise: str = "") -> int:
    """The value as an int. otherwise: what else would do, for the message. Raises ConfigError."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        bounds = f"from {least} to {most}" if most < math.inf else f"of at least {least}"
        raise ConfigError(f"{name}={brief(value)} must be a whole number {bounds}{otherwise}")
    return int(value)


def number(name: str, value: object, least: float, most: float, otherwise: str = "") -> float:
    """The value as a float. otherwise: what else would do, for the message. Raises ConfigError."""
    found = number_in(value)
    if found is None or not least <= found <= most:
        raise ConfigError(f"{name}={brief(value)} must be a number from {least:g} to {most:g}{otherwise}")
    return found


def seconds(name: str, value: object) -> float:
    """A length of time above 0, as a float; infinite means no limit. Raises ConfigError."""
    found = number_in(value)
    if found is None or not found > 0:
        raise ConfigError(f"{name}={brief(value)} must be a number of seconds above 0")
    return found


def switch(name: str, value: object) -> bool:
    """True or False, and nothing that only counts as one of them. Raises ConfigError."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name}={brief(value)} must be True or False")
    return value


def instance(name: str, value: Any, kind: type, remedy: str) -> Any:  # noqa: ANN401  of that kind
    """The value, which is of that class or None. Raises ConfigError."""
    if value is not None and not isinstance(value, kind):
        raise ConfigError(f"{name}={brief(value)}: {remedy}")
    return value


def having(name: str, value: object, methods: Iterable[str]) -> None:
    """Raise ConfigError where it is neither None nor an object with these methods."""
    lacking = [method for method in methods if not callable(getattr(value, method, None))]
    if value is not None and lacking:
        raise ConfigError(f"{name}={brief(value)} has no method {lacking[0]}; give an object that has it, or None")


def names(name: str, value: Mapping[Any, object]) -> None:
    """Raise ConfigError where a key is no text."""
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(f"{name}={brief(value)}: give each a name that is text, not {brief(key)}")


def path(name: str, value: object, remedy: str) -> str | PathLike[str]:
    """The value, which names a file. Raises ConfigError."""
    if not isinstance(value, str | PathLike):
        raise ConfigError(f"{name}={brief(value)}: {remedy}")
    return value


def number_in(value: object) -> float | None:
    """What a caller gave for a number; None if it is none, infinite if it is beyond all floats."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def brief(value: object) -> str:
    """A value as messages show it, on a line and cut where it is long."""
    try:
        return cut(" ".join(repr(value).split()))
    except (ValueError, RecursionError):  # of an int of thousands of digits, and of lists in lists in lists
        return cut(reprlib.repr(type(value)))


def cut(text: str) -> str:
    """As much of a text as messages show."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
