"""Gets the corpus ready for the recipe: validation rows held out by speaker, sentences cut into runs of words.

  python prepare.py CORPUS WORK

CORPUS holds SET.train.jsonl and the sound it names; WORK gets manifests/ and the recipe's settings beside them. Only
train rows are ever read.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from asr.manifest import Utterance, read_manifest, write_manifest

HERE = Path(__file__).parent
SENTENCES = ("accents", "books", "prompts", "reading", "spoken")  # those worth cutting
HELD_OUT = 0.03


def held_out(row: Utterance, *, by_speaker: bool) -> bool:
    """The same for a row or speaker whatever else the manifest holds."""
    key = row.speaker if by_speaker else f"{row.source}/{row.audio_filepath.name}"
    return int(hashlib.sha256(f"dev1{key}".encode()).hexdigest()[:8], 16) / 2**32 < HELD_OUT


def main() -> None:
    """Split, cut, copy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("work", type=Path)
    arguments = parser.parse_args()
    manifests = arguments.work / "manifests"
    manifests.mkdir(parents=True, exist_ok=True)
    for source in sorted(arguments.corpus.glob("*.train.jsonl")):
        rows = read_manifest(source)
        # A set of a few speakers can't spare one: its recordings are held out, not its people
        by_speaker = len({row.speaker for row in rows}) >= 20 and all(row.speaker for row in rows)
        validation = [row for row in rows if held_out(row, by_speaker=by_speaker)]
        training = [row for row in rows if not held_out(row, by_speaker=by_speaker)]
        name = source.name.partition(".")[0]
        write_manifest(manifests / f"{name}.train.jsonl", training)
        if validation:
            write_manifest(manifests / f"{name}.dev.jsonl", validation)
        print(f"{name}: {len(training)} rows to train on, {len(validation)} held out")
    for name in SENTENCES:
        train, cut = manifests / f"{name}.train.jsonl", manifests / f"{name}.segments.jsonl"
        if train.exists():
            subprocess.run([sys.executable, HERE / "segments.py", train, cut], check=True)
    noise = arguments.corpus / "noise.jsonl"
    if noise.exists():
        write_manifest(manifests / "noise.jsonl", read_manifest(noise))
    for settings in HERE.glob("*.yaml"):
        shutil.copy(settings, arguments.work)
    print(f"next: cepstra train {arguments.work / 'first.yaml'}, then second.yaml")


if __name__ == "__main__":
    main()
