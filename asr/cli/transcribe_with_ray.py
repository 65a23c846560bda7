"""`cepstra transcribe --engine ray`: a manifest in blocks, on many machines, and on from where it stopped."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asr.cli.guidance import naming_inputs
from asr.cli.messages import complain, in_options, naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from asr.batch.run import Done


class Engine(StrEnum):
    """Where recognisers run."""

    LOCAL = "local"
    RAY = "ray"


EngineOption = Annotated[
    Engine,
    typer.Option("--engine", help="ray: workers on many machines, for a long --manifest; goes on if interrupted."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="With --engine ray: the cluster's head, or auto; without it, this machine alone.",
        show_default=False,
    ),
]


# Of a recogniser, whose results depend on them
_SETTINGS = ("beam", "threshold", "lm_weight", "channel", "max_seconds", "speech_detection")


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM came."""


def transcribe_with_ray(
    context: typer.Context,
    *,
    files: list[str],
    manifest: Path | None,
    folder: Path | None,
    address: str | None,
    recognizer: Callable[[], dict[str, Any]],
    read: Mapping[str, Sequence[Path]],
) -> None:
    """Write folder/results.jsonl.

    context: tells what stands on the command line. recognizer: gives the arguments of one. read: options and the files
    that they name, which results depend on. Raises typer.BadParameter for what doesn't go with --engine ray,
    typer.Exit, and CepstraError.
    """
    manifest, folder = _checked(context, files, manifest, folder)
    from asr.cli.extras import needs

    needs("ray", "ray", "pyarrow", "pandas")
    from asr.asked import digest_of
    from asr.batch.parts import Folder
    from asr.batch.ray_engine import RayEngine
    from asr.batch.run import transcribe
    from asr.cli.progress import counting_bar
    from asr.recognizer import DEFAULT_BUNDLE, Recognizer

    options = recognizer()
    with naming_inputs(read["model"][0] if read["model"] else None):
        Recognizer(threads=1, **options)  # what is wrong with them is said here, not by every worker
    raw = options["raw"]
    given = {key: paths for key, paths in {**read, "model": read["model"] or [DEFAULT_BUNDLE]}.items() if paths}
    asked: dict[str, object] = {key: " ".join(map(digest_of, paths)) for key, paths in given.items()}
    asked |= {key: options.get(key) for key in _SETTINGS} | {"raw": None if raw is None else str(raw)}
    so_far = (0, 0)
    try:
        with naming("" if address is None else "--address"):
            engine = RayEngine(manifest, options, address)
        with _sigterm_interrupts(), counting_bar("transcribing") as show, engine:

            def progress(done: int, total: int) -> None:
                nonlocal so_far
                so_far = done, total
                show(done, total)

            done = transcribe(manifest.absolute(), Folder(folder), asked, engine, progress=progress, say=complain)
    except KeyboardInterrupt as stop:
        rows = f"{so_far[0]} of {so_far[1]} rows done" if so_far[1] else "nothing done"
        complain(f"interrupted; {rows}; the same command goes on")
        raise typer.Exit(143 if isinstance(stop, _TerminatedError) else 130) from None
    _report(done, Folder(folder).results)


def _checked(context: typer.Context, files: list[str], manifest: Path | None, folder: Path | None) -> tuple[Path, Path]:
    def given(parameter: str) -> bool:
        source = context.get_parameter_source(parameter)
        return source is not None and source.name == "COMMANDLINE"

    if files or manifest is None:
        problem = "ray takes the rows of a --manifest, and no files; `cepstra manifest import` makes one of a folder"
        raise typer.BadParameter(problem, param_hint="--engine")
    if folder is None:
        problem = "ray writes into a folder, from which it goes on; name one with --output-dir"
        raise typer.BadParameter(problem, param_hint="--engine")
    if given("format_") and context.params["format_"] != "json":
        problem = "ray writes one file for all rows, in json; leave --format out"
        raise typer.BadParameter(problem, param_hint="--engine")
    if given("threads"):
        raise typer.BadParameter("ray has a worker with one thread per core; leave it out", param_hint="--threads")
    return manifest, folder


def _report(done: Done, results: Path) -> None:
    for reason in done.reasons:
        complain(in_options(reason))
    if done.failures > len(done.reasons):
        complain(f"and {done.failures - len(done.reasons)} more failed")
    if done.failures:
        complain(f"{done.failures} of {done.rows} rows failed; the same command tries them again")
    typer.echo(f"{results}: {done.rows} rows")
    if done.failures:
        raise typer.Exit(1)


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
