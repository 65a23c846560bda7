"""Sounds without a word, to be learnt from as such: `silences.py NOISE.jsonl HEARD.jsonl HELD.jsonl`.

Folds 4 and 5 of ESC's and every other of the long recordings are held out, to see what becomes of noise that wasn't
learnt from. The line between words and noise is drawn with all of them. What is learnt from comes whole and as a second
or two about the loudest place: words are as short.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from asr.manifest import Utterance, read_manifest, write_manifest
from audio.reading import read_audio
from audio.speech import frame_energies

RATE = 16000
PIECE = 5.0  # seconds, of long recordings
FOLDS = "123"  # of events that are learnt from: the first letter of their files' names


def main() -> None:
    """Divide and cut."""
    source, heard_path, held_path = map(Path, sys.argv[1:])
    rows = list(read_manifest(source))
    events = [row for row in rows if row.source == "events"]
    background = sorted((row for row in rows if row.source == "background"), key=lambda row: row.audio_filepath)
    draw = np.random.default_rng(12)
    heard = [row for row in events if row.audio_filepath.name[0] in FOLDS]
    held = [row for row in events if row.audio_filepath.name[0] not in FOLDS] + background[1::2]
    short = [_loudest(row, draw.uniform(0.8, 2.5)) for row in heard]
    write_manifest(heard_path, heard + short + [piece for row in background[::2] for piece in _pieces(row)])
    write_manifest(held_path, held)


def _loudest(row: Utterance, seconds: float) -> Utterance:
    samples = read_audio(row.audio_filepath, sample_rate=RATE, offset=row.offset, duration=row.duration)
    peak = int(np.argmax(frame_energies(samples, RATE // 100))) / 100
    start = min(max(0.0, peak - seconds / 2), max(0.0, row.duration - seconds))
    return replace(row, offset=round(row.offset + start, 3), duration=round(min(seconds, row.duration), 3))


def _pieces(row: Utterance) -> list[Utterance]:
    return [replace(row, offset=PIECE * i, duration=PIECE) for i in range(int(row.duration // PIECE))]


if __name__ == "__main__":
    main()
