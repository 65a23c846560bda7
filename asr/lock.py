"""One process at a time in a folder: a lock that the system takes back when the process ends, however it ends."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from asr.errors import CepstraError

if sys.platform == "win32":
    import msvcrt

    def _lock(file: BinaryIO) -> None:
        file.seek(2**30)  # elsewhere than what is written: there nobody else may read what is locked
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: BinaryIO) -> None:
        # Not flock: that one would outlive a killed process in its data loaders
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(folder: Path, what: str, error: type[CepstraError], say: Callable[[str], None]) -> Iterator[None]:
    """Hold the folder, which is made for it; what was made goes again where nothing else has been put into it.

    what: is writing into it, such as "training". Raises `error` where another process holds it, OSError where the
    folder can't be written. Where the file system knows no locks that is said, and nothing held.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    try:
        file = _open(path, what, error, say)
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file; an old one does no harm
                path.unlink()
            file.close()
    finally:
        for each in made:
            with suppress(OSError):  # not empty: a run has begun in it
                each.rmdir()


@contextmanager
def held(folder: Path, what: str, error: type[CepstraError], say: Callable[[str], None]) -> Iterator[None]:
    """As `locked`, but raises `error` also where the folder can't be written."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder, what, error, say))
        except OSError as fault:
            raise error(f"{folder}: can't be written ({fault.strerror}); choose another folder") from None
        yield


def _open(path: Path, what: str, error: type[CepstraError], say: Callable[[str], None]) -> BinaryIO:
    """The locked file. Raises `error` where it is somebody else's."""
    while True:
        file = path.open("a+b")
        try:
            _lock(file)
        except OSError as fault:
            if fault.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                say(f"{path.parent}: can't be locked ({fault.strerror}); see that no second {what} writes into it")
                return file
            file.seek(0)
            holder = file.read(20).decode("ascii", "replace").strip()
            file.close()
            raise error(
                f"{path.parent}: another {what} is writing into it{f' (process {holder})' if holder else ''}; wait "
                "for its end, stop it, or choose another output"
            ) from None
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.truncate(0)
                file.write(f"{os.getpid()}\n".encode())
                file.flush()
                return file
        file.close()  # whoever held it has removed it meanwhile: it would keep nobody out
