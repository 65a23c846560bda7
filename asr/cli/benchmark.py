"""`cepstra benchmark`: how fast a bundle is on this machine."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from asr.bundle import Bundle
    from asr.search.backend import Backend


class Against(StrEnum):
    """What the bundle is compared with."""

    ONNXRUNTIME = "onnxruntime"
    TORCH = "torch"


def benchmark(
    *,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The bundle to time; without it, the one that ships with Cepstra."),
    ] = None,
    clip: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A recording to cut clips from; without it, sample commands, joined."),
    ] = None,
    seconds: Annotated[
        list[float] | None,
        typer.Option(
            min=0.1,
            max=3600,
            metavar="SECONDS",
            help="A clip's length; may be repeated.",
            show_default="0.5, 1, 2, 5, 10, 30",
        ),
    ] = None,
    threads: Annotated[
        list[int] | None,
        typer.Option(min=1, max=1024, metavar="N", help="CPU threads; may be repeated.", show_default="1 and 2"),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Warm runs over each clip.")] = 20,
    cold_runs: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Cold starts.")] = 5,
    against: Annotated[
        Against, typer.Option(help="Beside ONNX Runtime, in turn with it: nothing, or torch (training extra).")
    ] = Against.ONNXRUNTIME,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --against torch: checkpoint or weights of the model."),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            min=20, metavar="N", help="Does memory grow? So many utterances of 0.2 to 10 s.", show_default=False
        ),
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all figures as JSON.")] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw them (.svg; .png with the training extra).")
    ] = None,
) -> None:
    """How fast a model is on this machine, and where the time goes."""
    from rich.console import Console
    from rich.text import Text

    from asr.benchmark.picture import draw, picture_format
    from asr.benchmark.run import LENGTHS, Plan, run
    from asr.benchmark.sound import shipped_sound, sound_of
    from asr.benchmark.table import summary
    from asr.bundle import read_bundle
    from asr.cli.extras import needs
    from asr.cli.messages import naming
    from asr.cli.outputs import check_outputs
    from asr.cli.progress import progress_bar
    from asr.files import write_atomically
    from asr.manifest.parallel import cores
    from asr.recognizer import DEFAULT_BUNDLE, DEFAULT_WEIGHTS
    from asr.writers import to_json

    if weights is not None and against is not Against.TORCH:
        raise typer.BadParameter("says nothing without --against torch", param_hint="--weights")
    if threads and max(threads) > cores():
        raise typer.BadParameter(f"{max(threads)}, but there are {cores()} cores", param_hint="--threads")
    if against is Against.TORCH and model is not None and weights is None:
        raise typer.BadParameter("torch needs --weights, a checkpoint of the model", param_hint="--against")
    check_outputs([("--json", json), ("--picture", picture)], [model, clip, weights, DEFAULT_BUNDLE, DEFAULT_WEIGHTS])
    with naming("--picture"):
        kind = "" if picture is None else picture_format(picture)
    if kind == "png":
        needs("train", "matplotlib")
    if against is Against.TORCH:
        needs("train", "torch", "safetensors")
    with naming("--model" if model else ""):
        bundle = read_bundle(model or DEFAULT_BUNDLE)
    with naming("--clip"):
        sound = shipped_sound() if clip is None else sound_of(clip)
    others = _torch(bundle, weights or DEFAULT_WEIGHTS) if against is Against.TORCH else None
    plan = Plan(
        lengths=tuple(dict.fromkeys(sorted(seconds or LENGTHS))),
        threads=tuple(dict.fromkeys(threads or [n for n in (1, 2) if n <= cores()])),
        runs=runs,
        cold_runs=cold_runs,
        memory=memory or 0,
    )
    with _cleaning_up(), progress_bar("timing") as (start, advance):
        start(plan.rounds)
        report = run(
            bundle, model or DEFAULT_BUNDLE, sound, plan, others=others or (lambda _threads: ()), done=advance
        )  # fmt: skip
    out = Console()
    out.print(summary(report))
    if json is not None:
        write_atomically(json, to_json(report.to_dict(), indent=1) + "\n")
        out.print(Text(f"Figures: {json}"), soft_wrap=True)
    if picture is not None:
        write_atomically(picture, draw(report, kind))
        out.print(Text(f"Picture: {picture}"), soft_wrap=True)


@contextmanager
def _cleaning_up() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does: child processes and temporary files go with it."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _torch(bundle: Bundle, weights: Path) -> Callable[[int], Sequence[tuple[str, Backend]]]:
    """The bundle's model in torch, for so many threads. Raises ConfigError for weights that aren't the bundle's."""
    from dataclasses import replace

    import torch

    from asr.errors import ConfigError
    from asr.model.backend import TorchBackend
    from asr.training.checkpoint import read_checkpoint

    trained = read_checkpoint(weights)
    same_shape = replace(trained.model.config, dropout=bundle.model.dropout) == bundle.model
    if not same_shape or trained.tokenizer.to_json() != bundle.tokenizer.to_json():
        raise ConfigError(f"{weights}: not of the same model as bundle {bundle.name}; give --weights that are")
    backend = TorchBackend(trained.model)

    def others(threads: int) -> Sequence[tuple[str, Backend]]:
        torch.set_num_threads(threads)
        return [(Against.TORCH.value, backend)]

    return others
