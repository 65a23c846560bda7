"""`cepstra export`: a bundle out of a checkpoint, or weights to go on from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from export.convert import Exported


class Graph(StrEnum):
    """What the graphs of a model are put together to."""

    STREAMING = "streaming"


def export(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="best.ckpt of a training run, last.ckpt of one that goes on, or weights (.safetensors).",
        ),
    ],
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE",
            help="The bundle to write; FILE.safetensors takes the weights alone, in float16, to train on from.",
        ),
    ] = Path("model.cepstra"),
    graph: Annotated[
        Graph | None,
        typer.Option(
            metavar="streaming", show_default=False,
            help="Write the encoder alone, as an ONNX file (FILE.onnx) that takes sound while it comes; for models "
            "whose layers all have windows.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What the model is called; the file's name without this.")
    ] = None,
    half: Annotated[
        bool, typer.Option("--half", help="Keep the weights in float16: half the size, computed in float32.")
    ] = False,
    int8: Annotated[
        bool,
        typer.Option("--int8", help="Matrix products in 8 bits: a quarter of the size, and faster."),
    ] = False,
    manifest: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="With --int8 or --half: recordings over which the error rate is compared with that of float32.",
            show_default=False,
        ),
    ] = None,
    max_wer_loss: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="POINTS", show_default="0.3",
            help="With --manifest: nothing is written where the word error rate rises by more.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Turn a checkpoint into one file that runs without torch.

    What it says is compared with the checkpoint first.
    """
    from asr.cli.extras import needs
    from asr.cli.outputs import check_outputs

    alone = output.suffix == ".safetensors"
    manifests = manifest or []
    _check_together(alone=alone, half=half, int8=int8, measured=bool(manifests), bounded=max_wer_loss is not None)
    if graph is Graph.STREAMING:
        _check_streaming(output, rounded=half or int8)
    needs("train", "torch", "onnx", "onnxscript", "safetensors")
    check_outputs([("--output", output)], [checkpoint, *manifests])
    if graph is Graph.STREAMING:
        _export_streaming(checkpoint, output, name)
        return
    from rich.console import Console

    size = f"{output}: {{:.1f}} MB"
    with Console(stderr=True).status("loading") as status:
        from export.convert import export as run
        from export.convert import export_weights
        from export.loss import MAX_WER_LOSS

        if alone:
            export_weights(checkpoint, output)
            print(
                size.format(output.stat().st_size / 1e6)
                + ", weights in float16; start_from in training settings takes them"
            )
            return
        exported = run(
            checkpoint, output, name=name, precision="int8" if int8 else "float16" if half else "float32",
            manifests=manifests, max_wer_loss=MAX_WER_LOSS if max_wer_loss is None else max_wer_loss,
            stage=status.update,
        )  # fmt: skip
    print(size.format(output.stat().st_size / 1e6) + f", {_told(exported)}")


def _check_together(*, alone: bool, half: bool, int8: bool, measured: bool, bounded: bool) -> None:
    """Raise BadParameter for options that say nothing, or contradict each other."""
    if half and int8:
        raise typer.BadParameter("--half is another precision; give either", param_hint="--int8")
    if alone and (int8 or measured):
        raise typer.BadParameter(
            "weights to train on from are always float16; give a bundle as --output, FILE.cepstra",
            param_hint="--int8" if int8 else "--manifest",
        )
    if measured and not (half or int8):
        raise typer.BadParameter("says nothing without --int8 or --half", param_hint="--manifest")
    if bounded and not measured:
        raise typer.BadParameter("says nothing without --manifest", param_hint="--max-wer-loss")


def _check_streaming(output: Path, *, rounded: bool) -> None:
    """Raise BadParameter for what a streaming encoder can't be."""
    if rounded:
        raise typer.BadParameter("a streaming encoder is in float32; leave --half and --int8 out", param_hint="--graph")
    if output.suffix != ".onnx":
        raise typer.BadParameter(
            f"{output}: a streaming encoder is an ONNX file; name it FILE.onnx", param_hint="--output"
        )


def _export_streaming(checkpoint: Path, output: Path, name: str | None) -> None:
    """Write the graph, and say what delay it has."""
    from rich.console import Console

    with Console(stderr=True).status("exporting the encoder"):
        from export.convert import BOUND
        from export.streaming import export_streaming

        shape, difference = export_streaming(checkpoint, output, name=name)
    print(
        f"{output}: {output.stat().st_size / 1e6:.1f} MB; {1000 * shape.delay:.0f} ms behind the sound, in blocks of "
        f"{1000 * shape.block / shape.spec.sample_rate:.0f} ms; largest difference from torch, which has the whole "
        f"sound at once: {difference:.1e} (bound {BOUND})"
    )


def _told(exported: Exported) -> str:
    from export.convert import BOUND
    from export.graphs import OPSET

    parity, rounded, precision = exported.parity, exported.rounded, exported.precision
    text = (
        f"opset {OPSET}; largest difference from torch over {parity.utterances} utterances: "
        f"encoder {parity.encoder:.1e}, decoder {parity.decoder:.1e} (bound {BOUND})"
    )
    if rounded is None:
        return text
    text += f"; with {precision} weights {rounded.encoder:.1e}, {rounded.decoder:.1e}"
    if not exported.losses:
        unknown = f"\nword error rate in {precision}: not measured; --manifest FILE compares it with that of float32"
        return text + (unknown if precision == "int8" else "")
    told = "; ".join(loss.told(precision) for loss in exported.losses)
    return f"{text}\nword error rate over {exported.losses[0].utterances} utterances: {told}"
