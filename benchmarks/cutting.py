"""How a long recording is best cut: rows of manifests played one after the other, with pauses, cut in several ways.

  python benchmarks/cutting.py MANIFEST… [--model BUNDLE] [--minutes 4] [--beam 1] [--seconds 60]

Rows are joined to recordings of a minute, with pauses of 0.4 to 2 s between them, in faint noise and in noise of 20 and
10 dB below the speech. Prints the word error rate for each way to cut, beside that of the rows one by one. To choose
by: use rows that are for that, never test rows.
"""

from __future__ import annotations

import argparse
import math
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import asr.pieces
from asr.evaluation.scoring import score
from asr.manifest import read_manifest
from asr.recognizer import Recognizer
from audio.reading import read_audio
from audio.speech import phrases, speech_power

RATE = 16000
LEVEL = 10 ** (-26 / 10)  # mean power of the speech, -26 dBFS
SNR_DB = (50.0, 20.0, 10.0)
WAYS = [  # pause, margin and longest piece in seconds
    (0.0, 0.0, math.inf),
    *product((0.3, 0.5, 0.65, 0.8), (0.2, 0.3, 0.4), (10.0,)),
    *product((0.5,), (0.3,), (5.0, 7.0, 15.0, 20.0)),
]


Array = NDArray[np.float32]


def main() -> None:
    """Join, cut, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", type=Path, nargs="+")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--minutes", type=float, default=4.0, help="of sound from each manifest")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each joined recording")
    parser.add_argument("--beam", type=int, default=1)
    arguments = parser.parse_args()
    asr.pieces.PIECE_SECONDS = math.inf  # cutting is done here
    recognizer = Recognizer(arguments.model, beam=arguments.beam)
    for manifest in arguments.manifests:
        rng = np.random.default_rng(0)
        rows = [row for row in read_manifest(manifest) if row.text.strip()]
        rows = [rows[i] for i in rng.permutation(len(rows))]
        clips = [read_audio(r.audio_filepath, offset=r.offset, duration=r.duration) for r in rows]
        ends = np.cumsum([len(clip) for clip in clips]) / RATE
        count = int(np.searchsorted(ends, 60 * arguments.minutes)) + 1
        clips, texts = clips[:count], [row.text for row in rows[:count]]
        clips = [clip * np.float32(np.sqrt(LEVEL / max(1e-12, speech_power(clip, RATE)))) for clip in clips]
        table = Table("pause s", "margin s", "longest s", *(f"{snr:g} dB" for snr in SNR_DB), title=manifest.name)
        alone = [one_by_one(recognizer, noisy(clips, snr, rng), texts) for snr in SNR_DB]
        table.add_row("one by one", "", "", *alone)
        joined = [join(clips, texts, arguments.seconds, snr, np.random.default_rng(1)) for snr in SNR_DB]
        for pause, margin, longest in track(
            WAYS, description=manifest.name, console=Console(stderr=True), transient=True
        ):
            rates = [in_pieces(recognizer, recordings, pause, margin, longest) for recordings in joined]
            named = ("uncut", "", "") if longest == math.inf else (f"{pause:g}", f"{margin:g}", f"{longest:g}")
            table.add_row(*named, *rates)
        Console().print(table)


def noise(rng: np.random.Generator, length: int, snr_db: float) -> Array:
    """Noise that falls by 3 dB per octave, so many dB below the speech."""
    spectrum = np.fft.rfft(rng.normal(size=length))
    pink = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 20)), length)
    scaled: Array = (pink * np.sqrt(LEVEL * 10 ** (-snr_db / 10) / np.mean(pink**2))).astype(np.float32)
    return scaled


def noisy(clips: list[Array], snr_db: float, rng: np.random.Generator) -> list[Array]:
    """Each clip in noise."""
    return [clip + noise(rng, len(clip), snr_db) for clip in clips]


def join(
    clips: list[Array], texts: list[str], seconds: float, snr_db: float, rng: np.random.Generator
) -> list[tuple[Array, str]]:
    """Recordings of so many seconds, and what is said in them."""
    recordings: list[tuple[Array, str]] = []
    parts, words, length = [np.zeros(RATE // 2, np.float32)], [], 0
    for i, (clip, text) in enumerate(zip(clips, texts, strict=True)):
        parts += [clip, np.zeros(int(rng.uniform(0.4, 2.0) * RATE), np.float32)]
        words.append(text)
        length += len(parts[-2]) + len(parts[-1])
        if length >= seconds * RATE or i == len(clips) - 1:
            whole = np.concatenate(parts)
            recordings.append((whole + noise(rng, len(whole), snr_db), " ".join(words)))
            parts, words, length = [np.zeros(RATE // 2, np.float32)], [], 0
    return recordings


def one_by_one(recognizer: Recognizer, clips: list[Array], texts: list[str]) -> str:
    """Word error rate of clips that were never joined."""
    return percent(texts, [result.text for result in recognizer.transcribe(list(clips))])


def in_pieces(
    recognizer: Recognizer,
    recordings: list[tuple[Array, str]],
    pause: float,
    margin: float,
    longest: float,
) -> str:
    """Word error rate of joined recordings, cut this way."""
    heard = []
    for samples, _ in recordings:
        if longest == math.inf:
            spans = [
                (start, start + 30 * RATE) for start in range(0, len(samples), 30 * RATE)
            ]  # blindly, half a minute
        else:
            spans = phrases(samples, RATE, max_seconds=longest, pause_seconds=pause, margin_seconds=margin)
        pieces = [samples[start:end] for start, end in spans]
        heard.append(" ".join(result.text for result in recognizer.transcribe(pieces) if result.text))
    return percent([text for _, text in recordings], heard)


def percent(texts: list[str], heard: list[str]) -> str:
    """Word error rate."""
    return f"{100 * (score(texts, heard, resamples=0).total.wer or 0.0):.1f}"


if __name__ == "__main__":
    main()
