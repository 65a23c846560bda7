"""A manifest cut into blocks of rows: the same blocks whenever the same file is cut."""

from __future__ import annotations

import codecs
import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from asr.errors import ManifestError
from asr.manifest.faults import Fault, FaultyManifestError
from asr.manifest.json_lines import MAX_LINE
from asr.manifest.records import MAX_FAULTS, scan_manifest, scan_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asr.manifest import Utterance

ROWS: Final = 200  # at most, of a block
SECONDS: Final = 600.0  # of sound in a block of several rows: a few seconds' work, which is what a lost worker costs


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a manifest."""

    number: int  # from 0
    first: int  # number of its first row, from 0
    rows: int
    line: int  # where it begins in the file, from 1
    start: int  # the same in bytes
    end: int  # byte after the last one
    digest: str  # of these bytes


class _Growing:
    """Rows that are to become a block."""

    def __init__(self, line: int, start: int) -> None:
        self.line, self.start = line, start
        self.rows, self.seconds = 0, 0.0
        self.data = bytearray()

    def takes(self, row: Utterance, rows: int, seconds: float) -> bool:
        """Whether there is room."""
        return self.rows < rows and self.seconds + row.duration <= seconds

    def add(self, row: Utterance, data: bytes) -> None:
        """data: the row's line, and blank ones before it."""
        self.data += data
        self.rows += 1
        self.seconds += row.duration

    def block(self, number: int, first: int) -> Block:
        """What has grown."""
        end = self.start + len(self.data)
        return Block(number, first, self.rows, self.line, self.start, end, hashlib.sha256(self.data).hexdigest())


def cut(path: Path, *, rows: int = ROWS, seconds: float = SECONDS) -> list[Block]:
    """The blocks of a manifest, in order; each has so many rows, and seconds of sound, at most, or a single row.

    Every row is checked, as `read_manifest` does. Raises ManifestError, also where the file isn't JSON lines.
    """
    _check_lines(path)
    done: list[Block] = []
    faults: list[Fault] = []
    growing: _Growing | None = None
    number = 0
    lines = _lines(path)
    for row in scan_manifest(path):
        if isinstance(row, Fault):
            faults.append(row)
            if len(faults) >= MAX_FAULTS:
                break
            continue
        passed = b""
        while number < row.line:
            number, start, raw = next(lines)
            passed += raw
        if growing is not None and not growing.takes(row, rows, seconds):
            done.append(growing.block(len(done), _rows(done)))
            growing = None
        if growing is None:
            growing, passed = _Growing(number, start), raw
        growing.add(row, passed)
    if faults:
        raise FaultyManifestError(faults)
    return [*done, growing.block(len(done), _rows(done))] if growing is not None else done


def _rows(blocks: list[Block]) -> int:
    return blocks[-1].first + blocks[-1].rows if blocks else 0


def read_block(path: Path, block: Block) -> bytes:
    """Its lines. Raises ManifestError where the file can't be read, or isn't what it was when it was cut."""
    try:
        with path.open("rb") as file:
            file.seek(block.start)
            data = file.read(block.end - block.start)
    except OSError as error:
        raise ManifestError(f"{path}: can't be read: {error.strerror or error}") from None
    if hashlib.sha256(data).hexdigest() != block.digest:
        raise ManifestError(f"{path}: has changed since this run began: begin anew, in another folder")
    return data


def rows_of(data: bytes, path: Path, line: int) -> list[Utterance]:
    """What the lines of a block say; line: the number of the first one. Raises ManifestError."""
    rows: list[Utterance] = []
    for row in scan_rows(io.BytesIO(data), path, line):
        if isinstance(row, Fault):  # a duration that was measured when the manifest was cut, and can't be any longer
            raise FaultyManifestError([row])
        rows.append(row)
    return rows


def _lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Number, position and bytes of each line that holds a row."""
    with path.open("rb") as file:
        position = 0
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), start=1):
            bare = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, position + len(raw) - len(bare), bare
            position += len(raw)


def _check_lines(path: Path) -> None:
    """Raise ManifestError for what `scan_manifest` reads and no block can be cut out of."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ManifestError(f"{path}: is no regular file, and is to be read several times: write it into one")
    if path.is_file():
        try:
            with path.open("rb") as file:
                head = file.read(4096)
        except OSError:  # which reading it will say
            return
        if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
            raise ManifestError(f"{path}: is one JSON array: write a row per line (jq -c '.[]' does)")
