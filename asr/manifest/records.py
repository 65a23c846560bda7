"""Manifests as records: JSON lines to `Utterance` and back.

    {"audio_filepath": "clips/a.wav", "duration": 1.25, "text": "lights on", "speaker": "ann"}

One JSON object per line, in UTF-8. Relative paths resolve against the manifest's own folder. NeMo's files are read as
they are: a byte-order mark, CRLF, blank lines, null values, whole-file JSON arrays, `audio_filename`,
`normalized_text` and `text_filepath` included.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.errors import AudioError, ManifestError
from asr.files import atomic, real_path
from asr.manifest.faults import Fault, FaultyManifestError
from asr.manifest.json_lines import scan_json, scan_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

KEYS = ("audio_filepath", "duration", "text", "offset", "speaker", "source", "split")
MAX_TEXT = 1 << 20  # bytes of a row's text in a file of its own
MAX_FAULTS = 100  # a reader that met this many has seen enough to know that something is wrong throughout

# Names that people give to our keys, likeliest first. A manifest with them isn't accepted, since a guess that is right
# nine times in ten trains on rubbish the tenth time, but the error says which key is meant. Importers read them.
# fmt: off
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "audio_filepath": ("path", "file_name", "audio_path", "audio_file", "filename", "filepath", "file", "audio", "wav",
                       "wav_path", "wav_file", "wav_filename", "audio_filename", "recording", "clip", "sound"),
    "duration": ("duration_s", "duration_sec", "audio_duration", "seconds", "dur", "length", "len"),
    "text": ("sentence", "transcription", "transcript", "transcriptions", "normalized_text", "raw_text", "txt",
             "utterance", "words", "trans", "reference", "ref", "command", "label"),
    "offset": ("start", "start_time", "begin", "offset_s", "offset_sec"),
    "speaker": ("client_id", "speaker_id", "spk", "spk_id", "spkr"),
}
# fmt: on


@dataclass(frozen=True)
class Utterance:
    """One row: a stretch of sound and the words in it."""

    audio_filepath: Path  # absolute
    duration: float  # seconds
    text: str  # as written in the manifest, not normalised
    offset: float = 0.0  # seconds into the file where the utterance starts
    speaker: str | None = None
    source: str | None = None  # the set that it came from
    split: str | None = None  # train, dev, test
    line: int = field(default=0, compare=False)  # in the manifest, counted from 1; 0: not read from one
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)  # all other keys; kept and written back
    written: str = field(default="", compare=False)  # audio_filepath as the manifest has it; empty: not read from one


def read_manifest(path: str | Path, *, faults: list[Fault] | None = None) -> list[Utterance]:
    """All rows of a manifest.

    faults: a list to collect the faults of bad rows in, which are then left out; without it they are an error.
    Raises FaultyManifestError (a ManifestError) that holds up to MAX_FAULTS faults, and ManifestError where the file
    can't be read at all.
    """
    found: list[Fault] = [] if faults is None else faults
    utterances: list[Utterance] = []
    for row in scan_manifest(path):
        if isinstance(row, Utterance):
            utterances.append(row)
            continue
        found.append(row)
        if faults is None and len(found) >= MAX_FAULTS:
            break
    if faults is None and found:
        raise FaultyManifestError(found)
    return utterances


def iter_manifest(path: str | Path) -> Iterator[Utterance]:
    """Rows one by one, for manifests larger than memory. Raises ManifestError at the first faulty row."""
    for row in scan_manifest(path):
        if isinstance(row, Fault):
            raise FaultyManifestError([row])
        yield row


def scan_manifest(path: str | Path) -> Iterator[Utterance | Fault]:
    """Each row as an utterance, or all faults that keep it from being one. Raises ManifestError."""
    return _understood(scan_json(Path(path)), Path(path))


def scan_rows(lines: Iterable[bytes], path: Path, first: int) -> Iterator[Utterance | Fault]:
    """The same of some lines of a manifest; first: the number of the first one."""
    return _understood(scan_lines(lines, path, first), path)


def _understood(rows: Iterable[tuple[int, dict[str, Any] | Fault]], path: Path) -> Iterator[Utterance | Fault]:
    folder = real_path(path.parent)
    for line, values in rows:
        if isinstance(values, Fault):
            yield values
            continue
        row = _Row(values, path, folder, line)
        utterance = row.utterance()
        if row.faults:
            yield from row.faults
        else:
            yield utterance


def write_manifest(path: str | Path, utterances: Iterable[Utterance]) -> int:
    """Writes rows as JSON lines, whole or not at all (an older file is replaced), and returns their number.

    Paths are relative where the sound lies in the manifest's folder or below it, absolute otherwise.
    Raises ManifestError.
    """
    path = Path(path)
    folder = real_path(path.parent)
    rows = 0
    with atomic(path, ManifestError) as file:
        for utterance in utterances:
            rows += 1
            try:
                line = json.dumps(to_row(utterance, folder), ensure_ascii=False, allow_nan=False)
                file.write(line.encode() + b"\n")
            except (TypeError, ValueError) as error:
                raise ManifestError(f"{path}, row {rows}: can't be written as JSON: {error}") from error
    return rows


def to_row(utterance: Utterance, folder: Path) -> dict[str, Any]:
    """The JSON object of one row in a manifest that lies in `folder` (absolute)."""
    audio = utterance.audio_filepath
    row: dict[str, Any] = {
        "audio_filepath": (audio.relative_to(folder) if audio.is_relative_to(folder) else audio).as_posix(),
        "duration": utterance.duration,
        "text": utterance.text,
    }
    if utterance.offset:
        row["offset"] = utterance.offset
    row |= {key: value for key in KEYS[4:] if (value := getattr(utterance, key)) is not None}
    return row | {key: value for key, value in utterance.extra.items() if key not in KEYS}


def resolve(name: str, folder: Path) -> Path:
    """The absolute path of a file named in a manifest that lies in `folder` (absolute)."""
    path = Path(name)
    joined = folder / (path.expanduser() if name.startswith("~/") else path)
    return real_path(joined) if ".." in joined.parts else joined


def meant_key(name: str) -> str | None:
    """The key of ours that somebody who writes `name` has in mind, if any."""
    plain = name.lower().replace("-", "_").strip()
    if name in KEYS:
        return None
    squashed = plain.replace("_", "")
    return next((key for key in KEYS if plain in OTHER_NAMES.get(key, ()) or squashed == key.replace("_", "")), None)


class _Row:
    """Reads one JSON object; what is wrong with it is collected in `faults`."""

    def __init__(self, values: dict[str, Any], manifest: Path, folder: Path, line: int) -> None:
        # null is the same as absent in our own keys (NeMo writes it); elsewhere it is not ours to judge
        self.values = {key: value for key, value in values.items() if value is not None or key not in KEYS}
        self.manifest, self.folder, self.line = manifest, folder, line
        self.faults: list[Fault] = []

    def utterance(self) -> Utterance:
        """What the row says; only good for use where `faults` stays empty."""
        audio = self._audio()
        text = self._text()
        offset = self._seconds("offset") or 0.0
        duration = self._seconds("duration")
        if duration is None:
            duration = 0.0 if self.faults or self._misnamed("duration") else self._measured(audio, offset)
        speaker, source, split = (self._label(key) for key in ("speaker", "source", "split"))
        extra = {key: value for key, value in self.values.items() if key not in KEYS}
        written = str(self.values.get("audio_filepath", ""))
        return Utterance(audio, duration, text, offset, speaker, source, split, self.line, extra, written)

    def _fault(self, key: str, code: str, problem: str, remedy: str) -> None:
        self.faults.append(Fault(self.manifest, self.line, key, code, problem, remedy))

    def _audio(self) -> Path:
        if "audio_filename" in self.values and "audio_filepath" not in self.values:
            self.values["audio_filepath"] = self.values.pop("audio_filename")  # NeMo's other name for it
        name = self._string("audio_filepath")
        if name is None:
            if not self._misnamed("audio_filepath"):
                self._fault("audio_filepath", "missing-key", "is missing", "name the sound file")
        elif not self.faults and (not name.strip() or "\0" in name):
            self._fault("audio_filepath", "bad-value", "is empty or holds a zero byte", "name the sound file")
        else:
            return resolve(name, self.folder)
        return self.folder

    def _text(self) -> str:
        for key in ("text", "normalized_text"):
            if (text := self._string(key)) is not None:
                return text
        if (name := self._string("text_filepath")) is not None:  # NeMo: the words are in a file of their own
            try:
                return " ".join(_words(resolve(name, self.folder)).split())
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                self._fault("text_filepath", "missing-text-file", f"{name} can't be read ({why})", "mend the path")
        self._misnamed("text")
        return ""

    def _misnamed(self, key: str) -> bool:
        """Whether a key that is missing is there under another name, which is a fault."""
        for other in self.values:
            if meant_key(other) == key:
                self._fault(other, "misnamed-key", f"unknown key, and no {key!r}", f"rename it to {key!r}")
                return True
        return False

    def _string(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self._fault(key, "bad-value", f"is {_shown(value)}, not text", 'write it as "text"')
        elif any("\ud800" <= character <= "\udfff" for character in value):
            self._fault(key, "bad-value", "holds half a character (a lone surrogate)", "write the whole character")
        else:
            return value
        return ""

    def _label(self, key: str) -> str | None:
        value = self.values.get(key)
        if isinstance(value, int) and not isinstance(value, bool):  # NeMo numbers its speakers
            return str(value)
        return self._string(key) or None

    def _seconds(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._fault(key, "bad-value", f"is {_shown(value)}, not a number", "write seconds, without quotes")
        elif 0 <= value < 1e9:  # also keeps integers out that no float can hold
            return float(value)
        else:
            self._fault(key, "bad-value", f"is {_shown(value)}", "write seconds, 0 or more")
        return math.nan

    def _measured(self, audio: Path, offset: float) -> float:
        """Seconds from `offset` to the end of a file whose row doesn't say (NeMo's null)."""
        from audio.reading import audio_info  # noqa: PLC0415  only rows without a duration open the sound

        try:
            return max(0.0, audio_info(audio).duration - offset)
        except AudioError as error:
            self._fault("duration", "missing-key", f"is missing and can't be measured ({error})", "mend the sound")
            return 0.0


def _words(path: Path) -> str:
    """What a small text file holds. Raises OSError or ValueError."""
    if path.exists() and not path.is_file():
        raise OSError("not a file")  # a pipe nobody writes to would be waited for, a device read without end
    with path.open("rb") as file:
        data = file.read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise ValueError(f"more than {MAX_TEXT >> 20} MB: no text of a recording")
    return data.decode("utf-8-sig")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "…"
