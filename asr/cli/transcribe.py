"""`cepstra transcribe`: sound files to text."""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asr.cli.guidance import (
    BoostOption,
    LmOption,
    LmWeightOption,
    ThresholdOption,
    check_together,
    naming_inputs,
    read_guides,
    read_phrases,
)
from asr.cli.meant import explain_to_watcher
from asr.cli.messages import complain, in_options, naming
from asr.cli.recordings import Recording, check_targets, document, recordings_of
from asr.cli.transcribe_with_ray import AddressOption, Engine, EngineOption, transcribe_with_ray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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


def transcribe(
    context: typer.Context,
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Sound files; - is standard input.")] = None,
    *,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The bundle to use; without it, the one that ships.")
    ] = None,
    format_: Annotated[
        Format, typer.Option("--format", "-f", help="How to write what was said; times are in all but text.")
    ] = Format.TEXT,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir", "-o", metavar="FOLDER", help="Write NAME.txt, NAME.json … of each file into this folder."
        ),
    ] = None,
    manifest: Annotated[
        Path | None, typer.Option(metavar="MANIFEST", help="Transcribe the rows of a manifest (JSON lines).")
    ] = None,
    beam: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="Hypotheses kept by the search; 1 is greedy, and fastest.")
    ] = 1,
    phrases: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", show_default=False,
            help="A phrase file: which of its commands was meant, if any; see `phrases`. May be repeated.",
        ),
    ] = None,
    threshold: ThresholdOption = None,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    boost: BoostOption = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, metavar="N", help="CPU threads.")] = 2,
    channel: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The channel to take, from 0; without it, all are mixed.")
    ] = None,
    max_seconds: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="Longer recordings are refused.")
    ] = 3600.0,
    raw: Annotated[
        str | None,
        typer.Option(
            metavar="ENCODING:RATE:CHANNELS", help="What files without a header hold, such as PCM_16:16000:1."
        ),
    ] = None,
    speech_detection: Annotated[
        bool, typer.Option("--speech-detection/--no-speech-detection", help="Decode only where somebody speaks.")
    ] = True,
    engine: EngineOption = Engine.LOCAL,
    address: AddressOption = None,
) -> None:  # fmt: skip
    """What is said in sound files. Of a single file just the text is printed, of several "FILE: text".

    A file that can't be read is reported, the rest goes on, and the exit code is 1.
    """
    from asr.writers import find_format

    named, phrase_files = files or [], phrases or []
    if math.isnan(max_seconds):
        raise typer.BadParameter("not a number", param_hint="--max-seconds")
    if not named and manifest is None:
        raise typer.BadParameter("name a sound file, or rows with --manifest", param_hint="FILE")
    if named.count("-") > 1:
        raise typer.BadParameter("- is given twice, but standard input can be read only once", param_hint="FILE")
    check_together(phrase_files, threshold, lm, boost)
    form = None if raw is None else raw_format(raw)

    def arguments() -> dict[str, Any]:
        said = read_phrases(phrase_files)
        bundle, guides = read_guides(model, lm, lm_weight, boost)
        return {
            "bundle": bundle,
            "beam": beam,
            "channel": channel,
            "max_seconds": max_seconds,
            "raw": form,
            "phrases": said,
            "threshold": threshold,
            **guides,
            "speech_detection": speech_detection,
        }

    if engine is Engine.RAY:
        read = {"model": [model] if model else [], "phrases": phrase_files}
        read |= {key: [path] for key, path in (("lm", lm), ("boost", boost)) if path}
        transcribe_with_ray(
            context,
            files=named,
            manifest=manifest,
            folder=output_dir,
            address=address,
            recognizer=arguments,
            read=read,
        )
        return
    if address is not None:
        raise typer.BadParameter("is for --engine ray; give both", param_hint="--address")
    recordings = recordings_of(named, _rows(manifest), output_dir, find_format(format_), form)
    alone = len(recordings) == 1 and manifest is None
    if output_dir is None:
        _check_printable(format_, alone)
    else:
        from asr.files import make_folder

        read_too = (manifest, model, lm, boost, *phrase_files)
        check_targets(recordings, [path for path in read_too if path is not None])
        with naming("--output-dir"):
            make_folder(output_dir)

    from asr.recognizer import Recognizer

    options = arguments()
    with naming_inputs(model):
        recognizer = Recognizer(threads=threads, **options)
    if transcribe_with(recognizer.transcribe_each, recordings, format_, alone=alone):
        raise typer.Exit(1)


def transcribe_with(transcriber: Transcriber, recordings: Sequence[Recording], format_: Format, *, alone: bool) -> int:
    """Print or write each answer as it comes, with any recogniser. Returns how many recordings failed.

    alone: text is printed without a name before it. Ctrl-C ends with typer.Exit(130).
    """
    from asr.errors import CepstraError
    from asr.files import write_atomically
    from asr.writers import find_format
    from audio.sources import displayed

    def text_of(recording: Recording, result: Result) -> str:
        return document(recording, result, find_format(format_), listed=not alone and recording.target is None)

    done = failed = 0
    try:
        with _progress(len(recordings)) as (show, advance):
            answers = transcriber(recording.source for recording in recordings)
            for recording, answer in zip(recordings, answers, strict=True):
                try:
                    if isinstance(answer, CepstraError):
                        raise answer
                    if recording.target is None:
                        show(text_of(recording, answer))
                        if format_ is Format.TEXT:
                            explain_to_watcher(answer, "" if alone else displayed(recording.name))
                    else:
                        write_atomically(recording.target, text_of(recording, answer))
                except CepstraError as error:
                    complain(in_options(str(error)))
                    failed += 1
                done += 1
                advance()
    except KeyboardInterrupt as stop:
        heard: Result | None = getattr(stop, "result", None)  # of a long recording, until then
        where = ""
        if heard is not None and recordings[done].target is None:
            _print(text_of(recordings[done], heard))
            where = f", and the first {heard.duration:.0f} s of {recordings[done].name}"
        complain(f"interrupted; {done} of {len(recordings)} done{where}")
        raise typer.Exit(130) from None
    return failed


def _rows(manifest: Path | None) -> list[Utterance]:
    if manifest is None:
        return []
    from asr.errors import ManifestError
    from asr.manifest import read_manifest

    with naming("--manifest"):
        rows = read_manifest(manifest)
        if not rows:
            raise ManifestError(f"{manifest}: holds no utterance; add rows, or name sound files instead")
    return rows


def _check_printable(format_: Format, alone: bool) -> None:
    """Refuse to print several recordings in a format that holds one."""
    from asr.writers import find_format

    if not alone and not find_format(format_).joins:
        problem = f"{format_} holds one recording; write each to a file of its own with --output-dir, or choose json"
        raise typer.BadParameter(problem, param_hint="--format")


def raw_format(text: str) -> RawFormat:
    """The value of --raw."""
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
