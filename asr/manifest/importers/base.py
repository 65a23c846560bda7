"""What every layout yields, and how what it names becomes rows: the sound is opened for its duration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asr.errors import AudioError, ManifestError
from asr.manifest.faults import Fault
from asr.manifest.parallel import parallel
from asr.manifest.records import Utterance
from asr.manifest.sound_warnings import heard, recorded_warnings
from audio.reading import audio_info

SOUND_SUFFIXES = frozenset(
    (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".aifc", ".au", ".snd", ".w64", ".rf64", ".caf")
)
_SKIP = "put it there, or leave such rows out (--skip-faulty)"
END_TOLERANCE = 0.5  # seconds that a segment may promise beyond the end of its file; it is cut there


@dataclass(frozen=True)
class ImportOptions:
    """What a layout leaves open."""

    audio_column: str | None = None  # of a table; None: the usual names
    text_column: str | None = None
    speaker_column: str | None = None
    keep: Sequence[str] = ()  # columns of a table that become keys of their own
    speaker: str | None = None  # for rows that name none
    source: str | None = None  # name of the set, written into every row
    # finds in FOLDER/FILE of a sound, of those that name no speaker, who speaks: its only group
    speaker_pattern: re.Pattern[str] | None = None

    def speaker_of(self, found: Found) -> str | None:
        """Who speaks, if anything says so."""
        match = self.speaker_pattern and self.speaker_pattern.search(f"{found.audio.parent.name}/{found.audio.name}")
        return found.speaker or (match and match[1]) or self.speaker


def speaker_pattern(text: str) -> re.Pattern[str]:
    """A regular expression for `ImportOptions`. Raises ManifestError unless it is one, with one group."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ManifestError(f"{text}: is no regular expression ({error}): write one such as '/([a-z]+)_'") from error
    if pattern.groups != 1:
        raise ManifestError(f"{text}: has {pattern.groups} groups: put () around the speaker, and (?:) around others")
    return pattern


@dataclass(frozen=True)
class Found:
    """One utterance that a corpus names; its sound has not been opened yet."""

    audio: Path  # absolute
    text: str
    origin: Path  # where the corpus names it
    line: int = 0  # in `origin`; 0: not a file of lines
    speaker: str | None = None
    source: str | None = None
    split: str | None = None
    offset: float = 0.0  # seconds
    duration: float | None = None  # seconds; None: up to the end
    extra: Mapping[str, Any] = field(default_factory=dict)


Layout = Callable[[Path, ImportOptions], Iterator[Found | Fault]]


def to_utterances(
    found: Iterable[Found | Fault],
    options: ImportOptions,
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Utterance | Fault]:
    """Opens each sound for its duration. What can't be opened, or says nothing, becomes a fault, an error; what could
    be opened though it isn't as it should be also yields a warning.
    """

    def work(item: Found | Fault) -> list[Utterance | Fault]:
        return [item] if isinstance(item, Fault) else [_measured(item, options), *_warnings(item)]

    with recorded_warnings():
        for rows in parallel(work, found, workers=workers, progress=progress):
            yield from rows


def _warnings(found: Found) -> Iterator[Fault]:
    for message in heard():
        problem, _, remedy = message.partition("; ")
        remedy = remedy or "record or copy it again"
        yield Fault(found.origin, found.line, "audio_filepath", "damaged-audio", problem, remedy, "warning")


def _measured(found: Found, options: ImportOptions) -> Utterance | Fault:
    def fault(key: str, code: str, problem: str, remedy: str) -> Fault:
        return Fault(found.origin, found.line, key, code, problem, remedy)

    if not found.text.strip():
        return fault("text", "empty-text", "no words", "write them, or take the row out")
    try:
        total = audio_info(found.audio).duration
    except AudioError as error:
        if not found.audio.exists():
            return fault("audio_filepath", "missing-audio", f"{found.audio}: no such file", _SKIP)
        problem, _, remedy = str(error).rpartition("; ")
        return fault("audio_filepath", "unreadable-audio", problem or remedy, f"{remedy}, or --skip-faulty")
    duration = total - found.offset if found.duration is None else found.duration
    if duration <= 0 or found.offset + duration > total + END_TOLERANCE:
        where = f"{found.offset:g} to {found.offset + duration:g} s"
        return fault("offset", "past-end", f"{where}, but {found.audio} lasts {total:.3f} s", "mend the times")
    return Utterance(
        audio_filepath=found.audio,
        duration=round(min(duration, total - found.offset), 6),
        text=found.text.strip(),
        offset=found.offset,
        speaker=options.speaker_of(found),
        source=options.source or found.source,
        split=found.split,
        extra=found.extra,
    )
