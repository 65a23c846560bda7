"""`cepstra transcribe`: sound files to text."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.cli.messages import complain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from asr.errors import CepstraError
    from asr.manifest.records import Utterance
    from asr.results import Result
    from audio.reading import RawFormat

    Transcriber = Callable[[Iterable[str | Utterance]], Iterable[Result | CepstraError]]


class Format(StrEnum):
    """How results are written: the names of asr.writers."""

    TEXT = "text"
    JSON = "json"
    SRT = "srt"
    VTT = "vtt"
    TSV = "tsv"


@dataclass(frozen=True)
class Recording:
    """Something to transcribe."""

    source: str | Utterance
    name: str  # as lines of text and messages call it
    target: Path | None  # the file for its transcript; None prints it


def transcribe(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Sound files; - is standard input.")] = None,
    *,
    model: Annotated[Path | None, typer.Option(help="The bundle to use; without it, the one that ships.")] = None,
    format_: Annotated[
        Format, typer.Option("--format", "-f", help="How to write what was said; times are in all but text.")
    ] = Format.TEXT,
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", "-o", help="Write NAME.txt, NAME.json … of each file into this folder."),
    ] = None,
    manifest: Annotated[Path | None, typer.Option(help="Transcribe the rows of a manifest (JSON lines).")] = None,
    beam: Annotated[
        int, typer.Option(min=1, max=64, help="Hypotheses kept by the search; 1 is greedy, and fastest.")
    ] = 1,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    channel: Annotated[
        int | None, typer.Option(min=0, help="The channel to take, from 0; without it, all are mixed.")
    ] = None,
    max_seconds: Annotated[float, typer.Option(min=0.001, help="Longer recordings are refused.")] = 3600.0,
    raw: Annotated[
        str | None,
        typer.Option(
            metavar="ENCODING:RATE:CHANNELS", help="What files without a header hold, such as PCM_16:16000:1."
        ),
    ] = None,
) -> None:
    """What is said in sound files. Of a single file just the text is printed, of several "FILE: text".

    A file that can't be read is reported, the rest goes on, and the exit code is 1.
    """
    named = files or []
    if not named and manifest is None:
        raise typer.BadParameter("name a sound file, or rows with --manifest", param_hint="FILE")
    raw_format = None if raw is None else _raw_format(raw)
    recordings = _recordings(named, _rows(manifest), output_dir, format_)
    alone = len(recordings) == 1 and manifest is None
    if output_dir is None:
        _check_printable(format_, alone)
    else:
        _check_targets(recordings, [path for path in (manifest, model) if path is not None])
        from asr.files import make_folder

        make_folder(output_dir)

    from asr.recognizer import Recognizer

    recognizer = Recognizer(model, threads=threads, beam=beam, channel=channel, max_seconds=max_seconds, raw=raw_format)
    if transcribe_with(recognizer.transcribe_each, recordings, format_, alone=alone):
        raise typer.Exit(1)


def transcribe_with(transcriber: Transcriber, recordings: Sequence[Recording], format_: Format, *, alone: bool) -> int:
    """Print or write each answer as it comes, with any recogniser. Returns how many recordings failed.

    alone: text is printed without a name before it. Ctrl-C ends with typer.Exit(130).
    """
    from asr.errors import CepstraError
    from asr.files import write_atomically

    done = failed = 0
    try:
        with _progress(len(recordings)) as (show, advance):
            answers = transcriber(recording.source for recording in recordings)
            for recording, answer in zip(recordings, answers, strict=True):
                try:
                    if isinstance(answer, CepstraError):
                        raise answer
                    text = document(recording, answer, format_, named=not alone and recording.target is None)
                    if recording.target is None:
                        show(text)
                    else:
                        write_atomically(recording.target, text)
                except CepstraError as error:
                    complain(str(error))
                    failed += 1
                done += 1
                advance()
    except KeyboardInterrupt:
        complain(f"interrupted; {done} of {len(recordings)} done")
        raise typer.Exit(130) from None
    return failed


def document(recording: Recording, result: Result, format_: Format, *, named: bool) -> str:
    """What is written of one recording, with its line ends; named: text has the recording's name before it."""
    from asr.writers import named_line, render, to_json
    from audio.sources import displayed

    source = recording.source
    if format_ is Format.TEXT and named:
        return named_line(replace(result, audio_filepath=displayed(recording.name)))
    if format_ is Format.JSON and not isinstance(source, str) and source.offset:
        where = {"audio_filepath": result.audio_filepath, "offset": source.offset}  # tells rows of one file apart
        return to_json({**where, **result.to_dict()}) + "\n"
    return render(result, format_)


def _rows(manifest: Path | None) -> list[Utterance]:
    if manifest is None:
        return []
    from asr.errors import ManifestError
    from asr.manifest import read_manifest

    rows = read_manifest(manifest)
    if not rows:
        raise ManifestError(f"{manifest}: holds no utterance; add rows, or name sound files instead")
    return rows


def _recordings(
    files: Iterable[str], rows: Iterable[Utterance], folder: Path | None, format_: Format
) -> list[Recording]:
    """Files and rows in order, each with the name of its transcript if there is a folder for them.

    That is the sound's own name with the format's ending; rows that start within a file say where: talk.12.5-14.txt.
    """
    from asr.cli.evaluate import name_of
    from asr.writers import find_format

    def target(stem: str) -> Path | None:
        return None if folder is None else folder / (stem + find_format(format_).suffix)

    recordings = [Recording(file, file, target("stdin" if file == "-" else Path(file).stem)) for file in files]
    for row in rows:
        part = f".{row.offset:.10g}-{row.offset + row.duration:.10g}" if row.offset else ""
        recordings.append(Recording(row, name_of(row), target(row.audio_filepath.stem + part)))
    return recordings


def _check_printable(format_: Format, alone: bool) -> None:
    """Refuse to print several recordings in a format that holds one."""
    from asr.writers import find_format

    if not alone and not find_format(format_).joins:
        problem = f"{format_} holds one recording; write each to a file of its own with --output-dir, or choose json"
        raise typer.BadParameter(problem, param_hint="--format")


def _check_targets(recordings: Collection[Recording], inputs: Iterable[Path]) -> None:
    """Refuse, before any work, to write two transcripts to one file, or one over a recording or another input."""
    sources = (recording.source for recording in recordings)
    sounds = (Path(source) if isinstance(source, str) else source.audio_filepath for source in sources)
    kept = {path.resolve() for path in (*sounds, *inputs)}
    seen: dict[Path, Recording] = {}
    for recording in recordings:
        if recording.target is None:
            continue
        other = seen.setdefault(recording.target, recording)
        if other is not recording:
            problem = f"{other.name} and {recording.name} would both become {recording.target}"
            remedy = "transcribe them into different folders, or print all with --format json"
        elif recording.target.resolve() in kept:
            problem, remedy = f"{recording.target} would replace what is read", "choose another folder"
        else:
            continue
        raise typer.BadParameter(f"{problem}; {remedy}", param_hint="--output-dir")


def _raw_format(text: str) -> RawFormat:
    from asr.errors import AudioError
    from audio.reading import RawFormat

    encoding, *numbers = text.split(":")
    try:
        rate, channels = (int(number) for number in (*numbers, "1")[: max(2, len(numbers))])
        return RawFormat(encoding.upper(), rate, channels)  # type: ignore[arg-type]  # it checks the encoding
    except ValueError:
        problem = f"{text!r} is not ENCODING:RATE:CHANNELS; write, for example, PCM_16:16000:1"
        raise typer.BadParameter(problem, param_hint="--raw") from None
    except AudioError as error:
        raise typer.BadParameter(str(error), param_hint="--raw") from None


@contextmanager
def _progress(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """What prints a text, and what counts a recording: with a bar below, where people watch many of them."""
    if total < 2 or sys.stderr is None or not sys.stderr.isatty():
        yield _print, lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    console = Console(stderr=True)
    columns = (TextColumn("transcribing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # rich would send standard output to the bar's console, away from the file or pipe that wants it
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=total)

        def show(text: str) -> None:
            if sys.stdout is not None and sys.stdout.isatty():
                console.print(Text(text), end="", soft_wrap=True)  # above the bar, on the terminal that both share
            else:
                _print(text)

        yield show, lambda: bar.advance(task)


def _print(text: str) -> None:
    print(text, end="", flush=True)  # at once: whoever reads the pipe may be waiting
