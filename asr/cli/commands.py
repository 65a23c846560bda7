"""All commands, and what becomes of whatever goes wrong in them."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from asr.cli import calibrate as _calibrate  # noqa: F401  adds its command to bundle_app
from asr.cli.benchmark import benchmark
from asr.cli.bundle import bundle_app
from asr.cli.evaluate import evaluate
from asr.cli.export import export
from asr.cli.features import features
from asr.cli.listen import listen
from asr.cli.lm import lm_app
from asr.cli.make import make
from asr.cli.manifest import manifest_app
from asr.cli.messages import explain, one_line_warnings
from asr.cli.phrases import phrases_app
from asr.cli.serve import serve
from asr.cli.synthesize import synthesize
from asr.cli.train import train
from asr.cli.transcribe import transcribe
from asr.cli.usage import apply_to

app = typer.Typer(
    name="cepstra",
    help="Spoken commands in sound files to text.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain messages: no box that breaks file names, and help shows at once
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cepstra {version('cepstra')}")
        raise typer.Exit


@app.callback()
def _settings(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Spoken commands in sound files to text."""


app.command()(transcribe)
app.command()(listen)
app.command()(serve)
app.command()(evaluate)
app.command()(benchmark)
app.command()(features)
app.command()(synthesize)
app.command()(make)
app.command()(train)
app.command()(export)
for _group in (bundle_app, lm_app, manifest_app, phrases_app):
    app.add_typer(_group)
    apply_to([_group])
apply_to([app])


def run() -> None:
    """Run the command of sys.argv, and end with SystemExit. What goes wrong is said in one line, without traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # JSON and subtitles are UTF-8, whatever the terminal's language
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        with one_line_warnings():
            try:
                app(prog_name="cepstra")
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # a full disk shows here at the latest
    except BrokenPipeError:  # whoever read the output has had enough
        sys.stdout = io.StringIO()  # what is left in it would be written, and fail, once more at the end
        sys.exit(1)
    except Exception as error:  # noqa: BLE001  nobody is above who could do better
        sys.stdout = io.StringIO()
        if _interrupted(error):
            raise KeyboardInterrupt from None
        explain(error)
        sys.exit(1)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C lies behind it: libraries that load while it comes make an ImportError of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
