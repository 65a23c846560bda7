"""The commands put together: all of them, or the one that is wanted."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from asr.cli.usage import apply_to

# Each in a module of its own name; help lists them in this order
COMMANDS = (
    "transcribe", "listen", "serve", "evaluate", "benchmark", "features", "synthesize", "make", "train", "export",
)  # fmt: skip
GROUPS = {"bundle": ("bundle", "calibrate"), "lm": ("lm",), "manifest": ("manifest",), "phrases": ("phrases",)}


def application(only: str | None = None) -> typer.Typer:
    """only: one of COMMANDS or GROUPS, which is then all that is loaded: the rest takes a while and some memory."""
    app = typer.Typer(
        name="cepstra",
        help="Spoken commands in sound files to text.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,  # plain messages: no box that breaks file names, and help shows at once
    )
    app.callback()(_settings)
    for name in COMMANDS:
        if only in (None, name):
            app.command()(getattr(import_module(f"asr.cli.{name}"), name))
    for name, modules in GROUPS.items():
        if only in (None, name):
            group, *_ = [import_module(f"asr.cli.{module}") for module in modules]
            app.add_typer(getattr(group, f"{name}_app"))
            apply_to([getattr(group, f"{name}_app")])
    apply_to([app])
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cepstra {version('cepstra')}")
        raise typer.Exit


def _settings(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Spoken commands in sound files to text."""
