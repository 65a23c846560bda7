"""Files of several parts: a zip, stored uncompressed, that any zip program opens. Reading one executes nothing."""

from __future__ import annotations

import io
import struct
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from asr.errors import CepstraError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same parts make the same file, to the byte


@dataclass(frozen=True)
class ArchiveKind:
    """What a file of parts is to its readers: how errors call it, and what they advise."""

    name: str  # "a bundle"
    example: str  # a file's name
    remedy: str  # for one that is damaged
    error: type[CepstraError]

    def write(self, path: Path, parts: Mapping[str, bytes]) -> None:
        """Write it, whole or not at all. Raises `error`."""
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
            for name, data in parts.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
        write_atomically(path, whole.getvalue(), self.error)

    def read(self, path: Path, names: Iterable[str], max_bytes: int) -> dict[str, bytes]:
        """These parts of it, if the whole has at most max_bytes. Raises `error`."""
        try:
            size = path.stat().st_size
            if not path.is_file():
                raise self.error(f"{path}: not a file; {self._advice}, such as {self.example}")
            if size > max_bytes:
                raise self.error(f"{path}: {size} bytes is more than {self.name} may have ({max_bytes})")
            file = path.open("rb")
        except FileNotFoundError:
            raise self.error(f"{path}: no such file; {self._advice}, such as {self.example}") from None
        except OSError as error:
            raise self.error(f"{path}: can't be read ({error.strerror}); {self._advice}") from None
        except ValueError as error:  # a path with a null character
            raise self.error(f"{path}: can't be read ({error}); {self._advice}") from None
        try:
            with file, zipfile.ZipFile(file) as archive:
                return {name: self._read_part(path, archive, name, size) for name in names}
        except (zipfile.BadZipFile, struct.error, NotImplementedError, EOFError, ValueError, OSError) as error:
            raise self.error(f"{path}: not {self.name}, or damaged ({error}); {self.remedy}") from None

    @property
    def _advice(self) -> str:
        return f"give the path of {self.name}"

    def _read_part(self, path: Path, archive: zipfile.ZipFile, name: str, size: int) -> bytes:
        try:
            info = archive.getinfo(name)
        except KeyError:
            raise self.error(
                f"{path}: holds no {name}; it is not {self.name}, or one of its parts is missing"
            ) from None
        # Uncompressed only: what is read is never more than what is there
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > size or info.flag_bits & 1:
            raise self.error(f"{path}: {name} is compressed, encrypted or longer than the file; {self.remedy}")
        return archive.read(name)
