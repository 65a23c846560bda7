"""Whether a bundle writes what its checkpoint writes: every utterance of manifests through torch and ONNX Runtime.

  python benchmarks/agreement.py CHECKPOINT BUNDLE MANIFEST… [--beam 1]

Prints the word error rate of both for each manifest, and how many texts differ; the first ten of those are shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track
from rich.table import Table

from asr.bundle import read_bundle
from asr.evaluation.scoring import score
from asr.manifest import read_manifest
from asr.model.backend import TorchBackend
from asr.runtime import OnnxBackend
from asr.search import SearchOptions, decode
from asr.training.checkpoint import read_checkpoint
from audio.reading import read_audio

if TYPE_CHECKING:
    from asr.search import Backend


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("manifests", type=Path, nargs="+")
    parser.add_argument("--beam", type=int, default=1)
    arguments = parser.parse_args()
    trained, bundle = read_checkpoint(arguments.checkpoint), read_bundle(arguments.bundle)
    backends: tuple[Backend, Backend] = (TorchBackend(trained.model), OnnxBackend(bundle, threads=2))
    options = SearchOptions(beam=arguments.beam, ctc_weight=0.3 if arguments.beam > 1 else 0.0)
    console = Console()
    table = Table("manifest", "utterances", "WER torch %", "WER ONNX %", "texts that differ")
    different: list[tuple[str, str]] = []
    for manifest in arguments.manifests:
        rows = sorted(read_manifest(manifest), key=lambda row: row.duration)
        texts: tuple[list[str], list[str]] = ([], [])
        batches = [rows[start : start + 8] for start in range(0, len(rows), 8)]
        for batch in track(batches, description=manifest.name, console=console, transient=True):
            clips = [read_audio(r.audio_filepath, offset=r.offset, duration=r.duration) for r in batch]
            for backend, out in zip(backends, texts, strict=True):
                hypotheses = decode(backend, backend.encode(clips), [len(c) / 16000 for c in clips], options)
                out += [bundle.tokenizer.decode(h.tokens) for h in hypotheses]
        unequal = [pair for pair in zip(*texts, strict=True) if pair[0] != pair[1]]
        different += unequal
        rates = [score([r.text for r in rows], out, resamples=0).total.wer or 0.0 for out in texts]
        table.add_row(manifest.stem, str(len(rows)), *(f"{100 * rate:.2f}" for rate in rates), str(len(unequal)))
    console.print(table)
    for ours, theirs in different[:10]:
        console.print(f"torch: {ours}\nONNX:  {theirs}", markup=False)


if __name__ == "__main__":
    main()
