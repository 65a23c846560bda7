"""`cepstra export`: a bundle out of a checkpoint, or weights to go on from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from export.convert import Exported


def export(
    checkpoint: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", help="best.ckpt of a training run, or last.ckpt of one that goes on."),
    ],
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE",
            help="The bundle to write; FILE.safetensors takes the weights alone, in float16, to train on from.",
        ),
    ] = Path("model.cepstra"),
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What the model is called; the file's name without this.")
    ] = None,
    half: Annotated[
        bool, typer.Option("--half", help="Keep the weights in float16: half the size, computed in float32.")
    ] = False,
) -> None:  # fmt: skip
    """Turn a checkpoint into one file that runs without torch.

    What it says is compared with the checkpoint first.
    """
    from asr.cli.extras import needs
    from asr.cli.outputs import check_outputs

    needs("train", "torch", "onnx", "onnxscript", "safetensors")
    check_outputs([("--output", output)], [checkpoint])
    from rich.console import Console

    size = f"{output}: {{:.1f}} MB"
    with Console(stderr=True).status("loading") as status:
        from export.convert import export as run
        from export.convert import export_weights

        if output.suffix == ".safetensors":
            export_weights(checkpoint, output)
            print(
                size.format(output.stat().st_size / 1e6)
                + ", weights in float16; start_from in training settings takes them"
            )
            return
        exported = run(checkpoint, output, name=name, half=half, stage=status.update)
    print(size.format(output.stat().st_size / 1e6) + f", {_told(exported)}")


def _told(exported: Exported) -> str:
    from export.convert import BOUND
    from export.graphs import OPSET

    parity, half = exported.parity, exported.half
    text = (
        f"opset {OPSET}; largest difference from torch over {parity.utterances} utterances: "
        f"encoder {parity.encoder:.1e}, decoder {parity.decoder:.1e} (bound {BOUND})"
    )
    return text + (f"; with float16 weights {half.encoder:.1e}, {half.decoder:.1e}" if half else "")
