"""One change at a time from levers.yaml, each in some minutes, and a table of what they come to.

  python levers.py levers.yaml [JOBS]

What has been run isn't run again; JOBS at once, one thread each. The first three runs differ by chance alone (another
seed): what a change brings must be more than these are apart.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import yaml

LEVERS: dict[str, list[str]] = {
    "seed 1": [],
    "seed 2": ["seed=2"],
    "seed 3": ["seed=3"],
    "preset tiny": ["preset=tiny"],
    "preset base": ["preset=base"],
    "30 ms all the way": ["model.halve_after=0", "model.windows=[4,4,8,16]"],
    "20, then 40 ms": ["model.stride=2"],
    "no splicing": ["model.splice=0"],
    "no windows": ["model.windows=[]"],
    "13 cepstra": ["front_end.n_cepstra=13"],
    "20 cepstra": ["front_end.n_cepstra=20"],
    "CTC 0.2": ["loss.ctc_weight=0.2"],
    "CTC 0.8": ["loss.ctc_weight=0.8"],
    "vocabulary 64": ["vocab_size=64"],
    "vocabulary 256": ["vocab_size=256"],
    "no label smoothing": ["loss.label_smoothing=0"],
    "AdamW": ["optimiser.name=adamw"],
    "dropout 0.1": ["model.dropout=0.1"],
    "no change of speed and pitch": ["augmentation.speed_probability=0"],
    "no noise, rooms, telephone": [
        "augmentation.noise_probability=0", "augmentation.room_probability=0",
        "augmentation.narrow_band_probability=0",
    ],
    "no masks": ["spec_augment.band_masks=0", "spec_augment.time_masks=0"],
    "32 bits": ["precision=32-true"],
}  # fmt: skip
WITHOUT = {  # manifests by what their path holds
    "no synthetic speech": ("speech/", "spoken"),
    "no blended voices": ("spoken",),
    "no hibari": ("hibari",),
    "no books, accents, reading": ("books", "accents", "reading"),
}


def main() -> None:
    """Run and tell."""
    path, jobs = Path(sys.argv[1]).resolve(), int((*sys.argv, "1")[2])
    settings = yaml.safe_load(path.read_text())
    folder = path.parent / Path(settings["output"]).parent
    changes = dict(LEVERS)
    for name, words in WITHOUT.items():
        left = [each for each in settings["data"]["train"] if not any(word in each["manifest"] for word in words)]
        changes[name] = [f"data.train={json.dumps(left)}"]
    print("| change | words wrong | characters wrong | minutes |\n|---|---|---|---|", flush=True)
    with ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(partial(_run, path, folder), changes, changes.values()):
            print(row, flush=True)


def _run(path: Path, folder: Path, name: str, changes: list[str]) -> str:
    output = folder / name.replace(" ", "-").replace(",", "")
    if not (output / "report.json").exists():
        command = ["cepstra", "train", path, f"output={output}", *changes]
        one = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=path.parent, env=one)
    report = json.loads((output / "report.json").read_text())
    with (output / "metrics.csv").open() as file:
        last = [row for row in csv.DictReader(file) if row.get("val/cer")][-1]
    words, characters = (100 * float(last[f"val/{key}"]) for key in ("wer", "cer"))
    return f"| {name} | {words:.1f} % | {characters:.1f} % | {report['training_minutes']:.1f} |"


if __name__ == "__main__":
    main()
