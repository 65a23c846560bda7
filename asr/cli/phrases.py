"""`cepstra phrases`: what a file of sentences says, and what in it may surprise."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.phrases.check import Report

phrases_app = typer.Typer(
    name="phrases", help="Files of the sentences that may be said (see docs/phrases.md).", no_args_is_help=True
)


@phrases_app.callback()
def _phrases() -> None:
    """Files of the sentences that may be said (see docs/phrases.md)."""


@phrases_app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The phrase file: YAML, text or JSGF.", show_default=False)],
    *,
    model: Annotated[Path | None, typer.Option(metavar="BUNDLE", help="Without it, the model that ships.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--draw", metavar="SVG", help="Draw the graph of the words.", show_default=False)
    ] = None,
    intent: Annotated[
        str | None, typer.Option(metavar="NAME", help="The only intent to draw.", show_default=False)
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Sentences to print.")] = 5,
    seed: Annotated[int, typer.Option(help="Another one draws others.")] = 0,
) -> None:
    """Count the sentences, and list what is hard to hear or means two things. Exit code 1 if the file is faulty."""
    from asr.bundle import read_bundle
    from asr.cli.outputs import check_outputs
    from asr.errors import CepstraError
    from asr.files import write_atomically
    from asr.phrases import PhraseSet
    from asr.phrases import check as checking
    from asr.phrases.drawing import draw
    from asr.recognizer import DEFAULT_BUNDLE
    from asr.writers import to_json

    if intent is not None and picture is None:
        raise CepstraError("--intent says what --draw draws; give both")
    if picture is not None and picture.suffix.lower() != ".svg":
        raise CepstraError(f"--draw {picture}: the picture is SVG; give a name that ends with .svg")
    check_outputs([("--draw", picture)], [file, model])
    phrases = PhraseSet.read(file)
    report = checking.check(phrases, read_bundle(model or DEFAULT_BUNDLE).tokenizer, samples, seed)
    if picture is not None:
        write_atomically(picture, draw(phrases, intent))
    if as_json:
        print(to_json({"file": str(file), **as_dict(report)}, indent=1))
        return
    print("\n".join(_lines(str(file), report)))


def as_dict(report: Report) -> dict[str, object]:
    """For JSON: names and plain values."""
    found = {key: value for key, value in vars(report).items() if not isinstance(value, tuple)}
    return found | {
        "hard_words": {word.word: list(word.pieces) for word in report.hard_words},
        "alike": [pair._asdict() for pair in report.alike],
        "ambiguities": [ambiguity._asdict() for ambiguity in report.ambiguities],
        "rewritten": dict(report.rewritten),
        "unused": list(report.unused),
        "untagged": list(report.untagged),
        "samples": [asdict(command) for command in report.samples],
    }


def _lines(name: str, report: Report) -> Iterator[str]:
    from asr.phrases.findings import kinds

    sizes = (report.sentences, "sentence"), (report.intents, "intent"), (report.words, "word")
    yield f"{name}: " + ", ".join(_many(number, what) for number, what in sizes)
    yield f"graph: {report.states} states, {report.arcs} arcs, {report.bytes / 1000:.1f} kB"
    for kind in kinds(report):
        yield f"{kind.title}:"
        yield from (f"  {finding}" for finding in kind.findings)
        if kind.more:
            yield f"  … and {kind.more} more (--json has all)"
        if kind.remedy:
            yield f"  remedy: {kind.remedy}"
    if report.samples:
        yield "for example:"
    for command in report.samples:
        yield f"  {command.sentence!r}: {command.intent} {to_slots(command.slots)}".rstrip()


def to_slots(slots: dict[str, str | int | float | bool]) -> str:
    """Slots as they are read: room=kitchen, percent=50."""
    return ", ".join(f"{name}={value}" for name, value in slots.items())


def _many(number: int, what: str) -> str:
    return (f"{number:,}" if number < 10**15 else f"about {number:.2e}") + f" {what}{'' if number == 1 else 's'}"
