"""The folder that a run writes: what was asked for, a part for each block that is done, and all of them joined."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asr.asked import check_asked, read_asked
from asr.batch.documents import has_failed
from asr.errors import CepstraError, ConfigError
from asr.files import atomic, make_folder, write_atomically
from asr.lock import held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from asr.batch.blocks import Block

FORMAT = 1


@dataclass(frozen=True)
class Folder:
    """Names of what a run writes, and what of it is there."""

    path: Path

    @property
    def settings(self) -> Path:
        """What was asked for."""
        return self.path / "transcription.json"

    @property
    def parts(self) -> Path:
        """A file for each block that is done."""
        return self.path / "parts"

    @property
    def results(self) -> Path:
        """All rows, in the manifest's order."""
        return self.path / "results.jsonl"

    def part(self, block: Block) -> Path:
        """A block's."""
        return self.parts / f"{block.number:06d}-{block.digest[:12]}.jsonl"

    def held(self, say: Callable[[str], None]) -> AbstractContextManager[None]:
        """Keep other runs out. Raises CepstraError where one is in it, or where it can't be written."""
        return held(self.path, "transcription", CepstraError, say)

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Write down what is asked for, if it isn't what is there.

        Raises ConfigError where the folder holds a run with other settings, or files of the same names that no run has
        written, CepstraError where it can't be written.
        """
        settings = json.loads(json.dumps({"format": FORMAT, **asked}))  # as it is read
        old = read_asked(self.settings)
        if old is None:
            foreign = [path.name for path in (self.parts, self.results) if path.exists()]
            if foreign:
                raise ConfigError(f"{self.path}: holds {foreign[0]}, not written by a run; choose another folder")
            write_atomically(self.settings, json.dumps(settings, ensure_ascii=False, indent=1) + "\n")
        else:
            check_asked(self.path, old, settings, "choose another folder, or remove it to begin anew")
        make_folder(self.parts)
        for folder in (self.path, self.parts):
            for part in folder.glob(".*.part"):  # of a run that was killed
                part.unlink(missing_ok=True)

    def left(self, block: Block) -> list[int]:
        """Rows of a block, from 0, that no run has done: all, or those that failed, which may do better now."""
        lines = self._lines(block)
        return list(range(block.rows)) if lines is None else [i for i, line in enumerate(lines) if has_failed(line)]

    def write(self, block: Block, lines: Mapping[int, str]) -> None:
        """A block's part. lines: of all rows that were `left`. Raises CepstraError where the disk is full."""
        old = self._lines(block) or [b""] * block.rows
        new = [lines[i].encode() if i in lines else line for i, line in enumerate(old)]
        write_atomically(self.part(block), b"".join(new))

    def join(self, blocks: Sequence[Block]) -> Iterator[bytes]:
        """Write the results of all blocks, and give the lines of rows that failed. Raises CepstraError."""
        with atomic(self.results) as file:
            for block in blocks:
                try:
                    with self.part(block).open("rb") as part:
                        shutil.copyfileobj(part, file)
                except FileNotFoundError as error:
                    raise CepstraError(f"{error.filename}: was taken away; run the same command again") from None
        for block in blocks:
            for line in self._lines(block) or []:
                if has_failed(line):
                    yield line

    def _lines(self, block: Block) -> list[bytes] | None:
        """Those of a block's part; None where it isn't whole: after a power cut a file may be empty, or half of it."""
        try:
            data = self.part(block).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CepstraError(f"{self.part(block)}: can't be read ({error.strerror}); check the permissions") from None
        lines = data.splitlines(keepends=True)
        return lines if len(lines) == block.rows and data.endswith(b"\n") else None
