"""What is wrong between rows: the same sound or person on two sides of a split, and rows that are there twice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.manifest.check_text import Finding
from asr.manifest.split import canonical_split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from asr.manifest.records import Utterance

OVERLAP = 0.1  # seconds that two stretches of a file may share


@dataclass
class Row:
    """An utterance, where it stands, and what is known of its sound and words."""

    manifest: Path
    utterance: Utterance
    split: str
    words: str  # normalised
    digest: bytes | None = None

    def __str__(self) -> str:
        return f"{self.manifest}, line {self.utterance.line}"


def split_of(utterance: Utterance, manifest: Path) -> str:
    """The split that a row belongs to: what it says, else what the file's name says, else the file itself."""
    if utterance.split:
        return canonical_split(utterance.split) or utterance.split
    return canonical_split(manifest.stem) or manifest.name


def check_overlap(rows: Sequence[Row]) -> Iterator[tuple[Row, Finding]]:
    """Faults between rows, each at the later one."""
    leaking: set[int] = set()
    for row, finding in _same_sound(rows):
        leaking.add(id(row))
        yield row, finding
    for row, finding in _overlapping(rows):
        if id(row) not in leaking:
            yield row, finding
    yield from _same_speaker(rows)


def _same_sound(rows: Iterable[Row]) -> Iterator[tuple[Row, Finding]]:
    first: dict[object, dict[str, Row]] = defaultdict(dict)  # identity of a sound: split: its first row there
    for row in rows:
        utterance = row.utterance
        stretch = (utterance.audio_filepath, utterance.offset, utterance.duration)
        identities: list[object] = [stretch] if row.digest is None else [stretch, row.digest]
        seen = {split: other for identity in identities for split, other in first[identity].items()}
        elsewhere = next((other for split, other in seen.items() if split != row.split), None)
        here = seen.get(row.split)
        if elsewhere is not None:
            problem = f"the same sound is in {elsewhere.split!r} ({elsewhere}) and in {row.split!r}"
            yield row, Finding("audio_filepath", "same-audio", problem, "keep one of them")
        elif here is not None and here.words != row.words:
            problem = f"the same sound has other words in {here}"
            yield row, Finding("text", "conflicting-text", problem, "listen, and keep the right row")
        elif here is not None:
            problem = f"the same sound and words as {here}"
            yield row, Finding("audio_filepath", "duplicate-row", problem, "keep one of them", "warning")
        for identity in identities:
            first[identity].setdefault(row.split, row)


def _overlapping(rows: Iterable[Row]) -> Iterator[tuple[Row, Finding]]:
    """Stretches of one file that overlap and are in different splits."""
    by_file: dict[Path, list[Row]] = defaultdict(list)
    for row in rows:
        by_file[row.utterance.audio_filepath].append(row)
    for file, group in by_file.items():
        reach: dict[str, tuple[float, Row]] = {}  # split: where its rows so far end, and the row that does
        for row in sorted(group, key=lambda row: row.utterance.offset):
            start, end = row.utterance.offset, row.utterance.offset + row.utterance.duration
            for split, (other_end, other) in reach.items():
                if split != row.split and other_end > start + OVERLAP:
                    problem = f"overlaps {file.name} in {split!r} ({other})"
                    yield row, Finding("offset", "same-audio", problem, "keep each stretch of a file in one split")
                    break
            if end > reach.get(row.split, (0.0, row))[0]:
                reach[row.split] = end, row


def _same_speaker(rows: Iterable[Row]) -> Iterator[tuple[Row, Finding]]:
    groups: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.utterance.speaker is not None:
            groups[row.utterance.speaker][row.split].append(row)
    remedy = "divide by speaker (`cepstra manifest split`), or --ignore same-speaker where there is but one"
    for speaker, splits in groups.items():
        (first, known), *others = splits.items()
        for split, found in others:
            problem = (
                f"{speaker!r} is in {first!r} ({len(known)} rows, first {known[0]}) and in {split!r} ({len(found)})"
            )
            yield found[0], Finding("speaker", "same-speaker", problem, remedy)
