"""How fast training is: the model beside one of the same size made of torch.nn's Transformer layers, in one run.

  python benchmarks/training.py [--preset small] [--batch 20] [--seconds 2] [--repeats 15] [--threads 1] [--steps 60]

A step is what training does with a batch: front end, SpecAugment, forward, loss, backward, clipping, fused AdamW. All
variants (float32 and bfloat16, eager and compiled) take turns within each repeat, so that whatever else the machine
does falls on all alike; the figures are medians. Floating-point operations are counted by torch (matrix products and
convolutions, forward and backward). Then a short run of `cepstra train` on made-up sound, with everything that varies
it, says what share of the time goes by waiting for data. Compiling takes minutes; --no-compile leaves it out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import soundfile as sf
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from asr.model.transformer import Transformer, count_parameters
from asr.tokenizer import Tokenizer
from asr.training.data import IGNORED, Tensors
from asr.training.module import Recogniser
from asr.training.run import train
from asr.training.settings import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.training.config import TrainConfig

WARM_UP = 3  # steps of each variant before any is timed


class OfTorchLayers(nn.Module):
    """The same model with torch.nn's encoder and decoder layers in the place of ours; they have no windows."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        config = self.config = model.config
        self.spec, self.features = model.spec, model.features
        self.front_end, self.encoder, self.decoder, self.ctc_head = (
            model.front_end, model.encoder, model.decoder, model.ctc_head,
        )  # fmt: skip
        self.encoder.layers, self.decoder.layers = nn.ModuleList(), nn.ModuleList()  # type: ignore[assignment]  # none
        d, heads = config.d_model, config.heads
        shared: dict[str, Any] = {
            "dropout": config.dropout, "activation": config.activation, "batch_first": True, "norm_first": True,
        }  # fmt: skip
        self.encoder_layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, heads, config.encoder_ff, **shared) for _ in range(config.encoder_layers)
        )
        self.decoder_layers = nn.ModuleList(
            nn.TransformerDecoderLayer(d, heads, config.decoder_ff, **shared) for _ in range(config.decoder_layers)
        )

    def forward(self, features: Tensor, frames: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As Transformer.forward."""
        encoder, decoder, config = self.encoder, self.decoder, self.config
        x = encoder._embed(features)  # noqa: SLF001  what comes before the layers is the same
        per_position = config.frames_per_position
        lengths = (frames + per_position - 1) // per_position
        for i, layer in enumerate(self.encoder_layers):
            if encoder.halve is not None and i == config.halve_after:
                x = encoder.halve(x.reshape(x.shape[0], -1, 2 * config.d_model))
            there = lengths * 2 if config.halves and i < config.halve_after else lengths
            padding = torch.arange(x.shape[1]) >= there[:, None]
            x = layer(x, src_key_padding_mask=padding)
        memory = encoder.norm(x)
        y = decoder.positions(decoder.embedding(tokens) * self.config.d_model**0.5)
        later = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        for layer in self.decoder_layers:
            y = layer(y, memory, tgt_mask=later, memory_key_padding_mask=padding, tgt_is_causal=True)
        return nn.functional.linear(decoder.norm(y), decoder.embedding.weight), self.ctc_head(memory), lengths


@dataclass
class Variant:
    """One way to train, and how long its steps took."""

    name: str
    parameters: int
    flop: int  # of one step
    step: Callable[[], None]
    seconds: list[float]


def made_up_batch(batch: int, seconds: float, tokens: int, vocabulary: int) -> Tensors:
    """Noise, and text at random."""
    generator = torch.Generator().manual_seed(0)
    samples = 0.1 * torch.randn(batch, round(16000 * seconds), generator=generator)
    text = torch.randint(4, vocabulary, (batch, tokens), generator=generator)
    targets = torch.cat([text, torch.full((batch, 1), 2)], dim=1)
    inputs = torch.cat([torch.full((batch, 1), 1), text], dim=1)
    width = -(-(tokens + 1) // 8) * 8 - (tokens + 1)
    return {
        "samples": samples,
        "lengths": torch.full((batch,), samples.shape[1]),
        "inputs": nn.functional.pad(inputs, (0, width), value=2),
        "targets": nn.functional.pad(targets, (0, width), value=IGNORED),
        "target_lengths": torch.full((batch,), tokens),
        "spec_augment": True,
    }


def variant(name: str, module: Recogniser, batch: Tensors, *, bfloat16: bool, compiled: bool) -> Variant:
    """A model ready to be trained, with what one of its steps costs."""
    module.train()
    parameters = count_parameters(module.model)
    optimiser = torch.optim.AdamW(module.parameters(), 1e-4, fused=True)
    with FlopCounterMode(display=False) as counter:
        module.losses(batch)[0].backward()  # type: ignore[no-untyped-call]
    if compiled:
        module.model.compile(dynamic=False)

    def step() -> None:
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss, *_ = module.losses(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()

    full = f"{name} {'bfloat16' if bfloat16 else 'float32'} {'compiled' if compiled else 'eager'}"
    return Variant(full, parameters, counter.get_total_flops(), step, [])


def recogniser(config: TrainConfig, *, torch_layers: bool) -> Recogniser:
    """Ours, or its like."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "el", "ir")]
    tokenizer = Tokenizer.train([" ".join(syllables)] * 2, config.vocab_size)
    torch.manual_seed(0)
    module = Recogniser(config, tokenizer)
    if torch_layers:
        module.model = OfTorchLayers(module.model)  # type: ignore[assignment]  # the part of Transformer that losses need
    return module


def race(variants: list[Variant], repeats: int) -> None:
    """Let all take turns."""
    for each in variants:
        for _ in range(WARM_UP):
            each.step()
    for _ in range(repeats):
        for each in variants:
            start = time.perf_counter()
            each.step()
            each.seconds.append(time.perf_counter() - start)


def waiting(preset: str, steps: int) -> dict[str, float]:
    """A short run on made-up sound of one to four seconds: what its report says of speed and waiting."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, count in (("train", 200), ("dev", 4)):
            rows = []
            for i in range(count):
                samples = rng.normal(0, 0.1, rng.integers(16000, 64000)).astype(np.float32)
                sf.write(folder / f"{part}{i}.wav", samples, 16000)
                rows.append({"audio_filepath": f"{part}{i}.wav", "duration": len(samples) / 16000, "text": "so to say"})
            (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        settings = {
            "output": str(folder / "run"), "preset": preset, "steps": steps, "accelerator": "cpu", "average": 1,
            "optimiser": {"warmup_steps": steps},
            "data": {
                "train": [{"manifest": str(folder / "train.jsonl")}],
                "validation": [{"manifest": str(folder / "dev.jsonl")}],
                "cache": str(folder / "cache"),
            },
        }  # fmt: skip
        train(build(settings))
        report: dict[str, float] = json.loads((folder / "run" / "report.json").read_text())
        return report


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--batch", type=int, default=20, help="utterances")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each")
    parser.add_argument("--tokens", type=int, default=15, help="of each")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-compile", action="store_true", help="eager only")
    parser.add_argument("--steps", type=int, default=60, help="of the run that measures waiting; 0: none")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    console = Console()
    config = build({"preset": arguments.preset})
    compiler = not arguments.no_compile and (shutil.which("g++") or shutil.which("clang++"))
    variants = []
    for bfloat16 in (False, True):
        for compiled in (False, True) if compiler else (False,):
            for torch_layers in (False, True):
                module = recogniser(config, torch_layers=torch_layers)
                batch = made_up_batch(arguments.batch, arguments.seconds, arguments.tokens, module.tokenizer.vocab_size)
                name = "torch.nn" if torch_layers else "cepstra"
                variants.append(variant(name, module, batch, bfloat16=bfloat16, compiled=compiled))
    race(variants, arguments.repeats)
    table = Table(
        title=f"{arguments.preset}, {arguments.batch} x {arguments.seconds} s, {arguments.threads} threads, "
        f"median of {arguments.repeats} steps",
        caption="x rt: seconds of sound per second; ratio: how many times as fast as torch.nn's",
    )
    table.add_column(no_wrap=True)
    for column in ("weights", "GFLOP", "ms", "x rt", "GFLOP/s", "ratio"):
        table.add_column(column, justify="right")
    figures = {}
    for i, each in enumerate(variants):
        peer = variants[i | 1]  # of torch.nn's layers, otherwise alike
        median = statistics.median(each.seconds)
        ratio = statistics.median(theirs / ours for ours, theirs in zip(each.seconds, peer.seconds, strict=True))
        sound = arguments.batch * arguments.seconds / median
        table.add_row(
            each.name, f"{each.parameters / 1e6:.2f} M", f"{each.flop / 1e9:.1f}", f"{1000 * median:.0f}",
            f"{sound:.0f}", f"{each.flop / median / 1e9:.1f}", f"{ratio:.2f}",
        )  # fmt: skip
        figures[each.name] = {"milliseconds": 1000 * median, "x_real_time": sound, "times_torch_nn": ratio}
    console.print(table)
    if not compiler:
        console.print("nothing compiled, as told or for want of g++ and clang++")
    if arguments.steps:
        report = waiting(arguments.preset, arguments.steps)
        figures["run"] = {name: report[name] for name in ("x_real_time", "waiting_for_data")}
        console.print(
            f"a run of {arguments.steps} steps: {report['x_real_time']:.0f} s of sound per s, "
            f"{100 * report['waiting_for_data']:.1f} % of the time waiting for data"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
