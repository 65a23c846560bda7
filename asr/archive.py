"""Files of several parts: a zip, stored uncompressed, that any zip program opens. Reading one executes nothing."""

from __future__ import annotations

import errno
import io
import os
import struct
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from asr.errors import CepstraError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same parts make the same file, to the byte
_END = struct.Struct("<4sHHHHIIH")  # PKWARE's APPNOTE, 4.3.16
_LONGEST_COMMENT = 1 << 16
_MOST_LISTED = 1 << 16  # bytes of the directory: a thousand parts, where we write four


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
        with file:
            fault = _fault(file, size)
            if fault:
                raise self.error(f"{path}: not {self.name}, or damaged ({fault}); {self.remedy}")
            try:
                with zipfile.ZipFile(file) as archive:
                    return self._read_parts(path, archive, list(names), size)
            except (zipfile.BadZipFile, struct.error, NotImplementedError, EOFError, ValueError, OSError) as error:
                # What zipfile says is about fields of the format, which help nobody; a broken disk says it clearly
                broken = isinstance(error, OSError) and error.errno == errno.EIO
                fault = os.strerror(errno.EIO) if broken else "its parts can't be found, or have changed"
                raise self.error(f"{path}: not {self.name}, or damaged ({fault}); {self.remedy}") from None

    @property
    def _advice(self) -> str:
        return f"give the path of {self.name}"

    def _read_parts(self, path: Path, archive: zipfile.ZipFile, names: list[str], size: int) -> dict[str, bytes]:
        listed = archive.namelist()
        infos = []
        for name in names:
            if name not in listed:
                raise self.error(f"{path}: holds no {name}; it is not {self.name}, or one of its parts is missing")
            if listed.count(name) > 1:  # programs differ in which of them they take
                raise self.error(f"{path}: holds {name} more than once; {self.remedy}")
            info = archive.getinfo(name)
            # Uncompressed only: what is read is never more than what is there
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > size or info.flag_bits & 1:
                raise self.error(f"{path}: {name} is compressed, encrypted or longer than the file; {self.remedy}")
            infos.append(info)
        if sum(info.file_size for info in infos) > size:
            raise self.error(f"{path}: its parts overlap; {self.remedy}")
        return {info.filename: archive.read(info) for info in infos}


def _fault(file: BinaryIO, size: int) -> str:
    """Why a file can't be opened as a zip of few parts, or "".

    zipfile would read a directory of any length into objects of ten times its size.
    """
    file.seek(max(0, size - _END.size - _LONGEST_COMMENT))
    tail = file.read()
    file.seek(0)
    place = tail.rfind(b"PK\5\6")
    if place < 0 or len(tail) < place + _END.size:
        return "it doesn't end as one does" if size else "it is empty"
    _, disk, _, _, _, listed, _, _ = _END.unpack_from(tail, place)
    if listed > _MOST_LISTED or disk or tail[max(0, place - 20) : place].startswith(b"PK\6\7"):
        return "it has too many parts"
    return ""
