"""What encoding while the sound comes costs, beside encoding the whole of it: seconds and memory.

  python benchmarks/streaming.py [--seconds 60 600] [--blocks 0.03 0.3 1 5] [--threads 1] [--limit 6]

A model of the preset small with a window in each layer and random weights is exported both ways. Every case runs in a
process of its own, which makes noise as it needs it: the columns are milliseconds of processor time per second of sound
(whatever else the machine does), MiB that the process held at most (Linux tells), and how much of that came after the
first second of sound. One that would address more than --limit GiB is ended.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from asr.model.config import preset
from asr.model.stream_shape import StreamShape
from asr.model.transformer import Transformer
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Trained
from audio.mfcc import MfccSpec
from export.graphs import encoder_graph
from export.streaming import streaming_graph

WINDOWS = (4, 4, 8, 8, 16, 16)
MEASURE = """
import resource, sys, time
import numpy as np
from asr.runtime import open_session, run_session
from asr.streaming import EncoderStream, read_streaming
path, seconds, block, threads, limit = sys.argv[1], *map(float, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_AS, (int(limit * 2**30),) * 2)
rng, size = np.random.default_rng(0), int(16000 * seconds)
# getrusage's peak counts what the parent held, which is torch
peak = lambda: int(next(line for line in open("/proc/self/status") if "VmHWM" in line).split()[1]) / 1024
if block:
    model = read_streaming(path, threads=int(threads))
    for clip in (16000, size):  # the first warms up
        loaded, stream, start = peak(), EncoderStream(model), time.process_time()
        for at in range(0, clip, int(16000 * block)):
            stream.feed((0.1 * rng.standard_normal(int(16000 * block), np.float32)))
        stream.finish()
else:
    session = open_session(open(path, "rb").read(), "whole", int(threads))
    for clip in (16000, size):
        loaded, start = peak(), time.process_time()
        samples = 0.1 * rng.standard_normal((1, clip), np.float32)
        run_session(session, "whole", {"samples": samples})
print(1000 * (time.process_time() - start) / seconds, loaded, peak())
"""


def main() -> None:
    """Export, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, nargs="+", default=[60, 600])
    parser.add_argument("--blocks", type=float, nargs="+", default=[0.03, 0.3, 1, 5])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=6.0)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(["turn on the lights", "turn off the lights"], vocab_size=40)
    config, spec = replace(preset("small"), halve_after=0, windows=WINDOWS), MfccSpec(normalisation="running")
    trained = Trained(Transformer(config, spec, tokenizer.vocab_size).eval(), tokenizer, "en", {})
    delay = StreamShape(config, spec).delay
    table = Table(title=f"windows {list(WINDOWS)}: {delay:.2f} s behind the sound; {arguments.threads} threads")
    for column in ("sound s", "block s", "ms per s", "MiB", "MiB above a second's"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        whole, step = Path(folder) / "whole.onnx", Path(folder) / "step.onnx"
        whole.write_bytes(encoder_graph(trained.model))
        step.write_bytes(streaming_graph(trained, "small"))
        for seconds in arguments.seconds:
            for block in (*arguments.blocks, 0.0):
                values = [str(v) for v in (seconds, block, arguments.threads, arguments.limit)]
                command = [sys.executable, "-c", MEASURE, str(step if block else whole), *values]
                run = subprocess.run(command, capture_output=True, text=True, check=False)
                row = [f"{seconds:g}", f"{block:g}" if block else "whole"]
                if run.returncode:
                    table.add_row(*row, run.stderr.strip().splitlines()[-1][:60])
                    continue
                took, loaded, peak = map(float, run.stdout.split())
                table.add_row(*row, f"{took:.1f}", f"{peak:.0f}", f"{peak - loaded:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
