"""Everything that is wrong with manifests, row by row and between rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.manifest.check_overlap import Row, check_overlap, split_of
from asr.manifest.check_settings import CheckSettings, SoundLimits
from asr.manifest.check_sound import RowSound, examine
from asr.manifest.check_text import Finding, check_text
from asr.manifest.faults import Fault
from asr.manifest.parallel import parallel
from asr.manifest.records import KEYS, Utterance, meant_key, scan_manifest
from asr.manifest.sound_warnings import recorded_warnings
from asr.text import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True)
class Report:
    """What `check_manifests` found: faults in the order of files and lines."""

    rows: int  # that are sound enough to be read
    files: int  # different sound files
    seconds: float  # of all rows
    faults: list[Fault]

    @property
    def errors(self) -> int:
        """Number of faults that are more than warnings."""
        return sum(fault.severity == "error" for fault in self.faults)

    def to_dict(self) -> dict[str, Any]:
        """As JSON would hold it."""
        values = asdict(self) | {"seconds": round(self.seconds, 3), "errors": self.errors}
        values["warnings"] = len(self.faults) - self.errors
        return values | {"faults": [fault.to_dict() for fault in self.faults]}


def check_manifests(
    paths: Sequence[str | Path],
    settings: CheckSettings | None = None,
    *,
    workers: int | None = None,
    start: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Checks manifests, one by one and against each other.

    workers: threads that decode sound; None: one per core. start: called with the number of sound files once it is
    known. progress: called with the number of files just done.
    Raises ManifestError where a manifest can't be read at all.
    """
    settings = settings or CheckSettings()
    faults: list[Fault] = []
    rows: list[Row] = []
    for path in dict.fromkeys(map(Path, paths)):
        rows += _read(path, settings, faults)
    files: dict[Path, list[Row]] = defaultdict(list)
    for row in rows:
        files[row.utterance.audio_filepath].append(row)
    for row in rows:
        found = check_text(row.utterance, row.words, settings.language, settings.max_characters_per_second)
        faults += (_placed(row, finding) for finding in found)
    if settings.audio:
        if start is not None:
            start(len(files))
        faults += _check_sounds(files, settings.sound, workers, progress)
    faults += (_placed(row, finding) for row, finding in check_overlap(rows))
    order = {path: number for number, path in enumerate(map(Path, paths))}
    faults = [fault for fault in faults if fault.code not in settings.ignore]
    faults.sort(key=lambda fault: (order[fault.manifest], fault.line))
    return Report(len(rows), len(files), sum(row.utterance.duration for row in rows), faults)


def _read(path: Path, settings: CheckSettings, faults: list[Fault]) -> list[Row]:
    rows: list[Row] = []
    suspects: dict[str, list[int]] = defaultdict(list)  # keys that look like ours under another name: lines
    before = len(faults)
    for row in scan_manifest(path):
        if isinstance(row, Fault):
            faults.append(row)
            continue
        words = normalise(row.text, settings.language)
        rows.append(Row(path, row, split_of(row, path), words))
        for key in row.extra:
            meant = meant_key(key)
            if meant in KEYS[3:] and _is_default(row, meant):
                suspects[key].append(row.line)
    for key, lines in suspects.items():
        problem = f"is not read ({len(lines)} rows)"
        remedy = f"rename it to {meant_key(key)!r} if that is what it is"
        faults.append(Fault(path, lines[0], key, "misnamed-key", problem, remedy, "warning"))
    if not rows and len(faults) == before:
        faults.append(Fault(path, 0, "", "no-rows", "has no rows", "add some, or take the file out"))
    return rows


def _is_default(utterance: Utterance, key: str) -> bool:
    return not getattr(utterance, key)


def _check_sounds(
    files: dict[Path, list[Row]], limits: SoundLimits, workers: int | None, progress: Callable[[int], None] | None
) -> Iterator[Fault]:
    def work(item: tuple[Path, list[Row]]) -> list[RowSound]:
        path, rows = item
        return examine(path, [row.utterance for row in rows], limits)

    with recorded_warnings():
        found = parallel(work, files.items(), workers=workers, progress=progress)
        for rows, sounds in zip(files.values(), found, strict=True):
            for row, sound in zip(rows, sounds, strict=True):
                row.digest = sound.digest
                for finding in sound.findings:
                    yield _placed(row, finding)


def _placed(row: Row, finding: Finding) -> Fault:
    key, code, problem, remedy, severity = finding
    return Fault(row.manifest, row.utterance.line, key, code, problem, remedy, severity)
