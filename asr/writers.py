"""Results as text, JSON lines, subtitles (SubRip, WebVTT) and Whisper's TSV."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asr.errors import ConfigError
from asr.results import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


@dataclass(frozen=True)
class Format:
    """One way of writing results down."""

    name: str
    suffix: str  # of a file in this format, with the dot
    header: str  # stands once at the top of a file; ends with a line end, or is empty
    body: Callable[[Result], str]  # one result without the header; every line ends with "\n"
    joins: bool  # whether one document can hold several recordings


def render(results: Result | Iterable[Result], format_name: str = "text") -> str:
    """A whole document: the header and every result, ready to be written or printed; every line of it is ended.

    Text is one line per recording: just the text of a single one, "path: text" when there are several. JSON is one
    object per line and recording. Subtitles and tsv hold one recording only: several raise ConfigError, as does an
    unknown format.
    """
    chosen = find_format(format_name)
    together = [results] if isinstance(results, Result) else list(results)
    if len(together) > 1 and not chosen.joins:
        raise ConfigError(f"format {format_name}: holds one recording, not {len(together)}; write each to its own file")
    if len(together) > 1 and chosen.name == "text":
        return "".join(named_line(result) for result in together)
    return chosen.header + "".join(chosen.body(result) for result in together)


def find_format(name: str) -> Format:
    """The format of that name; ConfigError names the known ones."""
    if name not in FORMATS:
        raise ConfigError(f"format {name!r}: not known; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def named_line(result: Result) -> str:
    """One line "path: text": how text looks when several recordings are transcribed."""
    return f"{_encodable(result.audio_filepath or '-')}: {_one_line(result.text)}\n"


def to_json(value: Any, *, indent: int | None = None) -> str:  # noqa: ANN401 (whatever JSON can hold)
    """JSON that any UTF-8 file or terminal takes: readable Unicode, escapes where a file name isn't valid Unicode."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    return text if _encodable(text) == text else json.dumps(value, allow_nan=False, indent=indent)


def _text(result: Result) -> str:
    return _one_line(result.text) + "\n"


def _json(result: Result) -> str:
    return to_json(result.to_dict()) + "\n"


def _srt(result: Result) -> str:
    """SubRip: numbered cues. An arrow inside the text would be taken for times, so it is shortened, as Whisper does."""
    return "".join(
        f"{number}\n{_clock(start, ',')} --> {_clock(end, ',')}\n{text.replace('-->', '->')}\n\n"
        for number, (start, end, text) in enumerate(_cues(result), start=1)
    )


def _vtt(result: Result) -> str:
    """WebVTT (w3.org/TR/webvtt1): & < > are character references, which takes care of the arrow too."""
    return "".join(
        f"\n{_clock(start, '.')} --> {_clock(end, '.')}\n"
        f"{text.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')}\n"
        for start, end, text in _cues(result)
    )


def _tsv(result: Result) -> str:
    """Whisper's: start and end in whole milliseconds, then the text, in which tabs and line ends are blanks."""
    return "".join(f"{start}\t{end}\t{text}\n" for start, end, text in _cues(result))


FORMATS = {
    each.name: each
    for each in (
        Format("text", ".txt", "", _text, joins=True),
        Format("json", ".json", "", _json, joins=True),
        Format("srt", ".srt", "", _srt, joins=False),
        Format("vtt", ".vtt", "WEBVTT\n", _vtt, joins=False),
        Format("tsv", ".tsv", "start\tend\ttext\n", _tsv, joins=False),
    )
}


def _cues(result: Result) -> Iterator[tuple[int, int, str]]:
    """(start, end, text) of every segment that says something, in milliseconds; a cue lasts one at least."""
    for segment in result.segments:
        text = _one_line(segment.text)
        start = max(0, round(segment.start * 1000))
        if text:
            yield start, max(start + 1, round(segment.end * 1000)), text


def _clock(milliseconds: int, point: str) -> str:
    """HH:MM:SS and three decimals behind the point that the format wants."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


def _one_line(text: str) -> str:
    """Any run of white space (tabs, line ends of every kind) as one blank; none at the ends."""
    return " ".join(text.split())


def _encodable(text: str) -> str:
    """What UTF-8 can't hold (a file name that isn't valid Unicode) as question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
