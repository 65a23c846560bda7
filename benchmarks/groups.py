"""Whom a model understands worse: error rates by pitch of voice and by rate of speech.

  cepstra evaluate TEST.jsonl... --json figures.json
  python benchmarks/groups.py figures.json TEST.jsonl... [--least 100]

Within each source, recordings are cut into thirds by median pitch (librosa's YIN over voiced frames, 65 to 500 Hz) and
by letters per second. Prints the word error rate of each third with its 95 % interval (bootstrap over utterances).
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import librosa
import numpy as np

from asr.manifest import read_manifest
from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from asr.manifest import Utterance

RATE = 16000
LOWEST, HIGHEST = 65.0, 500.0  # Hz
FRAME = 1024  # samples
RESAMPLES = 1000


def main() -> None:
    """A table per source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path)
    parser.add_argument("manifests", type=Path, nargs="+")
    parser.add_argument("--least", type=int, default=100, help="recordings of a source that is told of")
    arguments = parser.parse_args()
    figures = json.loads(arguments.figures.read_text(encoding="utf-8"))
    errors = {each["name"]: each for each in figures["utterances"]}
    print("| source | by | lowest third | middle | highest | limits |\n|---|---|---|---|---|---|")
    for manifest in arguments.manifests:
        named = [(errors.get(row.written), row) for row in read_manifest(manifest) if row.text]
        rows = [row for each, row in named if each]
        if not rows:
            raise SystemExit(f"{manifest}: none of its recordings is in {arguments.figures}; evaluate it first")
        if len(rows) < arguments.least:
            continue
        counts = np.array([_counts(each) for each, _ in named if each])  # (N, 2): errors, words
        for what, values, unit in (("pitch", _pitches(rows), "Hz"), ("rate", _rates(rows), "letters/s")):
            print(f"| {rows[0].source} | {what} | {_thirds(values, counts, unit)} |")


def _counts(utterance: dict[str, Any]) -> tuple[int, int]:
    return utterance["words"]["errors"], utterance["words"]["reference"]


def _pitches(rows: Sequence[Utterance]) -> NDArray[np.float64]:
    """Median pitch in Hz of each recording's louder half of frames; not-a-number where nothing is voiced."""
    found = []
    for row in rows:
        sound = read_audio(row.audio_filepath, sample_rate=RATE, offset=row.offset, duration=row.duration)
        sound = np.pad(sound, (0, max(0, 2 * FRAME - len(sound))))
        pitch = librosa.yin(sound, fmin=LOWEST, fmax=HIGHEST, sr=RATE, frame_length=FRAME)
        energy = librosa.feature.rms(y=sound, frame_length=FRAME, hop_length=FRAME // 4)[0][: len(pitch)]
        voiced = (energy >= np.median(energy)) & (pitch > LOWEST * 1.02) & (pitch < HIGHEST * 0.98)
        found.append(float(np.median(pitch[voiced])) if voiced.any() else np.nan)
    return np.array(found)


def _rates(rows: Sequence[Utterance]) -> NDArray[np.float64]:
    """Letters per second: slow speech, or a long pause around it, has few."""
    return np.array([len(row.text.replace(" ", "")) / max(0.1, row.duration) for row in rows])


def _thirds(values: NDArray[np.float64], counts: NDArray[np.int64], unit: str) -> str:
    known = np.isfinite(values)
    edges = np.quantile(values[known], [0, 1 / 3, 2 / 3, 1])
    cells = []
    for i, (low, high) in enumerate(pairwise(edges)):
        inside = known & (values >= low) & ((values <= high) if i == 2 else (values < high))
        cells.append(_rate_with_interval(counts[inside]))
    return f"{' | '.join(cells)} | {edges[1]:.0f} and {edges[2]:.0f} {unit}"


def _rate_with_interval(counts: NDArray[np.int64]) -> str:
    rng = np.random.default_rng(0)
    drawn = counts[rng.integers(len(counts), size=(RESAMPLES, len(counts)))].sum(axis=1)  # (RESAMPLES, 2)
    low, high = np.quantile(drawn[:, 0] / np.maximum(1, drawn[:, 1]), [0.025, 0.975])
    errors, words = counts.sum(axis=0)
    return f"{100 * errors / max(1, words):.1f} ({100 * low:.1f} to {100 * high:.1f})"


if __name__ == "__main__":
    main()
