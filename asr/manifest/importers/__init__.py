"""Corpora in other forms, read as manifests. A layout is a function that names utterances; sounds are opened last."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from asr.errors import ManifestError
from asr.files import real_path
from asr.manifest.faults import Fault
from asr.manifest.importers.base import Found, ImportOptions, Layout, speaker_pattern, to_utterances
from asr.manifest.importers.folders import (
    METADATA,
    class_roots,
    metadata_files,
    read_audiofolder,
    read_folder_per_word,
    sounds,
    word_folders,
)
from asr.manifest.importers.kaldi import read_kaldi
from asr.manifest.importers.tables import read_common_voice, read_ljspeech, read_table, tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.manifest.records import Utterance

__all__ = ["LAYOUTS", "Found", "ImportOptions", "detect", "import_corpus", "is_of_corpus", "speaker_pattern"]

LAYOUTS: dict[str, Layout] = {
    "common-voice": read_common_voice,
    "ljspeech": read_ljspeech,
    "table": read_table,
    "kaldi": read_kaldi,
    "folder-per-word": read_folder_per_word,
    "audiofolder": read_audiofolder,
}

_FOLDERS = ("kaldi", "folder-per-word", "audiofolder")


def import_corpus(
    path: str | Path,
    layout: str | None = None,
    options: ImportOptions | None = None,
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Utterance], list[Fault]]:
    """The rows of a corpus, and the faults of what can't become one.

    layout: one of LAYOUTS; None: seen from what lies in the folder.
    workers: threads that open sounds; None: one per core. progress: called with the number of rows just done.
    Raises ManifestError where the corpus as a whole can't be read.
    """
    path, options = Path(path), options or ImportOptions()
    if not path.exists():
        raise ManifestError(f"{path}: no such file or folder: check the path")
    layout = layout or detect(path)
    if layout not in LAYOUTS:
        raise ManifestError(f"{path}: unknown layout {layout!r}: use one of {', '.join(LAYOUTS)}")
    if layout in _FOLDERS and not path.is_dir():
        raise ManifestError(f"{path}: is no folder, which {layout} needs: name one, or another --layout")
    utterances: list[Utterance] = []
    faults: list[Fault] = []
    try:
        for row in to_utterances(LAYOUTS[layout](path, options), options, workers=workers, progress=progress):
            if isinstance(row, Fault):
                faults.append(row)
            else:
                utterances.append(row)
    except OSError as error:
        raise ManifestError(f"{error.filename or path}: can't be read: {error.strerror or error}") from error
    if not utterances and not faults:
        raise ManifestError(f"{path}: no recordings found as {layout}: check the path, or force another --layout")
    return utterances, faults


def detect(path: Path) -> str:
    """The layout of a table or folder. Raises ManifestError if it looks like none."""
    if path.is_file():
        return _detect_table(path)
    if (path / "wav.scp").is_file():
        return "kaldi"
    metadata = metadata_files(path)
    if metadata:
        return "ljspeech" if _detect_table(metadata[0]) == "ljspeech" else "audiofolder"
    if (path / "clips").is_dir() and any(path.glob("*.tsv")):
        return "common-voice"
    if any(path.glob("*.csv")) or any(path.glob("*.tsv")):
        tables(path)  # raises if it can't tell which
        return "table"
    if any(True for base in class_roots(path) for word in word_folders(base) for _ in sounds(word)):
        return "folder-per-word"
    raise ManifestError(f"{path}: looks like no known layout: force one of {', '.join(LAYOUTS)} with --layout")


def is_of_corpus(file: Path, corpus: Path) -> bool:
    """Whether a file is one of a corpus's own: anything in its folder but a manifest that was written there."""
    inside = corpus.is_dir() and real_path(file).is_relative_to(real_path(corpus))
    return inside and (file.suffix != ".jsonl" or file.name in METADATA)


def _detect_table(path: Path) -> str:
    if path.name == "wav.scp":
        raise ManifestError(f"{path}: is part of a Kaldi data directory: name its folder")
    if path.suffix.lower() not in (".csv", ".tsv", ".jsonl", ".json", ".ndjson"):
        raise ManifestError(f"{path}: is no CSV, TSV or JSON lines: name one of these, or a folder")
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        first = file.readline()
    if path.suffix.lower() == ".csv" and "|" in first and "," not in first.split("|")[0]:
        header = {cell.strip().lower() for cell in first.split("|")}
        return "table" if header & {"path", "file_name", "audio_filepath", "text", "sentence"} else "ljspeech"
    return "common-voice" if {"client_id", "path", "sentence"} <= set(first.rstrip().split("\t")) else "table"
