"""What `cepstra transcribe` is given: sound files and rows of manifests, and what their transcripts are called."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from asr.batch.documents import heard, written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from asr.manifest.records import Utterance
    from asr.results import Result
    from asr.writers import Format
    from audio.reading import RawFormat


@dataclass(frozen=True)
class Recording:
    """Something to transcribe."""

    source: str | Utterance
    name: str  # as lines of text and messages call it
    target: Path | None  # the file for its transcript; None prints it


def recordings_of(
    files: Iterable[str], rows: Sequence[Utterance], folder: Path | None, format_: Format, raw: RawFormat | None
) -> list[Recording]:
    """Files and rows in order, each with the name of its transcript if there is a folder for them.

    That is the sound's own name with the format's ending; rows that are part of a file say which: talk.12.5-14.txt.
    raw: what files without a header hold.
    """
    from asr.manifest.parts import are_parts, named, stretch

    def target(stem: str) -> Path | None:
        return None if folder is None else folder / (stem + format_.suffix)

    recordings = [Recording(file, file, target("stdin" if file == "-" else Path(file).stem)) for file in files]
    for row, part in zip(rows, are_parts(rows, raw), strict=True):
        stem = row.audio_filepath.stem + (f".{stretch(row, '-')}" if part else "")
        recordings.append(Recording(row, named(written(row), row, part=part), target(stem)))
    return recordings


def document(recording: Recording, result: Result, format_: Format, *, listed: bool) -> str:
    """What is written of one recording, with its line ends; listed: text has the recording's name before it."""
    from asr.writers import named_line, render
    from audio.sources import displayed

    source = recording.source
    if format_.name == "text" and listed:
        return named_line(replace(result, audio_filepath=displayed(recording.name)))
    if format_.name != "json" or isinstance(source, str):
        return render(result, format_.name)
    return heard(source, result)


def check_targets(recordings: Collection[Recording], inputs: Iterable[Path]) -> None:
    """Refuse, before any work, to write two transcripts to one file, or one over a recording or another input."""
    from asr.errors import CepstraError
    from asr.files import check_writable, real_path

    sources = (recording.source for recording in recordings)
    sounds = (Path(source) if isinstance(source, str) else source.audio_filepath for source in sources)
    kept = {real_path(path) for path in (*sounds, *inputs)}
    seen: dict[Path, Recording] = {}
    for recording in recordings:
        target = recording.target
        if target is None:
            continue
        other = seen.setdefault(target, recording)
        problem = ""
        if other is not recording:
            problem = f"{other.name} and {recording.name} would both become {target}; "
            problem += "transcribe them into different folders, or print all with --format json"
        elif real_path(target) in kept:
            problem = f"{target} would replace what is read; choose another folder"
        elif target.exists():
            try:
                check_writable(target)
            except CepstraError as error:
                problem = str(error)
        if problem:
            raise typer.BadParameter(problem, param_hint="--output-dir")
