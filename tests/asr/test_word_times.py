"""Word times of the model that ships, against forced alignment by another recogniser (in the samples' manifest)."""

from __future__ import annotations

from pathlib import Path

import pytest

from asr.bundle import read_bundle
from asr.manifest import Utterance, read_manifest
from asr.recognizer import DEFAULT_BUNDLE
from asr.runtime import OnnxBackend
from asr.search import Hypothesis
from asr.timing import Piece
from audio.reading import read_audio

SAMPLES = read_manifest(Path(__file__).parents[2] / "data_manifests" / "samples" / "samples.jsonl")


def _timed(row: Utterance) -> Piece:
    """The words that were said, at the times that the model's CTC head gives them."""
    bundle = read_bundle(DEFAULT_BUNDLE)
    memory = OnnxBackend(bundle, threads=1).encode([read_audio(row.audio_filepath)])
    tokens = tuple(bundle.tokenizer.encode(row.text))
    position = bundle.front_end.hop * bundle.model.frames_per_position / bundle.front_end.sample_rate
    return Piece.of(
        Hypothesis(tokens, (0.0,) * (len(tokens) + 1), 0.0), memory.ctc[0], bundle.tokenizer, position, row.duration
    )


@pytest.mark.parametrize("row", SAMPLES, ids=lambda row: row.audio_filepath.stem)
def test_words_start_within_100_ms_of_the_truth(row: Utterance) -> None:
    words = _timed(row).words
    assert " ".join(word.word for word in words) == row.text
    for word, (said, start, _) in zip(words, row.extra["words"], strict=True):
        assert word.word == said
        assert abs(word.start - start) <= 0.1, f"{said}: {word.start:.2f} s, truly {start:.2f} s"


@pytest.mark.parametrize("row", SAMPLES, ids=lambda row: row.audio_filepath.stem)
def test_words_end_within_150_ms_of_the_truth(row: Utterance) -> None:
    # Where a word runs into the next one, its end is less sharp than a start behind a pause
    # The last word's end isn't compared: the reference lets it last to the end of the file, pause included
    for word, (said, _, end) in list(zip(_timed(row).words, row.extra["words"], strict=True))[:-1]:
        assert abs(word.end - end) <= 0.15, f"{said}: {word.end:.2f} s, truly {end:.2f} s"
