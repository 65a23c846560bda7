"""Cuts sentences into runs of a few words by forced alignment, so that training can begin with short utterances.

  pip install pocketsphinx
  python segments.py IN.jsonl OUT.jsonl

OUT holds every row of IN and, for each sentence that could be aligned, two sets of rows with an offset that cover it:
runs of one to three words, and runs of two to six. Words outside the dictionary (CMUdict) leave their sentence uncut.
Alignment is about 30 times faster than real time on one core; rows done so far are kept in OUT.words.jsonl, and an
interrupted run goes on from there.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from pocketsphinx import Decoder

from asr.errors import CepstraError
from asr.manifest import Utterance, read_manifest, write_manifest
from asr.text import normalise
from audio.reading import read_audio

FRAME = 0.01  # seconds: PocketSphinx's times are in these
MARGIN = 0.04  # seconds kept around a run of words, since boundaries are not that sure
RUNS = ((1, 3), (2, 6))  # least and most words of a run, for each covering of the sentence

_decoder: Any = None


def align(utterance: Utterance) -> list[tuple[str, float, float]] | None:
    """Each word with its start and end in seconds, or None where the sentence can't be aligned."""
    global _decoder  # noqa: PLW0603  one per process: loading the acoustic model takes a while
    if _decoder is None:
        _decoder = Decoder(lm=None, loglevel="FATAL")
    text = normalise(utterance.text)
    if any(_decoder.lookup_word(word) is None for word in text.split()):
        return None
    try:
        samples = read_audio(utterance.audio_filepath, offset=utterance.offset, duration=utterance.duration)
        _decoder.set_align_text(text)
        _decoder.start_utt()
        _decoder.process_raw((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes(), full_utt=True)
        _decoder.end_utt()
        if _decoder.hyp() is None:
            return None
        spans = [(s.word, s.start_frame * FRAME, (s.end_frame + 1) * FRAME) for s in _decoder.seg()]
    except (CepstraError, RuntimeError):
        return None
    # Alternative pronunciations are called word(2); silences are in angle brackets or brackets
    words = [(w.partition("(")[0], start, end) for w, start, end in spans if w[0] not in "<["]
    return words if [w for w, _, _ in words] == text.split() else None


def runs(words: list[tuple[str, float, float]], least: int, most: int, rng: Random) -> list[tuple[str, float, float]]:
    """The sentence cut into runs of least to most words (the last may be shorter)."""
    cut: list[tuple[str, float, float]] = []
    while words:
        count = rng.randint(least, most)
        taken, words = words[:count], words[count:]
        cut.append((" ".join(w for w, _, _ in taken), taken[0][1], taken[-1][2]))
    return cut


def main() -> None:
    """Read, align, cut, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rows = read_manifest(arguments.manifest)
    words_file = arguments.output.with_name(arguments.output.name + ".words.jsonl")
    done = [json.loads(line) for line in words_file.read_text().splitlines()] if words_file.exists() else []
    with words_file.open("a") as log, ProcessPoolExecutor() as pool:
        for words in pool.map(align, rows[len(done) :], chunksize=8):
            done.append(words)
            log.write(json.dumps(words) + "\n")
            log.flush()
    rng = Random(arguments.seed)  # noqa: S311  reproducible, not secret
    written = list(rows)
    for row, words in zip(rows, done, strict=True):
        for least, most in RUNS if words and len(words) > 1 else ():
            for text, start, end in runs(words, least, most, rng):
                offset = max(0.0, start - MARGIN)
                duration = min(row.duration, end + MARGIN) - offset
                written.append(
                    replace(row, text=text, offset=round(row.offset + offset, 3), duration=round(duration, 3))
                )
    write_manifest(arguments.output, written)
    print(f"{sum(w is not None for w in done)} of {len(rows)} aligned, {len(written)} rows written")


if __name__ == "__main__":
    main()
