"""`cepstra bundle calibrate`: makes the confidence of commands true, and chooses the threshold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.cli.bundle import bundle_app

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.manifest.records import Utterance


@bundle_app.command()
def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The bundle.")],
    manifest: Annotated[
        list[Path],
        typer.Argument(
            metavar="MANIFEST", help="Recordings that it wasn't trained on, of at least some dozen sentences."
        ),
    ],
    *,
    noise: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="MANIFEST", help="Recordings without speech: also learn to tell it from noise; may be repeated.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write another bundle, and leave this one as it is."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the phrase files that are drawn.")] = 1,
    threads: Annotated[int, typer.Option(min=1, max=1024, metavar="N", help="CPU threads.")] = 2,
    speech_detection: Annotated[
        bool,
        typer.Option("--speech-detection/--no-speech-detection", help="For use with or without speech detection."),
    ] = True,
) -> None:  # fmt: skip
    """Make the confidence of commands true.

    Phrase files of several sizes are drawn from the recordings' texts, and each recording is compared with some that
    hold what it says and some that don't.
    """
    from asr.bundle import read_bundle, write_bundle
    from asr.calibration import FALSE_ACCEPTS
    from asr.calibration import calibrate as learn
    from asr.cli.messages import naming
    from asr.cli.outputs import check_outputs
    from asr.cli.progress import counting_bar
    from asr.ear_training import train_ear
    from asr.evaluation.table import percent
    from asr.hearing import FACT

    target = output or file
    check_outputs([("--output" if output else "FILE", target)], [*manifest, *(noise or [])])
    bundle = read_bundle(file)
    rows = _heard(manifest)
    with naming("--noise"):
        noises = _heard(noise or [])
    with counting_bar("listening") as show:
        lesson = train_ear(bundle, rows, noises, threads=threads, progress=show) if noises else None
        if lesson is not None:  # commands are judged by it as well
            bundle = replace(bundle, facts={**bundle.facts, FACT: lesson.ear.to_dict()})
        result = learn(
            bundle, [*rows, *noises], seed=seed, threads=threads, speech_detection=speech_detection, progress=show
        )
    write_bundle(target, replace(bundle, facts={**bundle.facts, "commands": result.judge.to_dict()}))
    total, error = result.evaluation.total, result.evaluation.calibration_error
    print(
        f"{target}: calibrated on {len(rows) + len(noises)} recordings, {len(result.evaluation.trials)} comparisons\n"
        f"threshold {result.judge.threshold:.3f}, for at most {100 * FALSE_ACCEPTS:g} % false accepts\n"
        f"on those left out in turn: {percent(total.accuracy)} % of the commands understood, "
        f"{percent(total.false_accept_rate)} % false accepts, calibration error {error or 0.0:.3f}"
    )
    if lesson is not None:
        print(
            f"noise: {lesson.noises_written} of {lesson.noises} recordings get a text; speech: {lesson.texts_lost} of "
            f"{lesson.texts} right texts are taken for noise, at normal speed, slower and faster"
        )


def _heard(manifests: Sequence[Path]) -> list[Utterance]:
    """Every row. Raises ManifestError, also where sound isn't there: each recording counts."""
    from asr.cli.evaluate import read_all
    from asr.manifest.sounds import check_sounds

    found = read_all(manifests)
    for manifest, row in found:
        check_sounds(manifest, [row])
    return [row for _, row in found]
