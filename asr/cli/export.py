"""`cepstra export`: a bundle out of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    checkpoint: Annotated[Path, typer.Argument(help="best.ckpt of a training run.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The bundle to write.")] = Path("model.cepstra"),
    name: Annotated[str | None, typer.Option(help="What the model is called; the file's name without this.")] = None,
    half: Annotated[
        bool, typer.Option(help="Keep the weights in float16: half the size, computed in float32.")
    ] = False,
) -> None:
    """Turn a checkpoint into one file that runs without torch, checked against torch first."""
    from asr.cli.extras import needs
    from asr.writers import check_writable

    needs("train", "torch", "onnx", "onnxscript")
    check_writable(output)
    from rich.console import Console

    from export.convert import BOUND
    from export.convert import export as run
    from export.graphs import OPSET

    console = Console(stderr=True)
    with console.status("exporting"):
        parity = run(checkpoint, output, name=name, half=half)
    print(
        f"{output}: {output.stat().st_size / 1e6:.1f} MB, opset {OPSET}; largest difference from torch over "
        f"{parity.utterances} utterances: encoder {parity.encoder:.1e}, decoder {parity.decoder:.1e} (bound {BOUND})"
    )
