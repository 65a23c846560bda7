"""A command was meant only where something was said: what the ear says counts in every confidence."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.bundle import Bundle, read_bundle
from asr.calibration import Observation, calibrate
from asr.commands import Alternative, Meaning
from asr.evaluation.commands import Trial
from asr.hearing import EVIDENCE, FACT, Ear
from asr.judge import EVIDENCE as EVIDENCE_OF_COMMANDS
from asr.manifest import read_manifest
from asr.phrases import Command
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from audio.reading import read_audio

LAMP, MUSIC = Command("lamp", {}, "lamp on"), Command("music", {}, "play")
SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
ROWS = list(read_manifest(SAMPLES / "samples.jsonl"))
SENTENCES = sorted({row.text for row in ROWS})
DEAF = Ear(-1000.0, (0.0,) * len(EVIDENCE))


def meant(confidence: float) -> Meaning:
    return Meaning(LAMP, confidence, (Alternative(LAMP, confidence), Alternative(MUSIC, (1 - confidence) / 2)))


def test_the_log_odds_of_both_are_added() -> None:
    # 4 to 1 for the command, 1 to 4 for speech: even
    even = meant(0.8).where_spoken(math.log(1 / 4), 0.3)
    assert even.command == LAMP
    assert even.confidence == pytest.approx(0.4)
    assert [other.confidence for other in even.alternatives] == pytest.approx([0.4, 0.05])
    below = meant(0.8).where_spoken(math.log(1 / 4), 0.5)
    assert (below.command, below.rejected) == (None, "unknown-command")
    noise = meant(0.8).where_spoken(math.log(1 / 16), 0.2)  # 1 to 4 in all
    assert (noise.command, noise.rejected) == (None, "no-speech")
    assert noise.confidence == pytest.approx(0.16)
    assert noise.certainty == pytest.approx(1 - 0.18)
    assert meant(0.8).where_spoken(math.inf, 0.3).confidence == 0.8
    assert meant(0.999).where_spoken(-math.inf, 0.0).confidence == pytest.approx(0.0)


@given(st.floats(0, 1), st.floats(-60, 60), st.floats(-60, 60), st.floats(0, 1))
def test_the_likelier_speech_is_the_surer_the_command(
    confidence: float, spoken: float, other: float, threshold: float
) -> None:
    less, more = (meant(confidence).where_spoken(x, threshold) for x in sorted([spoken, other]))
    assert 0 <= less.confidence <= more.confidence <= confidence
    assert (less.command is None) or more.command == LAMP
    for each in (less, more):
        assert (each.command is not None) is (each.confidence >= threshold)
        assert 0 <= each.certainty <= 1


def with_ear(ear: Ear | None) -> Bundle:
    bundle = read_bundle(DEFAULT_BUNDLE)
    facts = {name: value for name, value in bundle.facts.items() if name != FACT}
    return replace(bundle, facts=facts if ear is None else {**facts, FACT: ear.to_dict()})


def test_what_the_ear_takes_for_noise_is_no_command() -> None:
    for row in ROWS[:4]:
        clip = read_audio(row.audio_filepath)
        free = Recognizer(with_ear(None), threads=1, phrases=SENTENCES, threshold=0.0).transcribe(clip)
        assert free.meaning is not None
        assert free.meaning.command is not None  # without an ear of its own, a model's judge decides alone
        deaf = Recognizer(with_ear(DEAF), threads=1, phrases=SENTENCES, threshold=0.0).transcribe(clip)
        assert deaf.meaning is not None
        # At a threshold of 0 anything is taken that isn't silence
        assert deaf.meaning.confidence == pytest.approx(0.0, abs=1e-9)
        strict = Recognizer(with_ear(DEAF), threads=1, phrases=SENTENCES).transcribe(clip)
        assert strict.meaning is not None
        assert (strict.text, strict.meaning.command, strict.no_speech) == ("", None, True)
        assert strict.meaning.rejected == "no-speech"
        assert strict.confidence == pytest.approx(1.0)
        all_of_it = Recognizer(with_ear(DEAF), threads=1, phrases=SENTENCES, speech_detection=False).transcribe(clip)
        assert all_of_it.meaning is not None
        assert all_of_it.meaning.confidence > 0.01


@pytest.mark.parametrize("spoken", [math.inf, -20.0])
def test_what_was_not_said_moves_no_threshold(monkeypatch: pytest.MonkeyPatch, spoken: float) -> None:
    """Noise that looks like commands costs them nothing where the ear tells it apart."""
    rng = np.random.default_rng(0)
    found = []
    for row in range(400):
        noise = row % 2 == 1
        evidence = tuple(-rng.exponential(1.0, len(EVIDENCE_OF_COMMANDS)))
        trial = Trial("a", "", "" if noise else "lamp on", None if noise else LAMP, LAMP, 0.5, accepted=False)
        found.append(Observation(trial, evidence, row, spoken if noise else 20.0))
    monkeypatch.setattr("asr.calibration.observe", lambda *_args, **_kwargs: found)
    result = calibrate(read_bundle(DEFAULT_BUNDLE), [])
    total = result.evaluation.total
    assert total.false_accept_rate is not None
    assert total.accuracy is not None
    assert total.false_accept_rate <= 0.01
    if spoken < 0:
        assert total.accuracy == 1.0
    else:  # nothing tells them apart
        assert total.accuracy < 0.1


@pytest.mark.real
def test_no_noise_is_taken_for_a_command(corpus: Path) -> None:
    phrases = corpus.parent / "phrases" / "home.yaml"
    noises = read_manifest(corpus / "noise.jsonl")
    taken = [result.meaning for result in Recognizer(phrases=phrases).transcribe(list(noises)) if result.text]
    assert not taken
