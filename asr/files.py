"""Files by their names; and written whole or not at all, under a temporary name that is then made the target's."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from asr.errors import CepstraError
from audio.identify import is_other_sound, is_wave

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

YAML_NAMES = (".yaml", ".yml", ".json")  # how names of phrase files end, whatever they hold
JSGF_NAMES = (".jsgf", ".gram")


def real_path(path: str | Path) -> Path:
    """Absolute, links followed; links that lead in a circle stay as they are, and are an error once they are opened."""
    return Path(os.path.realpath(path))  # Path.resolve raises a RuntimeError there


@contextmanager
def atomic(path: Path, error: type[CepstraError] = CepstraError) -> Iterator[BinaryIO]:
    """A file open for bytes that appears as `path` when the block ends well; what was there before is replaced.

    Links are followed; what isn't a regular file (a pipe, /dev/stdout) is written straight. Whatever goes wrong in the
    block leaves the old file as it was. Raises `error` where `path` can't be written.
    """
    try:
        if path.exists() and not path.is_file():  # a rename would put a file in the place of /dev/null
            with path.open("wb") as file:
                yield file
            return
        target = real_path(path)
        part = target.with_name(f".{target.name[:40]}.{os.urandom(4).hex()}.part")
        try:
            with part.open("xb") as file:
                yield file
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except BrokenPipeError:  # whoever read the pipe has had enough: nobody's fault
        raise
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise error(f"{path}: can't be written ({reason}); check folder, permissions and space") from fault


def write_atomically(path: Path, content: str | bytes, error: type[CepstraError] = CepstraError) -> None:
    """Write bytes, or text as UTF-8 with the line ends that it has, as `atomic` does."""
    data = content.encode() if isinstance(content, str) else content
    with atomic(path, error) as file:
        file.write(data)


def check_writable(path: Path, *, inputs: Iterable[str | Path] = (), error: type[CepstraError] = CepstraError) -> None:
    """Raise `error` when path plainly can't or mustn't be written: asked before long work whose answer goes there.

    What is there already is replaced, as compilers do, unless it is one of the command's own inputs, or a recording.
    """
    folder = path.parent
    if path.is_dir():
        raise error(f"{path}: is a folder; name a file")
    if not folder.is_dir():
        raise error(f"{path}: there is no folder {folder}; create it first")
    regular = path.is_file() or not path.exists()  # such a one is renamed into its folder
    needed = [*([path] if path.exists() else []), *([real_path(path).parent] if regular else [])]
    if not all(os.access(place, os.W_OK) for place in needed):
        raise error(f"{path}: can't be written; check the permissions or choose another place")
    if path.is_file():
        if any(Path(other).exists() and path.samefile(other) for other in inputs):
            raise error(f"{path}: is read by this command, and would be replaced; write to another file")
        if _is_sound(path):
            raise error(f"{path}: is a recording, and would be replaced; write to another file")


def make_folder(path: Path, error: type[CepstraError] = CepstraError) -> None:
    """Make a folder to write into, and those above it, where they aren't there. Raises `error` where that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        reason = "there is a file of that name" if isinstance(fault, FileExistsError) else fault.strerror
        raise error(f"{path}: can't be made a folder ({reason}); choose another place") from fault
    if not os.access(path, os.W_OK):
        raise error(f"{path}: can't be written; check the permissions or choose another place")


def _is_sound(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError:  # it may be written, not read: nothing tells what it is
        return False
    return is_wave(head) or is_other_sound(head)
