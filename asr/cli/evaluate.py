"""`cepstra evaluate`: how well a model hears the recordings of a manifest."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asr.cli.guidance import BoostOption, LmOption, LmWeightOption, read_guides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from asr.errors import CepstraError
    from asr.evaluation.run import Run, Transcriber
    from asr.evaluation.scoring import Evaluation
    from asr.manifest.records import Utterance
    from asr.results import Result


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
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a web page with confusions and the worst utterances.")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all figures and texts as JSON.")] = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, metavar="N", help="CPU threads.")] = 2,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Take only so many utterances of each manifest, evenly spread over it."),
    ] = None,
    by: Annotated[By, typer.Option(help="A row of the table for each of these.")] = By.SOURCE,
) -> None:
    """Word, character and sentence error rates of a model."""
    from rich.console import Console

    from asr.cli.messages import naming
    from asr.recognizer import SHIPPED

    def recognizer() -> Transcriber:
        from asr.recognizer import Recognizer

        bundle, guides = read_guides(model, lm, lm_weight, boost)
        with naming("--model" if model else ""):
            return Recognizer(bundle, threads=threads, beam=beam, **guides)

    guided = {"lm": lm and str(lm), "lm_weight": lm_weight, "boost": boost and str(boost)}

    code = evaluate_with(
        recognizer,
        manifest,
        model=SHIPPED if model is None else str(model),
        settings={"beam": beam, "threads": threads} | {k: value for k, value in guided.items() if value is not None},
        inputs=[path for path in (lm, boost) if path is not None],
        report=report,
        json=json,
        limit=limit,
        by=by,
        out=Console(),
        err=Console(stderr=True),
    )
    if code:
        raise typer.Exit(code)


def evaluate_with(
    recognizer: Callable[[], Transcriber],
    manifests: Sequence[Path],
    *,
    model: str,
    settings: dict[str, Any],
    report: Path | None,
    json: Path | None,
    limit: int | None,
    by: By,
    out: Console,
    err: Console,
    inputs: Sequence[Path] = (),
) -> int:
    """The whole command with any recogniser, which is made only when manifests and output paths are known to be good.

    Returns the exit code: 1 if an utterance couldn't be transcribed. Raises CepstraError where nothing can be measured.
    """
    from asr.cli.outputs import check_outputs

    check_outputs([("--report", report), ("--json", json)], [*manifests, model, *inputs])
    rows = read_all(manifests, limit)
    run, evaluation = measure(
        recognizer(), rows, model=model, manifests=manifests, by=by, settings=settings, console=err
    )
    publish(run, evaluation, report=report, json=json, console=out)
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


def measure(
    transcriber: Transcriber,
    rows: Sequence[tuple[Path, Utterance]],
    *,
    model: str,
    manifests: Sequence[Path],
    by: By,
    settings: dict[str, Any],
    console: Console,
) -> tuple[Run, Evaluation]:
    """Transcribe and score; progress and what can't be transcribed go to the console."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    from asr.errors import CepstraError
    from asr.evaluation.run import Failure, Run, transcribe_all
    from asr.evaluation.scoring import score
    from asr.manifest.parts import are_parts, named

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("transcribing", total=len(rows))

        def done(_: Utterance, answer: Result | CepstraError) -> None:
            progress.advance(task)
            if isinstance(answer, CepstraError):
                console.print(Text(str(answer)), soft_wrap=True)

        utterances = [utterance for _, utterance in rows]
        transcripts = transcribe_all(transcriber, utterances, done=done)
    failures: list[Failure] = []
    heard: list[tuple[str, str, Utterance, Result]] = []  # with group and name
    answered = zip(rows, are_parts(utterances), transcripts.answers, strict=True)
    for (path, utterance), part, answer in answered:
        name = named(utterance.audio_filepath, utterance, part=part)
        if isinstance(answer, CepstraError):
            failures.append(Failure(name, str(answer)))
        else:
            heard.append((group_of(utterance, path, by), name, utterance, answer))
    evaluation = score(
        [utterance.text for *_, utterance, _ in heard],
        [result.text for *_, result in heard],
        names=[name for _, name, *_ in heard],
        groups=[group for group, *_ in heard],
        seconds=[result.duration for *_, result in heard],
    )
    run = Run(
        model=model,
        manifests=tuple(str(path) for path in manifests),
        by=by.value,
        settings=settings,
        audio_seconds=evaluation.total.seconds,
        wall_seconds=transcripts.wall_seconds,
        failures=tuple(failures),
    )
    return run, evaluation


def publish(run: Run, evaluation: Evaluation, *, report: Path | None, json: Path | None, console: Console) -> None:
    """The summary on the console, and the files asked for. Raises CepstraError where one can't be written."""
    from rich.text import Text

    from asr.evaluation.table import summary
    from asr.evaluation.webpage import html_report
    from asr.files import write_atomically
    from asr.writers import to_json

    console.print(summary(evaluation, run))
    if json is not None:
        write_atomically(json, to_json({"run": run.to_dict(), **evaluation.to_dict()}, indent=1) + "\n")
        console.print(Text(f"Figures: {json}"), soft_wrap=True)
    if report is not None:
        write_atomically(report, html_report(evaluation, run))
        console.print(Text(f"Report: {report}"), soft_wrap=True)


def group_of(utterance: Utterance, manifest: Path, by: By) -> str:
    """Which row of the table: the source (the manifest's name where a row states none), or the speaker."""
    if by is By.SPEAKER:
        return utterance.speaker or "(unknown)"
    return utterance.source or manifest.stem
