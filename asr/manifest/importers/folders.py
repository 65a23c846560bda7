"""Corpora whose folders say what is spoken: a folder per word (Speech Commands), Hugging Face's audiofolder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from asr.errors import ManifestError
from asr.manifest.faults import Fault
from asr.manifest.importers.base import SOUND_SUFFIXES, Found, ImportOptions
from asr.manifest.importers.tables import read_table
from asr.manifest.split import exact_split

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SPEAKER = re.compile(r"(?P<speaker>.+)_nohash_\d+")  # as Speech Commands names its recordings
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.tsv")


def read_folder_per_word(path: Path, options: ImportOptions) -> Iterator[Found | Fault]:
    """`<word>/<any>.wav`, or the same under folders named train, dev, test; the words are the folder's name.

    The speaker is read from Speech Commands' `<speaker>_nohash_<n>.wav`, unless a pattern of the options says how
    recordings are named, and the split from its validation_list.txt and testing_list.txt. Folders whose names begin
    with _ or . (`_background_noise_`) are left out.
    Raises ManifestError if there are no such folders.
    """
    any_sound = False
    for folder in class_roots(path):
        split = exact_split(folder.name) if folder != path else None
        listed = _listed(path) if split is None else {}
        for word in word_folders(folder):
            text = re.sub(r"[_\s]+", " ", word.name).strip()
            for audio in sounds(word):
                any_sound = True
                speaker = None if options.speaker_pattern else _SPEAKER.fullmatch(audio.stem)
                name = f"{word.name}/{audio.name}"
                yield Found(
                    audio=audio.absolute(),
                    text=text,
                    origin=audio,
                    speaker=speaker["speaker"] if speaker else None,
                    split=split or (listed.get(name, "train") if listed else None),
                )
    if not any_sound:
        raise ManifestError(f"{path}: no folders with sounds: expected <word>/<recording>.wav")


def read_audiofolder(path: Path, options: ImportOptions) -> Iterator[Found | Fault]:
    """Hugging Face's audiofolder: metadata.csv or .jsonl with file_name and a text; without one, a folder per class."""
    found = metadata_files(path)
    if not found:
        yield from read_folder_per_word(path, options)
    for metadata in found:
        split = exact_split(metadata.parent.name) if metadata.parent != path else None
        for item in read_table(metadata, options):
            yield item if isinstance(item, Fault) or item.split or not split else _with_split(item, split)


def metadata_files(path: Path) -> list[Path]:
    """The audiofolder metadata in a folder or in the folders of its splits."""
    folders = [path, *split_folders(path)]
    return [file for folder in folders for name in METADATA if (file := folder / name).is_file()]


def split_folders(path: Path) -> list[Path]:
    """The folders that are named after splits, directly or in `data/`."""
    for base in (path, path / "data"):
        if base.is_dir():
            found = sorted(folder for folder in base.iterdir() if folder.is_dir() and exact_split(folder.name))
            if found:
                return found
    return []


def class_roots(path: Path) -> list[Path]:
    """The folders whose folders are words: those of splits if there is nothing else beside them, or `path` itself."""
    splits = split_folders(path)
    return splits if splits and set(word_folders(splits[0].parent)) == set(splits) else [path]


def word_folders(path: Path) -> list[Path]:
    """The folders that may stand for words."""
    return sorted(folder for folder in path.iterdir() if folder.is_dir() and folder.name[0] not in "_.")


def sounds(folder: Path) -> Iterator[Path]:
    """The sound files of one folder, by name."""
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() in SOUND_SUFFIXES and not file.name.startswith("."):
            yield file


def _listed(path: Path) -> dict[str, str]:
    """`word/file.wav` to split, from Speech Commands' lists."""
    names = {"validation_list.txt": "dev", "testing_list.txt": "test"}
    lists = [(path / name, split) for name, split in names.items() if (path / name).is_file()]
    return {name: split for file, split in lists for name in file.read_text(encoding="utf-8", errors="replace").split()}


def _with_split(found: Found, split: str) -> Found:
    return Found(**{**vars(found), "split": split})
