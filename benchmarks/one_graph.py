"""Whether a bundle's one graph writes what the bundle writes, utterance by utterance, and how long both take.

  python benchmarks/one_graph.py BUNDLE MANIFEST… [--graph model.onnx] [--threads 1]

Without --graph it is made of the bundle first. Prints for each manifest its utterances, the texts that differ, and
milliseconds an utterance; each difference is shown. The bundle is a recogniser without speech detection; recordings
that it would cut at their pauses are given to its search whole, since a graph cuts nothing. Those of more than 30 s are
left out.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
from rich.console import Console
from rich.progress import track
from rich.table import Table

from asr.bundle import read_bundle
from asr.manifest import read_manifest
from asr.pieces import PIECE_SECONDS
from asr.recognizer import Recognizer
from asr.runtime import OnnxBackend
from asr.search import decode
from audio.reading import read_audio
from export.one_graph import OPTIONS, one_graph

LONGEST = 30.0  # seconds


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("manifests", type=Path, nargs="+")
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    bundle = read_bundle(arguments.bundle)
    options = ort.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(
        one_graph(bundle) if arguments.graph is None else arguments.graph, options, providers=["CPUExecutionProvider"]
    )
    recognizer = Recognizer(bundle, threads=arguments.threads, speech_detection=False)
    backend, rate = OnnxBackend(bundle, arguments.threads), bundle.front_end.sample_rate
    console = Console()
    table = Table("manifest", "utterances", "texts that differ", "ms, bundle", "ms, one graph")
    for manifest in arguments.manifests:
        rows = [row for row in read_manifest(manifest) if row.duration <= LONGEST]
        seconds = np.zeros(2)
        different = 0
        for row in track(rows, description=manifest.name, console=console, transient=True):
            clip = read_audio(row.audio_filepath, sample_rate=rate, offset=row.offset, duration=row.duration)
            start = time.perf_counter()
            if len(clip) <= PIECE_SECONDS * rate:
                theirs = recognizer.transcribe(clip).text
            else:
                (found,) = decode(backend, backend.encode([clip]), [len(clip) / rate], OPTIONS)
                theirs = bundle.tokenizer.decode(found.tokens)
            middle = time.perf_counter()
            (pieces,) = session.run(["pieces"], {"samples": clip[None]})
            seconds += middle - start, time.perf_counter() - middle
            ours = " ".join("".join(pieces).split())
            if ours != theirs:
                different += 1
                console.print(f"{row.audio_filepath}\n  bundle: {theirs}\n  graph:  {ours}", markup=False)
        milliseconds = [f"{value:.1f}" for value in 1000 * seconds / max(1, len(rows))]
        table.add_row(manifest.stem, str(len(rows)), str(different), *milliseconds)
    console.print(table)


if __name__ == "__main__":
    main()
