"""Settings written by people: YAML files, and what is wrong with a value in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from asr.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_BYTES = 1 << 20
_SHOWN = 60  # signs of a value

# What pydantic calls a fault, by how its name begins
_FAULTS = {
    "int": "is not a whole number",
    "float": "is not a number",
    "finite_number": "is not a finite number",
    "bool": "is neither true nor false",
    "string": "is not text; put it in quotes",
    "tuple": "is not a list; write it in brackets, as in [a, b]",
    "dataclass": "is no settings with names; write key: value",
}


def fault(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors, plainly: "setting steps: 'many' is not a whole number"."""
    where = ".".join(str(part) for part in error["loc"])
    kind, context, value = str(error["type"]), error.get("ctx", {}), error["input"]
    shown = "nothing" if value is None else repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
    if kind == "missing":
        return f"setting {where}: is missing; state it"
    if kind == "literal_error":
        return f"setting {where}: {shown} is none of {context['expected'].replace(' or ', ', ')}"
    if kind in ("too_long", "too_short"):
        least = context.get("min_length", context.get("max_length"))
        return f"setting {where}: {shown} has {context['actual_length']} values and not {least}"
    plain = next((words for name, words in _FAULTS.items() if kind.startswith(name)), None)
    return f"setting {where}: {shown} {plain}" if plain else f"setting {where}: {shown}: {error['msg']}"


def read_settings(path: Path) -> dict[str, Any]:
    """A file's settings by name. Raises ConfigError."""
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: not a file; give the path of a YAML file")
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: more than {MAX_BYTES >> 20} MB; no settings are as long")
        values = parse_yaml(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror}); give the path of a YAML file") from None
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise ConfigError(f"{path}: not YAML: {reason}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: holds no settings; write one 'key: value' per line")
    return values


class _Plain(yaml.SafeLoader):
    """YAML without aliases: nine levels of nine make a billion out of a few hundred bytes, and a circle no end."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse an alias; else as ever."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="an alias (*), which isn't read here; write out what it stands for",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)

    def bounded_int(self, node: yaml.ScalarNode) -> int:
        """No setting is beyond 64 bits, and Python doesn't print what is far beyond."""
        value: int = self.construct_yaml_int(node)
        if abs(value) >= 2**63:
            raise ValueError("a number of more than 18 digits")
        return value


_Plain.add_constructor("tag:yaml.org,2002:int", _Plain.bounded_int)


def parse_yaml(text: str) -> object:
    """Raises YAMLError or ValueError."""
    try:
        return yaml.load(text, _Plain)  # noqa: S506  a SafeLoader
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (LookupError, AttributeError, TypeError) as error:  # what PyYAML makes of a tag whose text isn't of its kind
        raise ValueError(f"a tag (!!) that its text doesn't fit ({error})") from None
