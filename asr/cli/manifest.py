"""`cepstra manifest`: check, import, split and count recordings."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.cli.messages import complain, naming
from asr.cli.progress import progress_bar
from asr.errors import ManifestError
from asr.manifest.check_settings import CheckSettings, SoundLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from asr.manifest.faults import Fault
    from asr.manifest.records import Utterance
    from asr.manifest.stats import Stats

manifest_app = typer.Typer(
    name="manifest",
    help="Check, import, split and count recordings (JSON lines).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class Layout(StrEnum):
    """The corpora that `import` reads; without one it looks which it is."""

    COMMON_VOICE = "common-voice"
    LJSPEECH = "ljspeech"
    TABLE = "table"
    KALDI = "kaldi"
    FOLDER_PER_WORD = "folder-per-word"
    AUDIOFOLDER = "audiofolder"


class By(StrEnum):
    """What `split` keeps together."""

    SPEAKER = "speaker"
    FILE = "file"


Manifests = Annotated[
    list[Path], typer.Argument(metavar="MANIFEST", help="One JSON object per line.", show_default=False)
]
Language = Annotated[str, typer.Option(metavar="CODE", help="Language of the texts, for the normaliser.")]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Threads that open sounds; one per core without it.")
]

_LIMITS = SoundLimits()


@manifest_app.command()
def check(
    manifests: Manifests,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    language: Language = "en",
    audio: Annotated[bool, typer.Option(help="Open the sounds, not just the rows.")] = True,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A fault that is all right, by the name in brackets; may be repeated."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Seconds that a duration may be off.")
    ] = _LIMITS.duration_tolerance,
    max_rate: Annotated[
        float, typer.Option(min=0, metavar="N", help="Characters per second that may be spoken.")
    ] = CheckSettings.max_characters_per_second,
    clipped: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="Share of samples that may stand at full scale.")
    ] = _LIMITS.clipped_share,
    silence: Annotated[
        float, typer.Option(max=0, metavar="DBFS", help="Level that the loudest 50 ms must reach.")
    ] = _LIMITS.silence_dbfs,
    workers: Workers = None,
) -> None:
    """List everything that is wrong with manifests, alone and together.

    The exit code is 1 if there are errors.

    With several manifests, or rows that say their split, the same sound or speaker on two sides is a fault.
    """
    from asr.manifest.check import check_manifests

    with naming("--ignore"):
        settings = CheckSettings(
            language=language,
            audio=audio,
            max_characters_per_second=max_rate,
            sound=SoundLimits(tolerance, clipped, silence),
            ignore=tuple(ignore or ()),
        )
    with progress_bar("checking sounds") as (start, advance):
        report = check_manifests(manifests, settings, workers=workers, start=start, progress=advance)
    if json:
        _print_json(report.to_dict())
    else:
        _list(report.faults)
        warnings = len(report.faults) - report.errors
        found = f"{_counted(report.errors, 'error')}, {_counted(warnings, 'warning')}" if report.faults else "no faults"
        typer.echo(f"{_counted(report.rows, 'row')}, {report.seconds / 3600:.2f} h: {found}")
    if report.errors:
        raise typer.Exit(1)


@manifest_app.command("import")
def import_(
    corpus: Annotated[
        Path,
        typer.Argument(metavar="CORPUS", help="A folder, or a CSV, TSV or JSON lines file.", show_default=False),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MANIFEST", help="The manifest to write.", show_default=False)
    ],
    layout: Annotated[Layout | None, typer.Option(help="What it is; seen from the files without this.")] = None,
    audio_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of sound files, in a table.")
    ] = None,
    text_column: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of texts.")] = None,
    speaker_column: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of speakers.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A further column to keep; may be repeated.")
    ] = None,
    speaker: Annotated[str | None, typer.Option(metavar="NAME", help="Speaker of the rows that name none.")] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--speaker-pattern",
            metavar="REGEX",
            help="Finds the speaker in FOLDER/FILE of a sound: a regular expression with one group.",
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the set, written into each row.")] = None,
    skip_faulty: Annotated[bool, typer.Option("--skip-faulty", help="Leave out what can't be a row.")] = False,
    workers: Workers = None,
) -> None:
    """Make a manifest of a corpus in another form. Sounds stay where they are."""
    from asr.cli.outputs import check_outputs
    from asr.manifest.faults import has_errors
    from asr.manifest.importers import ImportOptions, detect, import_corpus, is_of_corpus, speaker_pattern
    from asr.manifest.records import write_manifest

    check_outputs([("--output", output)], [corpus, *([output] if is_of_corpus(output, corpus) else [])])
    with naming("--speaker-pattern"):
        by_name = None if pattern is None else speaker_pattern(pattern)
    options = ImportOptions(audio_column, text_column, speaker_column, tuple(keep or ()), speaker, source, by_name)
    chosen = str(layout) if layout else detect(corpus)
    with progress_bar(f"importing ({chosen})") as (_, advance):
        utterances, faults = import_corpus(corpus, chosen, options, workers=workers, progress=advance)
    _list(faults, err=True)
    if has_errors(faults) and not skip_faulty:
        problem = f"{_counted(sum(fault.severity == 'error' for fault in faults), 'row')} can't be used"
        raise ManifestError(
            f"{corpus}: {problem}: mend them, or leave them out with --skip-faulty; nothing was written"
        )
    if not utterances:
        raise ManifestError(f"{corpus}: no row can be used: nothing was written")
    write_manifest(output, utterances)
    typer.echo(f"{output}: {_summary(utterances)}, read as {chosen}")
    if nameless := sum(row.speaker is None for row in utterances):
        remedy = "--speaker-pattern finds one in file names, --speaker-column in a table, --speaker NAME is one for all"
        typer.echo(f"warning: {_counted(nameless, 'row')} got no speaker: {remedy}", err=True)


@manifest_app.command()
def split(
    manifest: Annotated[Path, typer.Argument(metavar="MANIFEST", help="The manifest to divide.", show_default=False)],
    *,
    into: Annotated[
        str, typer.Option(metavar="NAME=SHARE,...", help="Names and shares of the splits, by the number of speakers.")
    ] = "train=0.9,dev=0.05,test=0.05",
    seed: Annotated[int, typer.Option(metavar="N", help="Another one draws otherwise.")] = 0,
    by: Annotated[By, typer.Option(help="What stays together; by file where there is but one speaker.")] = By.SPEAKER,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for MANIFEST.train.jsonl and so on; the manifest's own without it."
        ),
    ] = None,
    one_file: Annotated[
        Path | None,
        typer.Option(
            metavar="MANIFEST", help="Write one manifest, whose rows say their split, instead of one per split."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Rows that already say their split stay there.")] = False,
) -> None:
    """Divide a manifest by speaker into train, dev and test.

    It gives the same each time, and nobody moves when rows are added.
    """
    from asr.cli.outputs import check_outputs
    from asr.files import make_folder, real_path
    from asr.manifest.records import read_manifest, write_manifest
    from asr.manifest.split import divide, parse_shares

    rows = read_manifest(manifest)
    if not rows:
        raise ManifestError(f"{manifest}: has no rows: nothing to divide")
    folder, by_file = real_path(manifest.parent), by is By.FILE
    with naming("--into:"):
        shares = parse_shares(into)
    rows = divide(rows, shares, seed=seed, folder=folder, keep=keep, by_file=by_file)
    groups: dict[str, list[Utterance]] = {name: [] for name in shares}
    for row in rows:
        groups.setdefault(str(row.split), []).append(row)
    outputs = (
        [one_file]
        if one_file
        else [(output_dir or manifest.parent) / f"{manifest.stem}.{name}.jsonl" for name in groups]
    )
    _tell_of_shares(rows, shares, lambda other: divide(rows, shares, seed=other, folder=folder, by_file=by_file))
    if output_dir is not None:
        make_folder(output_dir)
    check_outputs([("--one-file" if one_file else "--output-dir", output) for output in outputs], [manifest])
    for output, group in zip(outputs, [rows] if one_file else groups.values(), strict=True):
        write_manifest(output, group)
    for number, (name, group) in enumerate(groups.items()):
        where = f"{outputs[0]}, {name}" if one_file else str(outputs[number])
        typer.echo(f"{where}: {_summary(group)}")
    nameless = sum(row.speaker is None for row in rows)
    if nameless and not by_file:
        verb = "has" if nameless == 1 else "have"
        typer.echo(
            f"warning: {_counted(nameless, 'row')} {verb} no speaker and went by sound file: "
            "the same person may be on two sides",
            err=True,
        )


@manifest_app.command()
def stats(
    manifests: Manifests,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a histogram of lengths (.png, .svg, .pdf).")
    ] = None,
    language: Language = "en",
) -> None:
    """Count hours, rows, speakers and words, by source."""
    from asr.cli.outputs import check_outputs
    from asr.manifest.records import iter_manifest
    from asr.manifest.stats import count, plot_lengths
    from audio.plots import picture_format

    check_outputs([("--plot", plot)], manifests)
    if plot is not None:
        with naming("--plot"):
            picture_format(plot)
    total, by_source = count((row for path in manifests for row in iter_manifest(path)), language)
    if plot is not None:
        plot_lengths(plot, by_source)
    if json:
        _print_json({**total.to_dict(), "sources": {name: one.to_dict() for name, one in by_source.items()}})
        return
    _print_table(total, by_source)
    common = ", ".join(f"{word} ({times})" for word, times in total.vocabulary.most_common(12))
    typer.echo(f"most common words: {common or 'none'}")


def _print_table(total: Stats, by_source: dict[str, Stats]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("source")
    for column in ("rows", "hours", "speakers", "words", "vocabulary", "words/row", "median s", "p95 s", "longest s"):
        table.add_column(column, justify="right")
    for name, one in [*by_source.items(), ("all", total)] if len(by_source) > 1 else by_source.items():
        figures = (one.rows, f"{one.hours:.2f}", len(one.speakers), one.words, len(one.vocabulary))
        lengths = one.lengths()
        seconds = (f"{lengths[name]:.2f}" for name in ("median", "p95", "longest"))
        table.add_row(name, *map(str, figures), f"{one.words_per_row:.1f}", *seconds)
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.print(table)
    if total.without_speaker:
        typer.echo(f"{_counted(total.without_speaker, 'row')} without a speaker")


def _list(faults: Sequence[Fault], *, err: bool = False) -> None:
    for fault in faults:
        typer.echo(f"{fault.severity}: {fault} [{fault.code}]", err=err)


def _print_json(values: object) -> None:
    import json

    typer.echo(json.dumps(values, ensure_ascii=False, indent=2))


def _summary(utterances: Sequence[Utterance]) -> str:
    hours = sum(utterance.duration for utterance in utterances) / 3600
    speakers = len({utterance.speaker for utterance in utterances} - {None})
    return f"{_counted(len(utterances), 'row')}, {hours:.2f} h, {_counted(speakers, 'speaker')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


FAR = 0.2  # of all rows: a share that is off by more is told


def _tell_of_shares(
    rows: Sequence[Utterance], shares: Mapping[str, float], again: Callable[[int], Sequence[Utterance]]
) -> None:
    """Warn where few speakers leave a split far from its share, and name a seed that comes nearer."""

    def off(divided: Sequence[Utterance]) -> float:
        counts = Counter(str(row.split) for row in divided)
        return max(abs(counts[name] / len(divided) - share) for name, share in shares.items())

    here = off(rows)
    if here <= FAR:
        return
    found: dict[int, float] = {}
    for seed in range(50 if len(rows) <= 5000 else 0):
        with suppress(ManifestError):  # a split that would stay empty
            found[seed] = off(again(seed))
    best = min(found, key=lambda seed: found[seed], default=None)
    nearer = best is not None and found[best] < here - 0.05
    complain(
        "warning: the shares are far from what was asked for, since whole speakers are moved"
        + (f"; --seed {best} comes nearer" if nearer else "; --by file divides recordings instead")
    )
