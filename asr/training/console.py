"""Where the training speaks: on standard error, and with one voice however many processes train."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from rich.console import Console


@cache
def console() -> Console:
    """Silent in all processes but the first."""
    return Console(stderr=True, quiet=rank() != 0, highlight=False)


def say(text: str) -> None:
    """One line, whatever the width of the terminal and whatever is in it."""
    console().print(text, markup=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """In hours, or in minutes where that is less than one."""
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.2f} h"


def near(path: Path) -> str:
    """A path as somebody in the current folder would type it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def rank() -> int:
    """Number of this process among those that train on this machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))
