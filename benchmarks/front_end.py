"""How fast the front end is: numpy, torch and ONNX beside librosa and torchaudio, one thread each, in one run.

    python benchmarks/front_end.py [--repeats 200] [--json out.json]

All are given the same noise and, where not said otherwise, compute 40 cepstra of 25 ms frames every 10 ms. Each repeat
runs every contestant once, in a new order, so that whatever else the machine does falls on all alike; the figures are
medians over the repeats. threadpoolctl comes with librosa.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import librosa
import numpy as np
import onnxruntime as ort
import torch
import torchaudio
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no annotations

from audio.mfcc import MfccSpec, mfcc
from audio.mfcc_torch import Mfcc

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = (1, 2, 10)
BASELINE = "librosa.feature.mfcc"


def exported(module: Mfcc) -> ort.InferenceSession:
    """The torch module as an ONNX session of one thread."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    dynamic = torch.export.Dim.DYNAMIC
    program = torch.onnx.export(
        module,
        (torch.zeros(2, 2000), torch.tensor([2000, 1500])),
        input_names=["samples", "lengths"],
        dynamic_shapes=({0: dynamic, 1: dynamic}, {0: dynamic}),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return ort.InferenceSession(program.model_proto.SerializeToString(), options)


def contestants(samples: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, Callable[[], object]]:
    """Each computes the cepstra of the samples, from a numpy array to an array or tensor."""
    spec = MfccSpec()
    module = Mfcc(spec).eval()
    session = exported(module)
    lengths = np.array([len(samples)])
    options: dict[str, Any] = {"n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 40}
    transform = torchaudio.transforms.MFCC(sample_rate=16000, n_mfcc=40, melkwargs=options)
    kaldi = torchaudio.compliance.kaldi.mfcc
    return {
        "numpy": lambda: mfcc(samples, spec),
        "torch": lambda: module(torch.from_numpy(samples)[None], torch.from_numpy(lengths)),
        "ONNX Runtime": lambda: session.run(None, {"samples": samples[None], "lengths": lengths}),
        BASELINE: lambda: librosa.feature.mfcc(y=samples, sr=16000, n_mfcc=40, **options),
        "librosa, its defaults": lambda: librosa.feature.mfcc(y=samples, sr=16000),
        "torchaudio.transforms.MFCC": lambda: transform(torch.from_numpy(samples)),
        "torchaudio kaldi.mfcc": lambda: kaldi(torch.from_numpy(samples)[None], num_ceps=40, num_mel_bins=40),
    }


def measure(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each run of each function, interleaved."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    generator = np.random.default_rng(0)
    for repeat in range(repeats + 3):
        for name in generator.permutation(list(functions)):
            start = time.perf_counter()
            functions[str(name)]()
            if repeat >= 3:  # caches and arenas are warm by then
                times[name].append(time.perf_counter() - start)
    return times


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the medians, in milliseconds")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    medians: dict[str, dict[int, float]] = {}
    with threadpool_limits(1), torch.inference_mode():
        for seconds in SECONDS:
            samples = (0.1 * rng.standard_normal(16000 * seconds)).astype(np.float32)
            for name, times in measure(contestants(samples), arguments.repeats).items():
                medians.setdefault(name, {})[seconds] = statistics.median(times) * 1000
    print(
        f"{'one thread; median of ' + str(arguments.repeats):30}" + "".join(f"{s:>6} s clip    ratio" for s in SECONDS)
    )
    for name, row in medians.items():
        cells = "".join(f"{row[s]:9.2f} ms {row[s] / medians[BASELINE][s]:8.2f}" for s in SECONDS)
        print(f"{name:30}{cells}")
    print(f"ratio: time over that of {BASELINE}; below 1 is faster")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(medians, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
