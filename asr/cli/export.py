"""`cepstra export`: a bundle out of a checkpoint, or weights to go on from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.bundle import Bundle
    from asr.manifest.records import Utterance
    from export.convert import Exported


class Graph(StrEnum):
    """What the graphs of a model are put together to."""

    ALL_IN_ONE = "all-in-one"
    STREAMING = "streaming"


def export(
    checkpoint: Annotated[
        Path | None,
        typer.Argument(
            metavar="CHECKPOINT", show_default=False,
            help="best.ckpt of a training run, last.ckpt of one that goes on, weights (.safetensors), or, "
            "with --graph all-in-one, a bundle; the one that ships without it.",
        ),
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", show_default="model.cepstra",
            help="The bundle to write; FILE.safetensors takes the weights alone, in float16, to train on from.",
        ),
    ] = None,
    graph: Annotated[
        Graph | None,
        typer.Option(
            metavar="KIND", show_default=False,
            help="An ONNX file (FILE.onnx) in place of a bundle. all-in-one: samples in, text out, in any language "
            "that ONNX Runtime has. streaming: the encoder alone, which takes sound while it comes; for models whose "
            "layers all have windows.",
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

    if checkpoint is None:
        checkpoint = _shipped(graph)
    if output is None:
        output = Path(_WRITTEN[graph])
    alone = output.suffix == ".safetensors"
    manifests = manifest or []
    _check_together(alone=alone, half=half, int8=int8, measured=bool(manifests), bounded=max_wer_loss is not None)
    _check_kind(checkpoint, output, graph)
    if graph is Graph.ALL_IN_ONE and checkpoint.suffix == ".cepstra":
        _check_ready(name=name, half=half, int8=int8, measured=bool(manifests))
        _of_bundle(checkpoint, output)
        return
    if graph is Graph.STREAMING:
        _check_streaming(output, rounded=half or int8)
    needs("train", "torch", "onnx", "onnxscript", "safetensors")
    check_outputs([("--output", output)], [checkpoint, *manifests])
    development: list[Utterance] = []
    if manifests:
        from asr.cli.messages import naming
        from export.loss import read_development

        with naming("--manifest"):
            development = read_development(manifests)  # what is wrong with them is said before minutes of work
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
            development=development, max_wer_loss=MAX_WER_LOSS if max_wer_loss is None else max_wer_loss,
            stage=status.update, write=_writer(graph),
        )  # fmt: skip
    print(size.format(output.stat().st_size / 1e6) + f", {_told(exported)}")


_WRITTEN: dict[Graph | None, str] = {
    Graph.ALL_IN_ONE: "model.onnx",
    Graph.STREAMING: "model.stream.onnx",
    None: "model.cepstra",
}


def _shipped(graph: Graph | None) -> Path:
    """The model that ships, of which one graph can be made; anything else is made of a checkpoint."""
    from asr.recognizer import DEFAULT_BUNDLE

    if graph is not Graph.ALL_IN_ONE:
        raise typer.BadParameter("give best.ckpt of a training run, or weights (.safetensors)", param_hint="CHECKPOINT")
    return DEFAULT_BUNDLE


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


def _check_kind(checkpoint: Path, output: Path, graph: Graph | None) -> None:
    """Raise BadParameter where the endings of the files promise something else than what is read or written."""
    if graph is None and output.suffix == ".onnx":
        raise typer.BadParameter(
            f"{output}: a bundle is no ONNX file; add --graph all-in-one, or name it FILE.cepstra",
            param_hint="--output",
        )
    if graph is None and checkpoint.suffix == ".cepstra":
        raise typer.BadParameter(
            f"{checkpoint}: a bundle is exported already; --graph all-in-one makes one ONNX file of it",
            param_hint="CHECKPOINT",
        )
    if graph is Graph.STREAMING and checkpoint.suffix == ".cepstra":
        raise typer.BadParameter(
            f"{checkpoint}: a bundle's encoder needs the whole sound; give the checkpoint of a model whose layers all "
            "have windows",
            param_hint="CHECKPOINT",
        )
    if graph is Graph.ALL_IN_ONE and output.suffix != ".onnx":
        raise typer.BadParameter(f"{output}: one graph is an ONNX file; name it FILE.onnx", param_hint="--output")


def _check_ready(*, name: str | None, half: bool, int8: bool, measured: bool) -> None:
    """Raise BadParameter for options that a bundle has settled."""
    for option, given in (("--name", name is not None), ("--half", half), ("--int8", int8), ("--manifest", measured)):
        if given:
            raise typer.BadParameter(
                "a bundle has its name and precision already; give the checkpoint or weights that it was made of",
                param_hint=option,
            )


def _of_bundle(path: Path, output: Path) -> None:
    """Write the one graph of a bundle, and say so."""
    from asr.cli.extras import needs_alone
    from asr.cli.outputs import check_outputs

    needs_alone("onnx")
    check_outputs([("--output", output)], [path])
    from rich.console import Console

    with Console(stderr=True).status("putting the graphs together"):
        from asr.bundle import read_bundle
        from export.one_graph import SECONDS, write_one_graph

        bundle = read_bundle(path)
        write_one_graph(output, bundle)
    print(
        f"{output}: {output.stat().st_size / 1e6:.1f} MB, {bundle.precision} weights; "
        f"in {len(SECONDS)} sounds it finds what the bundle finds"
    )


def _writer(graph: Graph | None) -> Callable[[Path, Bundle], None]:
    if graph is None:
        from asr.bundle import write_bundle

        return write_bundle
    from export.one_graph import write_one_graph

    return write_one_graph


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
    from export.standard import OPSET

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
