"""Kaldi data directories: wav.scp, text, utt2spk, segments."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from asr.errors import ManifestError
from asr.files import real_path
from asr.manifest.faults import Fault
from asr.manifest.importers.base import Found, ImportOptions
from asr.manifest.split import canonical_split

if TYPE_CHECKING:
    from collections.abc import Iterator

_REMEDY = "write the sound to a file and name that"


def read_kaldi(path: Path, options: ImportOptions) -> Iterator[Found | Fault]:
    """Every utterance of `text`, where its recording and segment are known. Raises ManifestError.

    Relative paths in wav.scp are looked for from the data directory, then from the folders above it and the current
    one, since Kaldi's recipes name them from where they were run. Commands in wav.scp aren't run.
    """
    del options
    scp, words = path / "wav.scp", path / "text"
    recordings = {name: (line, rest) for line, name, rest in _table(scp)}
    segments = {name: (line, rest) for line, name, rest in _table(path / "segments", optional=True)}
    speakers = {name: rest.strip() for _, name, rest in _table(path / "utt2spk", optional=True)}
    if all(name == speaker for name, speaker in speakers.items()):
        speakers = {}  # Kaldi's way to say that nobody knows
    split, spoken = canonical_split(real_path(path).name), set()
    for line, name, text in _table(words):
        spoken.add(name)
        stretch = _stretch(path, name, segments) if segments else _Stretch(name)
        audio = _recording(path, stretch.recording, recordings) if isinstance(stretch, _Stretch) else None
        if isinstance(stretch, _Stretch) and isinstance(audio, Path):
            yield Found(
                audio=audio,
                text=text,
                origin=words,
                line=line,
                speaker=speakers.get(name),
                split=split,
                offset=stretch.offset,
                duration=stretch.duration,
            )
        else:
            yield next(fault for fault in (stretch, audio) if isinstance(fault, Fault))
    origin = path / "segments" if segments else scp
    for name, (line, _) in (segments or recordings).items():
        if name not in spoken:
            yield Fault(origin, line, name, "missing-text", "has no line in text", "add its words, or take it out")


class _Stretch(NamedTuple):
    """Part of a recording."""

    recording: str
    offset: float = 0.0  # seconds
    duration: float | None = None  # seconds; None: up to the end


def _stretch(path: Path, name: str, segments: dict[str, tuple[int, str]]) -> _Stretch | Fault:
    if name not in segments:
        return Fault(path / "segments", 0, name, "missing-segment", "has words but no segment", "add one")
    line, rest = segments[name]
    try:
        recording, start, end = rest.split()
        offset, reach = float(start), float(end)
    except ValueError:
        problem = f"{rest.strip()!r} is not a recording, a start and an end"
        return Fault(path / "segments", line, name, "bad-row", problem, "write seconds")
    if reach == -1:  # up to the end
        return _Stretch(recording, offset)
    if not 0 <= offset < reach < math.inf:
        return Fault(path / "segments", line, name, "bad-value", "ends before it starts", "mend the times")
    return _Stretch(recording, offset, reach - offset)


def _recording(path: Path, name: str, recordings: dict[str, tuple[int, str]]) -> Path | Fault:
    if name not in recordings:
        return Fault(path / "wav.scp", 0, name, "missing-recording", "has words but no sound", "add a line for it")
    line, where = recordings[name]
    where = where.strip()
    if where.startswith("|") or where.endswith("|"):
        problem = f"is the command {where!r}, and commands aren't run"
        return Fault(path / "wav.scp", line, name, "command", problem, _REMEDY)
    if re.search(r"\.ark:\d+$", where):
        return Fault(path / "wav.scp", line, name, "archive", f"{where} lies in an archive", _REMEDY)
    return _find(where, real_path(path))


def _find(name: str, folder: Path) -> Path:
    candidates = [base / name for base in (folder, *folder.parents[:3], Path.cwd())]
    return next((candidate for candidate in candidates if candidate.is_file()), candidates[0])


def _table(path: Path, *, optional: bool = False) -> Iterator[tuple[int, str, str]]:
    """Line number, first word and the rest of each line. Raises ManifestError."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError as error:
        if optional:
            return
        raise ManifestError(f"{path}: no such file: a Kaldi data directory holds wav.scp and text") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: is not UTF-8 ({error.reason}): save it as UTF-8") from error
    except OSError as error:
        raise ManifestError(f"{path}: can't be read: {error.strerror or error}") from error
    seen: set[str] = set()
    for line, text in enumerate(lines, start=1):
        name, *rest = text.split(maxsplit=1) or [""]
        if not name:
            continue
        if name in seen:
            raise ManifestError(f"{path}, line {line}, {name}: is there twice: take one out")
        seen.add(name)
        yield line, name, "".join(rest)
