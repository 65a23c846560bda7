"""Where the training speaks: on standard error, and with one voice however many processes train."""

from __future__ import annotations

import os
from functools import cache

from rich.console import Console


@cache
def console() -> Console:
    """Silent in all processes but the first."""
    return Console(stderr=True, quiet=rank() != 0, highlight=False)


def say(text: str) -> None:
    """One line, whatever the width of the terminal and whatever is in it."""
    console().print(text, markup=False, soft_wrap=True)


def rank() -> int:
    """Number of this process among those that train on this machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))
