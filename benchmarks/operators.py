"""Which operators of a bundle's graphs take how long: ONNX Runtime's own profile, one thread.

    python benchmarks/operators.py [BUNDLE ...] [--seconds 2.15] [--new-tokens 16]

Profiling itself takes time, a few microseconds for each operator: the whole is measured without it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime as ort
from rich.console import Console
from rich.table import Table

from asr.bundle import Bundle, read_bundle
from asr.recognizer import DEFAULT_BUNDLE

RUNS = 100
SHOWN = 10


def feeds(bundle: Bundle, seconds: float, new_tokens: int) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """What each graph is given: noise of so many seconds, and so many tokens after eight others."""
    rng = np.random.default_rng(0)
    samples = (0.1 * rng.normal(size=(1, int(seconds * bundle.front_end.sample_rate)))).astype(np.float32)
    model = bundle.model
    positions = model.memory_length(bundle.front_end.frames(samples.shape[1]))
    old = "lengths" in {value.name for value in _session(bundle.encoder).get_inputs()}  # format 1
    sound = {"samples": samples, **({"lengths": np.array([samples.shape[1]])} if old else {})}
    shape = (model.decoder_layers, 1, model.heads, positions, model.d_model // model.heads)
    memory = rng.normal(size=shape).astype(np.float32)
    past = np.ascontiguousarray(memory[:, :, :, :8])
    tokens = np.full(1, 5) if old else np.full((1, new_tokens), 5)
    text = {"tokens": tokens, "past_k": past, "past_v": past, "memory_k": memory, "memory_v": memory}
    return {"encoder": sound, "decoder": {**text, "lengths": np.array([positions])}}


def _session(graph: bytes, profile: str | None = None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def measure(graph: bytes, inputs: dict[str, Any]) -> tuple[float, Counter[str], Counter[str]]:
    """Milliseconds in all, then by kind of operator milliseconds and how many there are."""
    session = _session(graph)
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        session = _session(graph, str(Path(folder) / "profile"))
        for _ in range(RUNS):
            session.run(None, inputs)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    spent, count = Counter[str](), Counter[str]()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            spent[event["args"]["op_name"]] += event["dur"] / RUNS / 1000
            count[event["args"]["op_name"]] += 1
    return 1000 * median(times), spent, Counter({kind: n // RUNS for kind, n in count.items()})


def main() -> None:
    """Print a table for each graph of each bundle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", nargs="*", type=Path, default=[DEFAULT_BUNDLE])
    parser.add_argument("--seconds", type=float, default=2.15)
    parser.add_argument("--new-tokens", type=int, default=16)
    asked = parser.parse_args()
    console = Console()
    for path in asked.bundles:
        bundle = read_bundle(path)
        for part, inputs in feeds(bundle, asked.seconds, asked.new_tokens).items():
            whole, spent, count = measure(getattr(bundle, part), inputs)
            table = Table(title=f"{path.name}, {part}: {whole:.2f} ms, {sum(count.values())} operators")
            for column in ("operator", "how many", "ms, profiled"):
                table.add_column(column, justify="left" if column == "operator" else "right")
            for kind, milliseconds in spent.most_common(SHOWN):
                table.add_row(kind, str(count[kind]), f"{milliseconds:.2f}")
            rest = [kind for kind, _ in spent.most_common()[SHOWN:]]
            table.add_row("others", str(sum(count[k] for k in rest)), f"{sum(spent[k] for k in rest):.2f}")
            console.print(table)


if __name__ == "__main__":
    main()
