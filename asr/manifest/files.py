"""Writing files whole or not at all: under a temporary name beside the target, then renamed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asr.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raises ManifestError if `path` is there and may not be overwritten."""
    if path.exists() and not force:
        raise ManifestError(f"{path}: already exists: choose another name, or --force to overwrite it")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary name in `path`'s folder (made where missing); it becomes `path` if nothing goes wrong in the block.

    Raises ManifestError where that can't be written.
    """
    # the suffix stays, since matplotlib takes the format from it
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        if path.exists() and not path.is_file():  # a rename would put a file in the place of /dev/null
            raise ManifestError(f"{path}: is not an ordinary file: name a file to write")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ManifestError(f"{path}: can't be written: {error.strerror or error}") from error


@contextmanager
def atomic_text(path: Path) -> Iterator[TextIO]:
    """A file open for UTF-8 text that appears as `path` only when the block ends well. Raises ManifestError."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
