"""A manifest to results, in blocks that somebody else transcribes; what is done stays done, however a run ends."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from asr.batch.blocks import ROWS, SECONDS, cut, read_block, rows_of
from asr.batch.documents import failed
from asr.errors import CepstraError, ManifestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from asr.batch.blocks import Block
    from asr.batch.parts import Folder

SHOWN: Final = 20  # failures that are named
_DIED: Final = "takes its worker down every time, which is out of memory or crashes; transcribe it by itself to see why"


class LostError(CepstraError):
    """The workers are gone, and with them what they had begun."""


@dataclass(frozen=True)
class Unit:
    """What one worker is given at a time: some rows of a block, counted from 0."""

    block: Block
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """What a worker made of a unit: a line for each of its rows."""

    unit: int  # its number among those that were given
    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class Engine(Protocol):
    """Whoever transcribes."""

    def hear(self, units: Sequence[Unit]) -> Iterator[Answer]:
        """Answers in any order, each unit's once at most; none for a unit that took its workers down.

        Raises LostError where others may be heard in another try, CepstraError where they won't.
        """
        ...


@dataclass
class Done:
    """What a run has come to."""

    rows: int
    failures: int = 0
    reasons: list[str] = field(default_factory=list)  # of the first SHOWN


def transcribe(
    manifest: Path,
    folder: Folder,
    asked: Mapping[str, object],
    engine: Engine,
    *,
    progress: Callable[[int, int], None],
    say: Callable[[str], None],
    rows: int = ROWS,
    seconds: float = SECONDS,
) -> Done:
    """Transcribe every row that no earlier run with the same `asked` has done, and write folder.results.

    asked: whatever results depend on. progress: is told how many rows are done, of so many. rows, seconds: the most
    that a block holds. Raises ManifestError, ConfigError where the folder holds something else, CepstraError.
    """
    with folder.held(say):
        blocks = cut(manifest, rows=rows, seconds=seconds)
        if not blocks:
            raise ManifestError(f"{manifest}: holds no utterance; add rows")
        digest = hashlib.sha256("".join(block.digest for block in blocks).encode()).hexdigest()
        folder.begin({"manifest": digest, "block": {"rows": rows, "seconds": seconds}, **asked})
        total = blocks[-1].first + blocks[-1].rows
        left = {block: missing for block in blocks if (missing := folder.left(block))}
        done = total - sum(map(len, left.values()))
        progress(done, total)
        for block, lines in _answers(manifest, left, engine, say):
            folder.write(block, lines)
            done += len(lines)
            progress(done, total)
        result = Done(total)
        for line in folder.join(blocks):
            result.failures += 1
            if len(result.reasons) < SHOWN:
                result.reasons.append(json.loads(line)["error"])
        return result


def _answers(
    manifest: Path, left: Mapping[Block, list[int]], engine: Engine, say: Callable[[str], None]
) -> Iterator[tuple[Block, dict[int, str]]]:
    """Blocks in any order, with lines for all rows that were left of them."""
    suspects: list[Unit] = []
    for unit, lines in _heard([Unit(block, tuple(rows)) for block, rows in left.items()], engine, say, suspects):
        yield unit.block, dict(zip(unit.rows, lines, strict=True))
    # Row by row, so that what is at fault takes nothing with it
    alone = [Unit(unit.block, (row,)) for unit in suspects for row in unit.rows]
    found: dict[Block, dict[int, str]] = {unit.block: {} for unit in suspects}
    fatal: list[Unit] = []

    def complete(unit: Unit, line: str) -> bool:
        found[unit.block][unit.rows[0]] = line
        return len(found[unit.block]) == len(left[unit.block])

    for unit, (line,) in _heard(alone, engine, say, fatal):
        if complete(unit, line):
            yield unit.block, found.pop(unit.block)
    for unit in fatal:
        row = rows_of(read_block(manifest, unit.block), manifest, unit.block.line)[unit.rows[0]]
        if complete(unit, failed(row, f"{row.audio_filepath}: {_DIED}")):
            yield unit.block, found.pop(unit.block)


def _heard(
    units: list[Unit], engine: Engine, say: Callable[[str], None], unheard: list[Unit]
) -> Iterator[tuple[Unit, tuple[str, ...]]]:
    """Each unit with its lines, but for those that take their workers down, which are put into `unheard`."""
    while units:
        answered: set[int] = set()
        try:
            for answer in engine.hear(units):
                for warning in answer.warnings:
                    say(f"warning: {warning}")
                answered.add(answer.unit)
                yield units[answer.unit], answer.lines
        except LostError:
            if not answered:
                raise
            units = [unit for i, unit in enumerate(units) if i not in answered]
            continue
        unheard += [unit for i, unit in enumerate(units) if i not in answered]
        return
