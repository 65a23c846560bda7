"""One change at a time from levers.yaml: `levers.py levers.yaml` runs what hasn't been run, and prints the table.

The first three runs differ by chance alone (another seed): what a change brings must be more than these are apart.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
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
    "40, then 80 ms": ["model.stride=4"],
    "halved after 1 layer": ["model.halve_after=1"],
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
    "Muon, rate 1e-3": ["optimiser.learning_rate=1e-3"],
    "Muon, rate 4e-3": ["optimiser.learning_rate=4e-3"],
    "weight decay 0.1": ["optimiser.weight_decay=0.1"],
    "scores free": ["optimiser.qk_clip=0"],
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
    path = Path(sys.argv[1])
    settings = yaml.safe_load(path.read_text())
    data: dict[str, list[str]] = {}
    for name, words in WITHOUT.items():
        left = [each for each in settings["data"]["train"] if not any(word in each["manifest"] for word in words)]
        data[name] = [f"data.train={json.dumps(left)}"]
    folder = path.parent / Path(settings["output"]).parent
    print("| change | words wrong | averaged checkpoints | characters wrong | minutes |\n|---|---|---|---|---|")
    for name in (*LEVERS, *WITHOUT):
        output = folder / name.replace(" ", "-").replace(",", "")
        if not (output / "report.json").exists():
            changes = LEVERS[name] if name in LEVERS else data[name]
            subprocess.run(
                ["cepstra", "train", path, f"output={output}", *changes], check=True, stdout=subprocess.DEVNULL
            )
        print(_row(name, output), flush=True)


def _row(name: str, output: Path) -> str:
    report = json.loads((output / "report.json").read_text())
    with (output / "metrics.csv").open() as file:
        last = [row for row in csv.DictReader(file) if row.get("val/cer")][-1]
    single, average = (100 * report[f"{key}_wer"] for key in ("best_single", "averaged"))
    characters, minutes = 100 * float(last["val/cer"]), report["training_minutes"]
    return f"| {name} | {single:.1f} % | {average:.1f} % | {characters:.1f} % | {minutes:.1f} |"


if __name__ == "__main__":
    main()
