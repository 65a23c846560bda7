"""`cepstra serve`: a bundle as a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    *,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where to listen; 127.0.0.1 without it.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, metavar="N", help="TCP port; 8765 without it.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The bundle to use; without it, the one that ships.")
    ] = None,
    phrases: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A phrase file that clients may name; may be repeated.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where uploaded phrase sets are kept across restarts.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, metavar="N", help="Processes that decode; one for each core.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=256, metavar="N", help="CPU threads of each.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, max=64, metavar="N", help="Hypotheses kept by the search.")] = None,
    wyoming: Annotated[
        str | None, typer.Option(metavar="URI", help="tcp://HOST:PORT for Home Assistant and other Wyoming clients.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A YAML file of settings; docs/service.md lists them.")
    ] = None,
) -> None:
    """A service: OpenAI's interface, commands, streams, a page.

    Settings also come from a file and from CEPSTRA_SERVE_… in the environment. SIGHUP reads the bundle again.
    """
    from asr.cli.extras import needs

    needs("serve", "fastapi", "uvicorn", "websockets", "wyoming", "prometheus_client", "pydantic_settings",
          "python_multipart")  # fmt: skip
    from asr.service.server import serve as run
    from asr.service.settings import load

    given = {
        "host": host, "port": port, "model": model, "phrases": phrases, "state": state, "workers": workers,
        "threads": threads, "beam": beam, "wyoming": wyoming,
    }  # fmt: skip
    run(load(config, {name: value for name, value in given.items() if value not in (None, [])}))
