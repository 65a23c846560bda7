"""`cepstra make`: a model of one's own out of a phrase file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from export.make.measuring import Figures
    from export.make.run import Made


class _Terminal:
    """Lines on standard error, and bars where people watch."""

    def say(self, line: str) -> None:
        typer.echo(line, err=True)

    def bar(self, title: str) -> AbstractContextManager[Callable[[int, int], None]]:
        from asr.cli.progress import counting_bar

        return counting_bar(title)


def make(
    phrases: Annotated[
        Path, typer.Argument(metavar="PHRASES", help="The commands: a phrase file.", show_default=False)
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The bundle to write.")
    ] = Path("model.cepstra"),
    work: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For what is made on the way; FILE.work without it.", show_default=False),
    ] = None,
    recordings: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="MANIFEST", help="Recordings of your own, which count more; may be repeated.", show_default=False
        ),
    ] = None,
    base: Annotated[
        list[Path] | None,
        typer.Option(metavar="MANIFEST", help="Other speech to learn from; may be repeated.", show_default=False),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Voices to learn from, as `cepstra synthesize --engine`; may be repeated.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int, typer.Option(min=200, max=100_000, metavar="N", help="Recordings of the commands to make.")
    ] = 1200,
    others: Annotated[
        int, typer.Option(min=200, max=100_000, metavar="N", help="Recordings of other sentences to make.")
    ] = 1200,
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="Of the training.")] = 400,
    precision: Annotated[
        Literal["int8", "float16", "float32"], typer.Option(metavar="NAME", help="int8, float16 or float32.")
    ] = "int8",
    start_from: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Weights to begin with; those that ship without it.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Another one draws other voices and batches.")] = 1,
    report: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Write a page about the commands.", show_default=False)
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Throw away what an earlier run has made.")] = False,
) -> None:  # fmt: skip
    """Make a model of your own out of a phrase file.

    Synthetic voices speak them, and the model that ships learns from that. Interrupted and started again, it goes on.
    """
    from asr.cli.extras import needs
    from asr.cli.messages import complain
    from asr.cli.outputs import check_outputs

    needs("train", "torch", "lightning", "onnx", "onnxscript", "safetensors", "pydantic", "tokenizers")
    from asr.recognizer import DEFAULT_WEIGHTS
    from asr.training.signals import SignalledError
    from export.make import MakeSettings
    from export.make import make as run

    inputs = [phrases, *(recordings or ()), *(base or ()), *([start_from] if start_from else [])]
    check_outputs([("--output", output), ("--report", report)], inputs)
    settings = MakeSettings(
        phrases, count, others, tuple(engine or ()), tuple(recordings or ()), tuple(base or ()), steps, precision,
        start_from or DEFAULT_WEIGHTS, seed=seed,
    )  # fmt: skip
    try:
        made = run(settings, output, work or output.with_name(f"{output.name}.work"), _Terminal(), restart=restart)
    except (KeyboardInterrupt, SignalledError) as error:
        complain(f"interrupted; the same command{' without --restart' if restart else ''} goes on")
        raise typer.Exit(getattr(error, "exit_code", 130)) from None
    print("\n".join(_lines(made)))
    if report is not None:
        from asr.evaluation.command_page import command_report
        from asr.files import write_atomically

        write_atomically(report, command_report(made.after.commands, made.after.run))


def _lines(made: Made) -> Iterator[str]:
    """What a person wants to know, beside what the model that ships does."""
    from asr.evaluation.table import percent

    yield f"{'held-out voices':34}{'this model':>12}{'as shipped':>12}"
    for name, figure in _ROWS.items():
        yield f"{name:34}{figure(made.after):>12}{figure(made.before):>12}"
    total = made.after.commands.total
    yield (
        f"{total.commands} recordings of commands: {total.understood} understood, {total.misunderstood} taken for "
        f"another, {total.refused} refused; {total.false_accepts} of {total.others} others taken for a command "
        f"({percent(total.false_accept_rate)} %)"
    )
    if total.commands:
        yield f"(one command more or less is {100 / total.commands:.1f} %; of held-out voices, which are synthetic too)"
    before = made.before.commands.total
    if total.understood < before.understood:
        yield (
            f"The shipped model understood more of these commands, {before.understood}: keep to it, or try more "
            "--count and --steps, another --engine, or --recordings"
        )
    yield f"{made.bundle}: {made.bundle.stat().st_size / 1e6:.1f} MB"


def _percent(rate: float | None) -> str:
    from asr.evaluation.table import percent

    return percent(rate)


_ROWS: dict[str, Callable[[Figures], str]] = {
    "commands understood, %": lambda f: _percent(f.commands.total.accuracy),
    "others taken for a command, %": lambda f: _percent(f.commands.total.false_accept_rate),
    "word errors in commands, %": lambda f: _percent(f.wer_commands),
    "word errors in other sentences, %": lambda f: _percent(f.wer_others),
    "ms for 2 s, two threads": lambda f: f"{f.milliseconds:.0f}",
    "MB": lambda f: f"{f.megabytes:.1f}",
}
