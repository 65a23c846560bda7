"""Where commands may write: what the user named is replaced without asking, but never what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asr.errors import CepstraError
from asr.files import check_writable, real_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def check_outputs(outputs: Iterable[tuple[str, Path | None]], inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise CepstraError that names the option, before any work, for a file that can't or mustn't be written.

    outputs: options and their values, None where one isn't given. inputs: whatever the command reads.
    What is there is replaced, except a recording, an input, and another output of the same command.
    """
    kept = [path for path in inputs if path is not None]
    taken: dict[Path, str] = {}
    for option, path in outputs:
        if path is None:
            continue
        try:
            check_writable(path, inputs=kept)
        except CepstraError as error:
            raise CepstraError(f"{option} {error}") from None
        if path.is_file() or not path.exists():  # two may share /dev/null
            other = taken.setdefault(real_path(path), option)
            if other is not option:
                raise CepstraError(f"{option} {path}: {other} goes to the same file; write to another one")
