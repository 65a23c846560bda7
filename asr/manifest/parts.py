"""Rows that are only part of a file, and what tells them apart."""

from __future__ import annotations

import warnings
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from asr.errors import AudioError
from asr.manifest.check_settings import SoundLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.manifest.records import Utterance
    from audio.reading import RawFormat


def are_parts(rows: Sequence[Utterance], raw: RawFormat | None = None) -> list[bool]:
    """Whether each row is only part of its file: it starts within it, shares it with others, or ends before it does.

    raw: what files without a header hold. A file that can't be opened counts as whole: reading it will tell.
    """
    stretches: dict[Path, set[tuple[float, float]]] = defaultdict(set)
    for row in rows:
        stretches[row.audio_filepath].add((row.offset, row.duration))
    return [bool(row.offset) or len(stretches[row.audio_filepath]) > 1 or _ends_within(row, raw) for row in rows]


def stretch(row: Utterance, between: str) -> str:
    """Where a row starts and ends, in seconds: "12.5-14"."""
    return f"{row.offset:.10g}{between}{row.offset + row.duration:.10g}"


def named(path: str | Path, row: Utterance, *, part: bool) -> str:
    """The recording, and its stretch where it is part of a longer file (as a media fragment: "talk.wav#t=12.5,14")."""
    return f"{path}#t={stretch(row, ',')}" if part else str(path)


def within(row: Utterance, manifest: Path) -> str:
    """The sound as the manifest names it; what lies in the manifest's folder, without the way there."""
    written = Path(row.written or row.audio_filepath)
    with suppress(ValueError):
        return str(written.relative_to(manifest.parent.absolute()))
    return str(written)


def _ends_within(row: Utterance, raw: RawFormat | None) -> bool:
    from audio.reading import AudioWarning, audio_info  # noqa: PLC0415  only this opens sound

    if not row.audio_filepath.is_file():  # a pipe can be read but once
        return False
    with warnings.catch_warnings(action="ignore", category=AudioWarning):
        try:
            whole = audio_info(row.audio_filepath, raw=raw).duration
        except AudioError:
            return False
    return row.duration < whole - SoundLimits.duration_tolerance
