"""Confidences that are true: the fit against what drew the evidence, and the whole way with a toy."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile as sf
from typer.testing import CliRunner

from asr.bundle import read_bundle, write_bundle
from asr.calibration import WITH, WITHOUT, Observation, calibrate, fit, nearly, observe
from asr.cli.commands import app
from asr.errors import CepstraError, ConfigError
from asr.evaluation.commands import Trial, calibration_error
from asr.judge import EVIDENCE, Judge
from asr.manifest import Utterance
from asr.phrases import Command
from asr.recognizer import DEFAULT_BUNDLE

if TYPE_CHECKING:
    from pathlib import Path

    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained

WORDS = ("turn on the lights", "turn off the lights", "play the music", "play the lights", "turn on the music")


def drawn(judge: Judge, count: int, seed: int) -> list[Observation]:
    """Evidence by chance, and whether it was right by the judge's own probability."""
    rng = np.random.default_rng(seed)
    command = Command("a", {}, "a")
    observations = []
    for row in range(count):
        evidence = (*(-rng.exponential(1.5, len(EVIDENCE) - 2)), rng.uniform(0, 3), rng.uniform(0, 3))
        right = rng.random() < judge.confidence(evidence)
        trial = Trial("a", "", "a", command if right else None, command, 0.5, accepted=False)
        observations.append(Observation(trial, tuple(map(float, evidence)), row))
    return observations


TRUTH = Judge(2.0, (0.5, 0.1, 0.3, 0.2, 1.0, 0.2, 1.5, -0.4), 0.5)


def test_the_fit_finds_what_drew_the_evidence() -> None:
    judge = fit(drawn(TRUTH, 6000, seed=1))
    assert judge.weights == pytest.approx(TRUTH.weights, abs=0.12)
    fresh = drawn(TRUTH, 4000, seed=2)
    confidences = [judge.confidence(each.evidence) for each in fresh]
    right = [each.trial.right for each in fresh]
    assert 0.2 < np.mean(right) < 0.8
    error = calibration_error(confidences, right)
    assert error is not None
    assert error < 0.03
    guess = calibration_error([1 - c for c in confidences], right)
    assert guess is not None
    assert guess > 0.3  # the measure does tell a false confidence


def test_in_all_as_many_are_right_as_the_fit_says() -> None:
    observations = drawn(TRUTH, 500, seed=3)
    judge = fit(observations)
    expected = sum(judge.confidence(each.evidence) for each in observations)
    assert expected == pytest.approx(sum(each.trial.right for each in observations), abs=0.05)


def test_evidence_that_speaks_against_is_left_out() -> None:
    judge = fit(drawn(replace(TRUTH, weights=(0.5, -1.0, 0.3, 0.2, 1.0, 0.2, -1.5, 0.4)), 4000, seed=4))
    assert judge.weights[1] == judge.weights[6] == 0
    assert all(weight >= 0 for weight in judge.weights[:-1])
    assert judge.weights[4] > 0.5


@pytest.mark.parametrize("right", [True, False])
def test_a_fit_to_one_class_alone_has_an_end(right: bool) -> None:
    command = Command("a", {}, "a")
    trial = Trial("a", "", "a", command if right else None, command, 0.5, accepted=False)
    observations = [Observation(trial, (-1.0 * (row % 3),) * 6 + (1.0, 1.0), row) for row in range(50)]
    judge = fit(observations)
    confidences = [judge.confidence(each.evidence) for each in observations]
    assert np.mean(confidences) == pytest.approx(float(right), abs=0.05)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Utterance]:
    folder = tmp_path_factory.mktemp("said")
    rng = np.random.default_rng(0)
    rows = []
    for number in range(50):
        path = folder / f"{number}.wav"
        sf.write(path, rng.normal(0, 0.1, 16000).astype(np.float32), 16000)
        text = WORDS[number % 5] if number < 40 else ""
        rows.append(Utterance(path, 1.0, text, source="lamps" if number % 2 else "sounds"))
    return rows


def test_each_recording_is_compared_with_files_that_hold_it_and_others(
    toy: tuple[Trained, Bundle], rows: list[Utterance]
) -> None:
    told: list[tuple[int, int]] = []
    found = observe(
        toy[1], rows, seed=1, threads=1, speech_detection=False, progress=lambda done, total: told.append((done, total))
    )
    assert told[-1][0] == told[-1][1] > 0
    counts = np.zeros((len(rows), 2), int)
    for each in found:
        counts[each.row, int(each.trial.meant is None)] += 1
        assert len(each.evidence) == len(EVIDENCE)
        assert each.trial.likeliest is not None
        assert each.trial.likeliest.sentence in WORDS
        said, own = each.trial.reference, rows[each.row].text
        if each.trial.meant is not None:
            assert each.trial.meant.sentence == said == own
        elif said == own:  # what isn't in the file can't have been found
            assert each.trial.likeliest.sentence != own
        else:  # something else before or after it
            assert own in said
    # One comparison more for some: with another row's command beside it, or with noise, which changes nothing; and
    # one for some with a file of what is nearly said
    assert counts[:40].max(axis=0).tolist() == [WITH + 1, 2]
    assert (counts[:40].sum(axis=1) >= WITH).all()
    assert counts[40:].max(axis=0).tolist() == [0, WITHOUT]
    assert (counts[40:, 0] == 0).all()  # where nothing is said, nothing found is right
    assert (counts[:40, 0] > 0).all()
    again = observe(toy[1], rows, seed=1, threads=1, speech_detection=False, progress=lambda _done, _total: None)
    assert [(each.row, each.trial.likeliest) for each in again] == [(each.row, each.trial.likeliest) for each in found]


def test_noise_is_worth_no_confidence(toy: tuple[Trained, Bundle], rows: list[Utterance]) -> None:
    result = calibrate(toy[1], rows, threads=1, speech_detection=False)
    trials = result.evaluation.trials
    chance = sum(trial.right for trial in trials) / len(trials)
    assert chance < 0.5
    # A model that hears nothing: it is right by chance, and says so
    assert np.mean([trial.confidence for trial in trials]) == pytest.approx(chance, abs=0.1)
    rate = result.evaluation.total.false_accept_rate
    assert rate is not None
    assert rate <= 0.01


def test_the_command_writes_it_into_the_bundle(
    toy: tuple[Trained, Bundle], rows: list[Utterance], tmp_path: Path
) -> None:
    write_bundle(tmp_path / "toy.cepstra", replace(toy[1], facts={"licence": "mine"}))
    manifest = tmp_path / "dev.jsonl"
    lines = [
        json.dumps({"audio_filepath": str(r.audio_filepath), "duration": 1.0, "text": r.text, "source": r.source})
        for r in rows
    ]
    manifest.write_text("\n".join(lines) + "\n", encoding="utf-8")
    before = (tmp_path / "toy.cepstra").read_bytes()
    arguments = ["bundle", "calibrate", str(tmp_path / "toy.cepstra"), str(manifest), "--threads", "1"]
    arguments.append("--no-speech-detection")  # nobody speaks in these
    done = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "new.cepstra")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "calibrated on 50 recordings" in done.output
    bundle = read_bundle(tmp_path / "new.cepstra")
    judge = Judge.of(bundle)
    assert f"threshold {judge.threshold:.3f}" in done.output
    assert bundle.facts["licence"] == "mine"
    assert (tmp_path / "toy.cepstra").read_bytes() == before
    manifest.write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"only 4 recordings that say one of several .* 20 are needed"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert (tmp_path / "toy.cepstra").read_bytes() == before


@pytest.mark.skipif(not DEFAULT_BUNDLE.exists(), reason="no model ships with this checkout")
@pytest.mark.parametrize("place", ["rows", "noise"])
def test_a_recording_that_is_not_there_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def never(*_: object, **_named: object) -> None:
        raise AssertionError

    monkeypatch.setattr("asr.calibration.calibrate", never)
    monkeypatch.setattr("asr.ear_training.train_ear", never)
    shutil.copy(DEFAULT_BUNDLE, tmp_path / "toy.cepstra")
    (tmp_path / "there.wav").write_bytes(b"x")
    for name in ("rows", "noise"):
        sound = "gone.wav" if name == place else "there.wav"
        row = json.dumps({"audio_filepath": sound, "duration": 1.0, "text": "yes"})
        (tmp_path / f"{name}.jsonl").write_text(row + "\n")
    files = [str(tmp_path / name) for name in ("toy.cepstra", "rows.jsonl")]
    with pytest.raises(CepstraError, match=rf"{place}\.jsonl:1: .*gone\.wav isn't there") as caught:
        CliRunner().invoke(
            app, ["bundle", "calibrate", *files, "--noise", str(tmp_path / "noise.jsonl")], catch_exceptions=False
        )
    assert str(caught.value).startswith("--noise ") is (place == "noise")


def test_what_is_nearly_said_is_not_said() -> None:
    draw, words = random.Random(3), ["turn", "on", "off", "the", "lights"]
    kinds = set()
    for _ in range(200):
        said = draw.choice(["turn on the lights", "lights off", "off on"])
        near = nearly(said, words, draw)
        assert near
        assert near != said
        kinds.add(len(near.split()) - len(said.split()))
    assert {0, -1, -2} <= kinds


def test_near_misses_teach_the_judge(toy: tuple[Trained, Bundle], rows: list[Utterance]) -> None:
    found = observe(toy[1], rows, seed=1, threads=1, speech_detection=False, progress=lambda _done, _total: None)
    # Alone, as what is beside others has more text, unless that is noise, with which it is meant
    alone = [each for each in found if each.hard and each.trial.reference == rows[each.row].text]
    near = [each for each in alone if each.trial.meant is None]
    assert len(near) > 10
    assert not any(each.trial.right for each in near)
