"""`cepstra synthesize`: recordings of sentences that nobody has spoken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from asr.synthesis import Made

SHOWN = 20  # failures


def _list_engines(wanted: bool) -> None:
    if not wanted:
        return
    from audio.synthesis import KINDS, EngineSpec, open_engine
    from audio.synthesis.catalogue import why_missing

    for name, kind in KINDS.items():
        if name == "cmd":
            typer.echo(f"{name:8} {kind.about}")
        elif (why := why_missing(name, {})) is not None:
            typer.echo(f"{name:8} {kind.about}; not there: {why}\n{'':8} install it: {kind.install}")
        else:
            engine = open_engine(EngineSpec(name, name))
            many = "any number of speakers" if engine.makes_speakers else f"{len(engine.voices)} voices"
            typer.echo(f"{name:8} {kind.about}; there, {many}")
    raise typer.Exit


def synthesize(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PHRASES|TEXT",
            help="A phrase file, a file with a text per line (perhaps behind its domain and a tab), or a text.",
            show_default=False,
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="For sound and manifests.", show_default=False)
    ],
    count: Annotated[int, typer.Option(min=0, metavar="N", help="Utterances; 0: each text once.")] = 0,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="hibari, kokoro, piper, flite, espeak, perhaps with a weight (hibari=3), or a program: "
            "'cmd: mytts {text} {out}'. May be repeated; without it, all that are installed.",
            show_default=False,
        ),
    ] = None,
    engines: Annotated[  # noqa: ARG001  its callback does it
        bool, typer.Option("--engines", callback=_list_engines, is_eager=True, help="List the engines and end.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Another one draws other voices.")] = 0,
    split: Annotated[
        str | None,
        typer.Option(metavar="NAME=SHARE,...", help="Several manifests without a common voice.", show_default=False),
    ] = None,
    hold_out: Annotated[
        list[str] | None,
        typer.Option(
            "--hold-out-engine",
            metavar="NAME",
            help="Speaks in the test split alone, and nobody else there; may be repeated.",
            show_default=False,
        ),
    ] = None,
    vary: Annotated[
        bool, typer.Option("--vary/--clean", help="Rooms, noise and silence around the speech, as for a test set.")
    ] = False,
    noises: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Noise for --vary: a folder of recordings, or a manifest.", show_default=False
        ),
    ] = None,
    rooms: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Rooms for --vary: impulse responses, as --noises.", show_default=False),
    ] = None,
    piper_model: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A voice of piper (.onnx); may be repeated.", show_default=False),
    ] = None,
    kokoro: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Kokoro's model; CEPSTRA_KOKORO without it.", show_default=False),
    ] = None,
    language: Annotated[str, typer.Option(metavar="CODE", help="Language of the texts.")] = "en",
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, metavar="N", help="Processes; one per core without it.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Throw away what the folder holds of an earlier run.")
    ] = False,
) -> None:
    """Speak sentences with synthetic voices, to train and test with.

    Interrupted and started again, it goes on where it stopped. The exit code is 1 if an engine failed.
    """
    from asr.cli.messages import complain, naming
    from asr.cli.progress import progress_bar
    from asr.manifest.split import parse_shares
    from asr.synthesis import choose_engines, prompts_from
    from asr.synthesis import synthesize as run

    with naming("--split"):
        shares = None if split is None else parse_shares(split)
    specs = choose_engines(engine or [], language=language, kokoro=kokoro, piper_models=piper_model or [])
    prompts = prompts_from(source, count, seed=seed, language=language)
    so_far = (0, len(prompts))
    with progress_bar("speaking") as (start, advance):

        def show(done: int, total: int) -> None:
            nonlocal so_far
            start(total)
            advance(done - so_far[0])
            so_far = done, total

        try:
            made = run(
                prompts, output, count=count, engines=specs, seed=seed, split=shares, hold_out=hold_out or (),
                vary=vary, noises=noises, rooms=rooms, language=language, workers=workers, restart=restart,
                progress=show, say=complain,
            )  # fmt: skip
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = False
    if interrupted:
        how = "the same command" + (" without --restart" if restart else "")
        complain(f"interrupted; {so_far[0]} of {so_far[1]} made; {how} goes on")
        raise typer.Exit(130)
    _report(made)
    if made.failures:
        raise typer.Exit(1)


def _report(made: Made) -> None:
    from asr.cli.messages import complain

    for failure in made.failures[:SHOWN]:
        complain(failure)
    if len(made.failures) > SHOWN:
        complain(f"and {len(made.failures) - SHOWN} more failed")
    if made.failures:
        complain(f"{len(made.failures)} of {made.asked} utterances failed; the same command tries them again")
    for engine, reason in made.stood_in.items():
        complain(f"warning: {engine} failed now and then, and other voices stood in: {reason}")
    if made.left_out:
        reasons = ", ".join(f"{number} {reason}" for reason, number in made.left_out.most_common())
        complain(f"warning: left out, since sound and text can't belong together: {reasons}")
    for name, path in made.manifests.items():
        typer.echo(f"{path}: {made.rows[name]} utterances, {made.seconds[name] / 60:.1f} min")
