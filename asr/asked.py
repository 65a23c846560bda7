"""What a run into a folder was asked for, remembered there: it goes on only with the same."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from asr.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_asked(path: Path) -> dict[str, Any] | None:
    """What an earlier run wrote; None where none has been there. Raises ConfigError for what no run has written."""
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        old = None
    if not isinstance(old, dict) or "format" not in old:
        raise ConfigError(f"{path}: not written by a run, and would be replaced; choose another folder")
    return old


def check_asked(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any], remedy: str) -> None:
    """Raise ConfigError that names what is asked for otherwise. new: as JSON gives it back."""
    if old != new:
        changed = ", ".join(key for key in new if old.get(key) != new[key]) or "format"
        raise ConfigError(f"{folder}: holds a run with other settings ({changed}); {remedy}")


def digest_of(path: Path) -> str:
    """Of a file that is asked for: its name may stay while it changes. Raises ConfigError where it can't be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror}); check the path") from None
