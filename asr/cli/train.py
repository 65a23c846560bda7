"""`cepstra train`: a model out of recordings."""

from __future__ import annotations

import gc
import shlex
from pathlib import Path
from typing import Annotated

import typer


def train(
    config: Annotated[Path, typer.Argument(help="Settings, in YAML; it states only what differs from the defaults.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings to change, such as steps=2000 optimiser.learning_rate=1e-3.")
    ] = None,
    *,
    restart: Annotated[bool, typer.Option(help="Throw away what the output folder holds and begin anew.")] = False,
    within_make: Annotated[bool, typer.Option("--within-make", hidden=True)] = False,  # which exports by itself
) -> None:
    """Train a model. Interrupted and started again, it goes on where it stopped."""
    from asr.cli.extras import needs
    from asr.cli.messages import complain

    needs("train", "torch", "lightning", "yaml", "matplotlib", "pydantic", "tokenizers")
    from asr.training.console import near, say
    from asr.training.run import train as run
    from asr.training.settings import load_config
    from asr.training.signals import SignalledError

    try:
        best = run(load_config(config, overrides or []), restart=restart)
        if not within_make:
            say(f"next: cepstra export {shlex.quote(near(best))} -o {shlex.quote(best.parent.name)}.cepstra")
    except SignalledError as error:
        complain(str(error))
        raise typer.Exit(error.exit_code) from None
    finally:
        gc.freeze()  # else the interpreter, before it ends, goes through all that torch has loaded: that takes seconds
