"""Corpora that are a folder of sounds and a table: Common Voice, LJSpeech, any CSV, TSV or JSON lines with a header."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from asr.errors import ManifestError
from asr.files import real_path
from asr.manifest.faults import Fault
from asr.manifest.importers.base import SOUND_SUFFIXES, Found, ImportOptions
from asr.manifest.json_lines import scan_json
from asr.manifest.records import KEYS, OTHER_NAMES
from asr.manifest.split import canonical_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

# where a table's sounds may lie, relative to it
_SOUND_FOLDERS = ("", "clips", "wavs", "wav", "audio", "data")
_OPTIONS = {"audio_filepath": "--audio-column", "text": "--text-column", "speaker": "--speaker-column"}
_JSON_SUFFIXES = (".jsonl", ".json", ".ndjson")


def read_table(path: Path, options: ImportOptions) -> Iterator[Found | Fault]:
    """Rows of one table with a header, or of all tables of a folder that are named after splits.

    Raises ManifestError if there is none, or a column is missing.
    """
    for table in tables(path) if path.is_dir() else [path]:
        yield from _read_one(table, options)


def read_common_voice(path: Path, options: ImportOptions) -> Iterator[Found | Fault]:
    """Common Voice: `clips/` and the TSVs train, dev and test; validated.tsv where those are missing.

    The three leave out most of validated.tsv: name that file itself to have all of it.
    """
    if path.is_dir():
        found = [file for name in ("train", "dev", "test") if (file := path / f"{name}.tsv").is_file()]
        found = found or [file for file in [path / "validated.tsv"] if file.is_file()]
        if not found:
            raise ManifestError(f"{path}: no train.tsv, dev.tsv, test.tsv or validated.tsv: name the TSV to import")
    else:
        found = [path]
    for table in found:
        yield from _read_one(table, options)


def read_ljspeech(path: Path, options: ImportOptions) -> Iterator[Found | Fault]:
    """LJSpeech: metadata.csv without a header, `id|text as printed|text as read`, and `wavs/<id>.wav`."""
    del options
    table = path / "metadata.csv" if path.is_dir() else path
    for line, cells in _cells(table, "|", quoted=False):
        if len(cells) not in (2, 3) or not cells[0].strip():
            yield Fault(table, line, "", "bad-row", f"{len(cells)} fields, not 2 or 3", "write id|text|text as read")
            continue
        yield Found(_find(cells[0].strip(), table.parent), cells[-1].strip() or cells[1], table, line)


def tables(folder: Path) -> list[Path]:
    """The tables of a folder: the one that is there, or those named after splits. Raises ManifestError."""
    found = sorted(file for file in folder.iterdir() if file.suffix.lower() in (".csv", ".tsv") and file.is_file())
    if len(found) > 1:
        found = [file for file in found if canonical_split(file.stem)]
    if not found:
        raise ManifestError(f"{folder}: no table, or several: name the CSV or TSV to import")
    return found


class _NoColumnError(Exception):
    """A column that isn't there, on its way to the caller that knows the line."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


@dataclass(frozen=True)
class _Columns:
    """Which column of a table holds what."""

    audio: str
    text: str
    speaker: str | None
    source: str | None
    split: str | None
    offset: str | None
    duration: str | None

    @classmethod
    def of(cls, names: Sequence[str], options: ImportOptions) -> _Columns:
        """Raises _NoColumnError if there is no sound or text, or a column isn't there that the options name."""
        audio = _column("audio_filepath", options.audio_column, names)
        text = _column("text", options.text_column, names)
        if audio is None or text is None:
            key, missing = ("audio_filepath", "sound files") if audio is None else ("text", "texts")
            raise _NoColumnError(f"no column of {missing} among {', '.join(names)}", f"name it with {_OPTIONS[key]}")
        speaker = _column("speaker", options.speaker_column, names)
        return cls(
            audio, text, speaker, *(_column(key, None, names) for key in ("source", "split", "offset", "duration"))
        )


def _column(key: str, wanted: str | None, names: Sequence[str]) -> str | None:
    if wanted is not None:
        if wanted in names:
            return wanted
        nearest = get_close_matches(wanted, names, n=1, cutoff=0)
        option = _OPTIONS.get(key, "--keep")
        raise _NoColumnError(
            f"{option}: no column {wanted!r}", f"did you mean {nearest[0]!r}?" if nearest else "it has none"
        )
    folded = {name.strip().lower(): name for name in reversed(names)}
    return next((folded[name] for name in (key, *OTHER_NAMES.get(key, ())) if name in folded), None)


def _read_one(table: Path, options: ImportOptions) -> Iterator[Found | Fault]:
    json_lines = table.suffix.lower() in _JSON_SUFFIXES
    columns: _Columns | None = None
    for line, row in _rows(table):
        if isinstance(row, Fault):
            yield row
            continue
        try:
            if columns is None or json_lines:  # in JSON each row has keys of its own
                columns = _Columns.of(list(row), options)
                if not json_lines:
                    for name in options.keep:
                        _column(name, name, list(row))
        except _NoColumnError as error:
            if not json_lines:
                raise ManifestError(f"{table}: {error.problem}: {error.remedy}") from error
            yield Fault(table, line, "", "missing-key", error.problem, error.remedy)
            continue
        others = [name for name in row if name not in vars(columns).values()] if json_lines else options.keep
        yield _found(row, columns, others, (table, line))


def _found(row: Mapping[str, Any], columns: _Columns, others: Sequence[str], place: tuple[Path, int]) -> Found | Fault:
    """One row. others: columns that become extra keys."""
    table, line = place

    def cell(column: str | None) -> str:
        value = None if column is None else row.get(column)
        return "" if value is None else str(value).strip()

    def seconds(column: str | None) -> float | None:
        return float(cell(column)) if cell(column) else None

    if not cell(columns.audio):
        return Fault(table, line, columns.audio, "missing-key", "no sound file", "name it, or take the row out")
    try:
        offset, duration = seconds(columns.offset) or 0.0, seconds(columns.duration)
    except ValueError as error:
        return Fault(table, line, "", "bad-value", f"a time is no number ({error})", "write seconds")
    return Found(
        audio=_find(cell(columns.audio), table.parent),
        text=cell(columns.text),
        origin=table,
        line=line,
        speaker=cell(columns.speaker) or None,
        source=cell(columns.source) or None,
        split=cell(columns.split) or canonical_split(table.stem),
        offset=offset,
        duration=duration if columns.offset else None,  # a whole file is measured, whatever the table says
        extra={name: row[name] for name in others if name not in KEYS and row.get(name) not in ("", None)},
    )


def _find(name: str, folder: Path) -> Path:
    """The sound that a table calls `name`, in its folder or one beside it, with or without its suffix."""
    folder = real_path(folder)
    name = name.replace("\\", "/")
    suffixes = [""] if name.lower().endswith(tuple(SOUND_SUFFIXES)) else ["", ".wav", ".flac", ".mp3", ".ogg", ".opus"]
    candidates = [folder / sub / (name + suffix) for sub in _SOUND_FOLDERS for suffix in suffixes]
    return next((candidate for candidate in candidates if candidate.is_file()), candidates[0])


def _rows(table: Path) -> Iterator[tuple[int, Mapping[str, Any] | Fault]]:
    """Line number and cells by column of each row. Raises ManifestError."""
    if table.suffix.lower() in _JSON_SUFFIXES:
        yield from scan_json(table)
        return
    tab = table.suffix.lower() == ".tsv"
    # Common Voice writes its TSVs without quoting, so a sentence may begin with a quotation mark
    delimiter = "\t" if tab else _delimiter(table)
    cells = _cells(table, delimiter, quoted=delimiter not in "\t|")
    _, header = next(cells, (0, None))
    if header is None:
        raise ManifestError(f"{table}: is empty: expected a header and rows")
    double = [name for name, times in Counter(header).items() if times > 1]
    if double:
        raise ManifestError(f"{table}, line 1: column {double[0]!r} is there twice: rename one")
    for line, row in cells:
        if len(row) != len(header):
            problem = f"{len(row)} fields where the header has {len(header)}"
            yield line, Fault(table, line, "", "bad-row", problem, "mend the row (is a comma or quote missing?)")
        else:
            yield line, dict(zip(header, row, strict=True))


def _delimiter(table: Path) -> str:
    """The sign that the header holds most of, the comma if none."""
    _, header = next(_cells(table, "\0", quoted=False), (0, [""]))
    return max(",;\t|", key=header[0].count)


def _cells(table: Path, delimiter: str, *, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line that isn't blank. Raises ManifestError."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            if not quoted:
                for line, text in enumerate(file, start=1):
                    if text.strip():
                        yield line, [_unquoted(cell) for cell in text.rstrip("\r\n").split(delimiter)]
                return
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise ManifestError(f"{table}: is not UTF-8 ({error.reason}): save it as UTF-8") from error
    except csv.Error as error:
        raise ManifestError(f"{table}, line {reader.line_num}: {error}: mend the quoting") from error
    except FileNotFoundError as error:
        raise ManifestError(f"{table}: no such table: check the path") from error
    except OSError as error:
        raise ManifestError(f"{table}: can't be read: {error.strerror or error}") from error


def _unquoted(cell: str) -> str:
    """A cell as a spreadsheet quotes it, without its quotes; `"Yes," she said` stays what it is."""
    inner = cell[1:-1]
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if quoted else cell
