"""`cepstra evaluate`: how well a model hears the recordings of a manifest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asr.cli.guidance import (
    BoostOption,
    LmOption,
    LmWeightOption,
    ThresholdOption,
    naming_inputs,
    read_guides,
    read_phrases,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from asr.errors import CepstraError
    from asr.evaluation.run import Run, Transcriber
    from asr.evaluation.scoring import Evaluation
    from asr.manifest.records import Utterance
    from asr.recognizer import Recognizer
    from asr.results import Result


PHRASES = "phrases"  # the name of the only set


class By(StrEnum):
    """What the rows of the table are."""

    SOURCE = "source"
    SPEAKER = "speaker"


def evaluate(
    manifest: Annotated[
        list[Path],
        typer.Argument(metavar="MANIFEST", help="Recordings and their texts, as JSON lines.", show_default=False),
    ],
    *,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The bundle to measure; without it, the one that ships with Cepstra."),
    ] = None,
    beam: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="Hypotheses kept by the search; 1 is greedy.")
    ] = 1,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    boost: BoostOption = None,
    phrases: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", show_default=False,
            help="A phrase file: how many of its commands are understood, and how much else is taken for one. "
            "May be repeated.",
        ),
    ] = None,
    threshold: ThresholdOption = None,
    nearest: Annotated[
        bool, typer.Option("--nearest", help="Beside it: free text, and the sentence of the file nearest to it.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a web page: confusions, the worst utterances; the trade-off."),
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all figures and texts as JSON.")] = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, metavar="N", help="CPU threads.")] = 2,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Take only so many utterances of each manifest, evenly spread over it."),
    ] = None,
    speech_detection: Annotated[
        bool, typer.Option("--speech-detection/--no-speech-detection", help="Decode only where somebody speaks.")
    ] = True,
    by: Annotated[By, typer.Option(help="A row of the table for each of these.")] = By.SOURCE,
) -> None:  # fmt: skip
    """Error rates of a model; with --phrases, those of commands."""
    from rich.console import Console

    from asr.recognizer import SHIPPED

    said = read_phrases(phrases or [])
    if said is None and (nearest or threshold is not None):
        hint = "--nearest" if nearest else "--threshold"
        raise typer.BadParameter("says nothing without --phrases", param_hint=hint)
    if said is not None and not nearest and (lm is not None or boost is not None):
        raise typer.BadParameter(
            "leaves no free text for --lm and --boost to guide; give either", param_hint="--phrases"
        )

    def recognizer() -> Recognizer:
        from asr.bundle import Bundle, read_bundle
        from asr.recognizer import DEFAULT_BUNDLE, Recognizer

        bundle, guides = read_guides(model, lm, lm_weight, boost)
        with naming_inputs(model):
            if not isinstance(bundle, Bundle):  # whose graphs the recogniser then keeps: figures hold their digest
                bundle = read_bundle(bundle or DEFAULT_BUNDLE)
            named = {PHRASES: said} if said else None
            return Recognizer(
                bundle, threads=threads, beam=beam, phrases=named, threshold=threshold,
                speech_detection=speech_detection, **guides,
            )  # fmt: skip

    guided: dict[str, Any] = {"threshold": threshold, "lm": lm and str(lm), "lm_weight": lm_weight}
    guided |= {"boost": boost and str(boost), "speech_detection": None if speech_detection else False}

    asked = Asked(
        manifests=manifest,
        model=SHIPPED if model is None else str(model),
        settings={"beam": beam, "threads": threads} | {k: value for k, value in guided.items() if value is not None},
        inputs=[path for path in (lm, boost, *(phrases or [])) if path is not None],
        report=report,
        json=json,
        limit=limit,
        by=by,
        out=Console(),
        err=Console(stderr=True),
    )
    if said is None:
        code = evaluate_with(recognizer, asked)
    else:
        from asr.cli.evaluate_commands import evaluate_commands_with

        code = evaluate_commands_with(recognizer, asked, said, nearest=nearest)
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True)
class Asked:
    """What is to be measured, and where the figures go."""

    manifests: Sequence[Path]
    model: str
    settings: dict[str, Any]
    report: Path | None
    json: Path | None
    limit: int | None
    by: By
    out: Console
    err: Console
    inputs: Sequence[str | Path] = ()  # what is read beside manifests and model
    digest: str | None = None  # of the model, see asr.cli.identity

    @property
    def read(self) -> list[str | Path]:
        """Everything that is read: none of it may be written to."""
        from asr.recognizer import DEFAULT_BUNDLE

        return [*self.manifests, self.model, DEFAULT_BUNDLE, *self.inputs]


def evaluate_with(recognizer: Callable[[], Transcriber], asked: Asked) -> int:
    """The whole command with any recogniser, which is made only when manifests and output paths are known to be good.

    Returns the exit code: 1 if an utterance couldn't be transcribed. Raises CepstraError where nothing can be measured.
    """
    from asr.cli.identity import digest_of
    from asr.cli.outputs import check_outputs

    check_outputs([("--report", asked.report), ("--json", asked.json)], asked.read)
    rows = read_all(asked.manifests, asked.limit)
    transcriber = recognizer()
    asked = replace(asked, digest=digest_of(transcriber))
    run, evaluation = measure(transcriber, rows, asked)
    publish(run, evaluation, asked)
    return 1 if run.failures else 0


def read_all(manifests: Sequence[Path], limit: int | None = None) -> list[tuple[Path, Utterance]]:
    """Every utterance, or `limit` of each manifest at equal steps, with its manifest. Raises ManifestError."""
    from asr.errors import ManifestError
    from asr.manifest import read_manifest

    chosen: list[tuple[Path, Utterance]] = []
    for path in manifests:
        rows = read_manifest(path)
        if not rows:
            raise ManifestError(f"{path}: holds no utterance; add rows or leave it out")
        if limit is not None and limit < len(rows):
            rows = [rows[place * len(rows) // limit] for place in range(limit)]
        chosen += [(path, row) for row in rows]
    return chosen


@dataclass(frozen=True)
class Heard:
    """What was heard of one row."""

    group: str
    name: str
    utterance: Utterance
    result: Result


def transcribe_rows(
    transcriber: Transcriber, rows: Sequence[tuple[Path, Utterance]], asked: Asked
) -> tuple[list[Heard], Run]:
    """Everything that can be transcribed, in order; progress and what can't be transcribed go to the console."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    from asr.errors import CepstraError
    from asr.evaluation.run import Failure, Run, transcribe_all
    from asr.manifest.parts import are_parts, named

    console = asked.err
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("transcribing", total=len(rows))

        utterances = [utterance for _, utterance in rows]
        manifests = {id(utterance): path for path, utterance in rows}

        def done(utterance: Utterance, answer: Result | CepstraError) -> None:
            progress.advance(task)
            if isinstance(answer, CepstraError):
                where = f"{manifests[id(utterance)]}:{utterance.line}"
                console.print(Text(f"{where}: {answer}"), soft_wrap=True)

        transcripts = transcribe_all(transcriber, utterances, done=done)
    failures: list[Failure] = []
    heard: list[Heard] = []
    answered = zip(rows, are_parts(utterances), _sounds(rows), transcripts.answers, strict=True)
    for (path, utterance), part, sound, answer in answered:
        name = named(sound, utterance, part=part)
        if isinstance(answer, CepstraError):
            failures.append(Failure(name, str(answer).replace(str(utterance.audio_filepath), sound)))
        else:
            heard.append(Heard(group_of(utterance, path, asked.by), name, utterance, answer))
    return heard, Run(
        model=asked.model,
        manifests=tuple(str(path) for path in asked.manifests),
        by=asked.by.value,
        settings=asked.settings,
        audio_seconds=sum(each.result.duration for each in heard),
        wall_seconds=transcripts.wall_seconds,
        failures=tuple(failures),
        digest=asked.digest,
    )


def _sounds(rows: Sequence[tuple[Path, Utterance]]) -> list[str]:
    """What each row's sound is called: as its manifest has it, or in full where two manifests mean different files."""
    from asr.manifest.parts import within

    names = [within(utterance, path) for path, utterance in rows]
    meant: dict[str, set[Path]] = {}
    for name, (_, utterance) in zip(names, rows, strict=True):
        meant.setdefault(name, set()).add(utterance.audio_filepath)
    return [
        name if len(meant[name]) == 1 else str(utterance.audio_filepath)
        for name, (_, utterance) in zip(names, rows, strict=True)
    ]


def measure(transcriber: Transcriber, rows: Sequence[tuple[Path, Utterance]], asked: Asked) -> tuple[Run, Evaluation]:
    """Transcribe and score."""
    from asr.evaluation.scoring import score

    heard, run = transcribe_rows(transcriber, rows, asked)
    evaluation = score(
        [each.utterance.text for each in heard],
        [each.result.text for each in heard],
        names=[each.name for each in heard],
        groups=[each.group for each in heard],
        seconds=[each.result.duration for each in heard],
    )
    return run, evaluation


def publish(run: Run, evaluation: Evaluation, asked: Asked) -> None:
    """The summary on the console, and the files asked for. Raises CepstraError where one can't be written."""
    from asr.evaluation.table import summary
    from asr.evaluation.webpage import html_report

    asked.out.print(summary(evaluation, run))
    write_files(asked, lambda: {"run": run.to_dict(), **evaluation.to_dict()}, lambda: html_report(evaluation, run))


def write_files(asked: Asked, figures: Callable[[], dict[str, Any]], report: Callable[[], str]) -> None:
    """The files asked for. Raises CepstraError where one can't be written."""
    from rich.text import Text

    from asr.files import write_atomically
    from asr.writers import to_json

    if asked.json is not None:
        write_atomically(asked.json, to_json(figures(), indent=1) + "\n")
        asked.out.print(Text(f"Figures: {asked.json}"), soft_wrap=True)
    if asked.report is not None:
        write_atomically(asked.report, report())
        asked.out.print(Text(f"Report: {asked.report}"), soft_wrap=True)


def group_of(utterance: Utterance, manifest: Path, by: By) -> str:
    """Which row of the table: the source (the manifest's name where a row states none), or the speaker."""
    if by is By.SPEAKER:
        return utterance.speaker or "(unknown)"
    return utterance.source or manifest.stem
