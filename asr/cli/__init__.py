"""The command line: where everything is put together."""

from __future__ import annotations

import sys

import typer

from asr.cli.evaluate import evaluate
from asr.cli.train import train
from asr.errors import CepstraError

app = typer.Typer(
    name="cepstra",
    help="Spoken commands in sound files to text.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(evaluate)
app.command()(train)


def main() -> None:
    """Entry of the `cepstra` command: what a user can mend is said in one line, without a traceback."""
    try:
        app()
    except CepstraError as error:
        sys.stderr.write(f"cepstra: {error}\n")
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
