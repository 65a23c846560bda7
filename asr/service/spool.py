"""The folder for what is received and for copies of the bundle: gone with the service, or with the next one's start."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows, where a folder can't be locked: what was killed leaves it there
    fcntl = None  # type: ignore[assignment]

PREFIX = "cepstra-serve-"
_NAME = re.compile(re.escape(PREFIX) + "[a-z0-9_]{8}")
_FILE = re.compile(r"bundle-\d+\.cepstra|[0-9a-f]{32}\.upload|\..*\.part")
YOUNG_SECONDS = 60  # a folder may not be locked yet for a moment


@contextmanager
def spool() -> Iterator[Path]:
    """A folder of one's own among the temporary ones, after those that killed services have left were taken away.

    Raises OSError where none can be made.
    """
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        held = _lock(Path(folder))
        try:
            yield Path(folder)
        finally:
            if held is not None:
                os.close(held)


def _sweep(place: Path) -> None:
    """Take away the folders of services that are no more: the system drops a process's locks when it ends."""
    for folder in filter(_is_ours, place.glob(f"{PREFIX}*")):
        with suppress(OSError):  # it went in between, or can't be looked at
            status = folder.lstat()
            ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
            if folder.is_symlink() or not folder.is_dir() or not ours or time.time() - status.st_mtime < YOUNG_SECONDS:
                continue
            held = _lock(folder)
            if held is not None:
                try:
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(held)


def _is_ours(folder: Path) -> bool:
    """Whether a folder has a name that tempfile gives, and holds nothing but what a service puts there."""
    with suppress(OSError):
        return _NAME.fullmatch(folder.name) is not None and all(_FILE.fullmatch(file.name) for file in folder.iterdir())
    return False


def _lock(folder: Path) -> int | None:
    """Hold a folder, until what is returned is closed; None where somebody else does, or where there are no locks."""
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Not lockf: a process may have several services, whose folders it would take for its own
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
