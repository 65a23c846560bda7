"""Telling words from noise: learnt from evidence that was drawn by a known line, and the whole way with sound."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from typer.testing import CliRunner

from asr import ear_training
from asr.bundle import read_bundle
from asr.cli.commands import app
from asr.ear_training import Heard, fit_ear, listen
from asr.errors import ConfigError
from asr.hearing import EVIDENCE, Ear
from asr.manifest import Utterance, read_manifest, write_manifest
from asr.recognizer import DEFAULT_BUNDLE
from audio.reading import read_audio

SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples" / "samples.jsonl"
needs_model = pytest.mark.skipif(
    not DEFAULT_BUNDLE.exists() or not SAMPLES.exists(), reason="no model or no samples ship with this checkout"
)


def drawn(count: int, seed: int, apart: float) -> list[Heard]:
    """Speech and noise by turns, whose evidence lies so far apart in two of its kinds; the others say nothing."""
    rng = np.random.default_rng(seed)
    found = []
    for row in range(count):
        noise = row % 2 == 1
        evidence = rng.normal(size=len(EVIDENCE))
        evidence[[0, 2]] += -apart if noise else apart
        found.append(Heard(row, noise, tuple(evidence.tolist()), right=not noise))
    return found


def test_the_line_lies_between_speech_and_noise() -> None:
    lesson = fit_ear(drawn(2000, seed=1, apart=3.0))
    assert (lesson.noises, lesson.texts) == (1000, 1000)
    assert lesson.noises_written == 0
    assert lesson.texts_lost < 30
    detector, heard, decoder, blanks, clearness, seconds = lesson.ear.weights
    assert min(detector, decoder) > 5 * max(abs(heard), abs(blanks), abs(clearness))
    assert seconds == 0
    others = drawn(2000, seed=2, apart=3.0)
    assert sum(lesson.ear.hears(each.evidence) for each in others if each.noise) <= 3
    assert sum(lesson.ear.hears(each.evidence) for each in others if not each.noise) > 960


def test_no_noise_gets_a_text_though_speech_is_lost_where_they_are_alike() -> None:
    lesson = fit_ear(drawn(2000, seed=3, apart=0.5))
    assert lesson.noises_written == 0
    assert lesson.texts_lost > 300


def test_recordings_that_get_no_text_count_and_teach_nothing() -> None:
    heard = drawn(200, seed=4, apart=3.0)
    lesson = fit_ear([*heard, *(Heard(200 + n, True, None) for n in range(50)), Heard(300, False, None)])
    assert lesson.noises == 150
    assert lesson.ear == fit_ear(heard).ear


def test_noise_at_other_speeds_teaches_but_draws_no_line() -> None:
    heard = drawn(400, seed=6, apart=3.0)
    loud = Heard(401, True, (9.0,) * len(EVIDENCE), varied=True)  # like no noise, and nearly like speech
    lesson, with_it = fit_ear(heard), fit_ear([*heard, loud])
    assert with_it.noises == lesson.noises == 200
    assert with_it.ear != lesson.ear
    assert with_it.ear.hears(loud.evidence)
    assert not fit_ear([*heard, replace(loud, varied=False)]).ear.hears(loud.evidence)


def test_where_only_varied_noise_gets_a_text_it_draws_the_line() -> None:
    heard = [replace(each, varied=each.noise) for each in drawn(400, seed=7, apart=3.0)]
    lesson = fit_ear(heard)
    assert lesson.noises == 0
    assert not any(lesson.ear.hears(each.evidence) for each in heard if each.noise)


@pytest.mark.parametrize(("which", "message"), [(False, "5 recordings of speech"), (True, "5 recordings of noise")])
def test_too_few_are_refused(which: bool, message: str) -> None:
    heard = drawn(200, seed=5, apart=3.0)
    few = [each for each in heard if each.noise != which] + [each for each in heard if each.noise == which][:5]
    with pytest.raises(ConfigError, match=message):
        fit_ear(few)


def reversed_samples(folder: Path) -> Path:
    """What has the sound of speech, and no words."""
    rows = []
    for row in read_manifest(SAMPLES):
        path = folder / f"reversed_{row.audio_filepath.stem}.wav"
        sf.write(path, read_audio(row.audio_filepath)[::-1], 16000)
        rows.append(Utterance(path, row.duration, ""))
    write_manifest(folder / "noise.jsonl", rows)
    return folder / "noise.jsonl"


@needs_model
def test_all_is_heard_at_three_speeds(tmp_path: Path) -> None:
    rows = read_manifest(SAMPLES)[:2]
    noises = [*read_manifest(reversed_samples(tmp_path))[:1], Utterance(tmp_path / "silence.wav", 1.0, "")]
    sf.write(tmp_path / "silence.wav", np.zeros(16000), 16000)
    heard = listen(read_bundle(DEFAULT_BUNDLE), rows, noises, threads=2, progress=lambda _done, _total: None)
    assert [(each.row, each.noise) for each in heard] == [
        (row, noise) for row, noise in enumerate([False, False, True, True]) for _ in range(3)
    ]
    assert [each.varied for each in heard] == [False, True, True] * 4
    assert heard[-1].evidence is None
    assert not any(each.right for each in heard if each.noise)
    seconds = EVIDENCE.index("seconds")
    own, slower, faster = (each.evidence for each in heard[:3])
    assert own is not None
    assert slower is not None
    assert faster is not None
    assert slower[seconds] - own[seconds] == pytest.approx(np.log(1.25), abs=0.2)
    assert faster[seconds] - own[seconds] == pytest.approx(-np.log(1.25), abs=0.2)


@needs_model
def test_the_command_puts_the_ear_into_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ear_training, "LEAST_ROWS", 3)
    bundle = tmp_path / "m.cepstra"
    shutil.copy(DEFAULT_BUNDLE, bundle)
    write_manifest(tmp_path / "dev.jsonl", read_manifest(SAMPLES) * 8)
    noise = reversed_samples(tmp_path)
    done = CliRunner().invoke(
        app, ["bundle", "calibrate", str(bundle), str(tmp_path / "dev.jsonl"), "--noise", str(noise)],
        catch_exceptions=False,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "noise: 0 of 8 recordings get a text; speech: " in done.output
    facts = read_bundle(bundle).facts
    assert Ear.of(read_bundle(bundle)).to_dict() == facts["speech"]
    assert "commands" in facts
