"""Recordings made of texts, with a program that stands in for an engine: rows, splits, what goes wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from asr.errors import CepstraError, SynthesisError
from asr.manifest.check import check_manifests
from asr.synthesis import Prompt
from tests.asr.synthesising import CEPSTRA, TEXTS, TONE, cepstra, make, rows, sounds


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "new" / "folder"
    make(folder, count=7, workers=3)
    return folder


def test_rows_say_what_is_in_the_files(made: Path) -> None:
    found = rows(made)
    texts = ["turn on the light", "dim it to forty percent", "off"]
    assert [row.text for row in found] == [texts[i % 3] for i in range(7)]
    assert [row.written for row in found] == [f"audio/{i:06d}.flac" for i in range(7)]
    for row, said in zip(found, TEXTS * 3, strict=False):
        info = soundfile.info(row.audio_filepath)
        assert (info.samplerate, info.channels, info.subtype, info.format) == (16000, 1, "PCM_16", "FLAC")
        assert row.duration == pytest.approx(info.duration, abs=6e-4) == 0.5 + 0.08 * len(said)
        assert (row.source, row.speaker, row.split) == (Path(sys.executable).name,) * 2 + (None,) or row.split is None
    assert {row.source for row in found} == {Path(sys.executable).name}
    assert check_manifests([made / "manifest.jsonl"]).errors == 0


def test_levels_differ_and_nothing_is_clipped(made: Path) -> None:
    peaks = [float(np.abs(soundfile.read(row.audio_filepath)[0]).max()) for row in rows(made)]
    assert len({round(peak, 3) for peak in peaks}) == 7
    assert min(peaks) > 0.02
    assert max(peaks) <= 0.96


def test_nothing_else_is_left_in_the_folder(made: Path) -> None:
    assert {path.name for path in made.iterdir()} == {"audio", "manifest.jsonl", "synthesis.json", ".done.jsonl"}


def test_the_number_of_workers_changes_nothing(made: Path, tmp_path: Path) -> None:
    make(tmp_path / "one", count=7, workers=1)
    assert (tmp_path / "one" / "manifest.jsonl").read_bytes() == (made / "manifest.jsonl").read_bytes()
    assert sounds(tmp_path / "one") == sounds(made)


def test_another_seed_sounds_otherwise(made: Path, tmp_path: Path) -> None:
    make(tmp_path / "other", count=7, seed=1, workers=2)
    ours, others = sounds(made), sounds(tmp_path / "other")
    assert all(ours[name] != others[name] for name in ours)


def test_what_is_known_of_a_text_is_in_its_row(tmp_path: Path) -> None:
    make(tmp_path / "a", [Prompt("Lights on", "home", "light", {"on": True, "room": 4}), "off"])
    on, off = rows(tmp_path / "a")
    assert on.extra == {"domain": "home", "intent": "light", "slots": {"on": True, "room": 4}}
    assert off.extra == {}


def test_progress_counts_to_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    result = make(tmp_path / "a", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert result.manifests == {"": tmp_path / "a" / "manifest.jsonl"}
    assert (result.rows, result.asked) == ({"": 3}, 3)


def test_splits_share_no_voice(tmp_path: Path) -> None:
    """Three programs of one voice each, two splits: the largest has more of them."""
    texts = ["one", "two", "three", "four"]
    make(tmp_path / "a", texts, count=20, engines=[TONE] * 3, split={"train": 0.8, "test": 0.2}, hold_out=[])
    train, test = rows(tmp_path / "a", "train"), rows(tmp_path / "a", "test")
    assert (len(train), len(test)) == (16, 4)
    assert {row.split for row in train} == {"train"}
    assert {row.text for row in train} == {row.text for row in test} == set(texts)
    assert not {row.speaker for row in train} & {row.speaker for row in test}


def test_an_engine_that_is_held_out_tests_alone(tmp_path: Path) -> None:
    name = Path(sys.executable).name
    make(tmp_path / "a", count=20, engines=[TONE] * 3, hold_out=[f"{name}-2"])
    assert {row.source for row in rows(tmp_path / "a", "test")} == {f"{name}-2"}
    assert {row.source for row in rows(tmp_path / "a", "train")} == {name, f"{name}-3"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": {"train": 0.5, "test": 0.5}}, "'test': no engine has a voice left"),
        ({"engines": [TONE] * 2, "split": {"a": 0.5, "b": 0.5}, "hold_out": ["espeak"]}, "name one so"),
        ({"engines": [TONE] * 2, "hold_out": ["nobody"]}, "'nobody' is to be held out, and doesn't speak"),
        ({"hold_out": [Path(sys.executable).name]}, "all engines are held out"),
        ({"count": 1, "engines": [TONE] * 2, "split": {"train": 0.9, "test": 0.1}}, "1 utterances can't be divided"),
        ({"count": 10**9}, "at most 1000000"),
        ({"count": -1}, "use 0"),
        ({"texts": []}, "holds no text"),
        ({"texts": ["fine", "!?"]}, r"text 2 \('!\?'\) says nothing"),
        ({"noises": "."}, "--noises .: holds no recordings"),
        ({"rooms": "nowhere"}, "--rooms nowhere: there is no such folder or manifest"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CepstraError, match=message):
        make(tmp_path / "a", **options)
    assert not list(tmp_path.rglob("*.flac"))


def test_what_does_not_fit_onto_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**4))
    with pytest.raises(SynthesisError, match=r"3 recordings need about 0.1 GB, and 0.0 GB are free"):
        make(tmp_path / "a", ["one " * 10000, "two", "three"])


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("silence", "silent"),
        ("hurry", "too short for its text"),
        ("forever", "too long for its text"),
        ("loud", "clipped"),
    ],
)
def test_sound_that_cannot_be_the_text_is_left_out(tmp_path: Path, word: str, reason: str) -> None:
    result = make(tmp_path / "a", ["well said", f"this is {word}"])
    assert result.left_out == {reason: 1}
    assert not result.failures
    assert [row.text for row in rows(tmp_path / "a")] == ["well said"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("refuse", r"failed with exit code 1 \(can't say 'this is refuse'\)"),
        ("crash", "failed with signal 6"),
        ("nothing", "wrote no sound file"),
        ("rubbish", "out.wav"),
    ],
)
def test_an_engine_that_fails_costs_that_utterance_alone(tmp_path: Path, word: str, reason: str) -> None:
    result = make(tmp_path / "a", [f"this is {word}", "fine"])
    (failure,) = result.failures
    assert re.fullmatch(f"utterance 0: {Path(sys.executable).name}: .*{reason}.*", failure)
    assert [row.text for row in rows(tmp_path / "a")] == ["fine"]


def test_failures_are_told_end_with_exit_code_1_and_are_tried_again(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("refuse\n\nfine\n# a comment\n")
    ran = cepstra("texts.txt", "-o", "a", "--engine", TONE, cwd=tmp_path)
    assert ran.code == 1
    assert ran.out == "a/manifest.jsonl: 1 utterances, 0.0 min\n".replace("a/", f"{tmp_path}/a/")
    assert ran.err.splitlines() == [
        f"cepstra: utterance 0: {Path(sys.executable).name}: failed with exit code 1 (can't say 'refuse')",
        "cepstra: 1 of 2 utterances failed; the same command tries them again",
    ]
    seen: list[tuple[int, int]] = []
    make(tmp_path / "a", [Prompt(text, intent=text) for text in ("refuse", "fine")], progress=lambda *n: seen.append(n))
    assert seen == [(1, 2), (2, 2)]


def test_an_engine_that_always_fails_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match=r"20 failures in a row, the last: .*can't say"):
        make(tmp_path / "a", [f"refuse {i}" for i in range(30)], workers=2)
    with pytest.raises(SynthesisError, match="nothing could be made"):
        make(tmp_path / "b", ["refuse this"])
    with pytest.raises(SynthesisError, match=r"nothing could be made .all are silent"):
        make(tmp_path / "c", ["silence"])


def test_an_engine_that_fails_while_others_stand_in_is_told(tmp_path: Path) -> None:
    """One in two utterances is first given to the program that always fails."""
    failing = "cmd: sh -c 'echo broken >&2; exit 1' {out}"
    result = make(tmp_path / "a", [f"text {i}" for i in range(8)], engines=[TONE, failing])
    assert {row.source for row in rows(tmp_path / "a")} == {Path(sys.executable).name}
    assert (len(rows(tmp_path / "a")), result.failures) == (8, [])
    assert result.stood_in == {"sh": "failed with exit code 1 (broken)"}
    with pytest.raises(SynthesisError, match=r"sh: 20 failures in a row, the last: failed with exit code 1 .broken."):
        make(tmp_path / "b", [f"text {i}" for i in range(80)], engines=[TONE, failing])


def test_a_process_that_dies_costs_one_utterance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = (
        "import os, asr.synthesis.making as making\n"
        "whole = making.spoken\n"
        "making.spoken = lambda text: os.abort() if text == 'die' else whole(text)\n"
        "from asr.synthesis.worker import main; main()"
    )
    monkeypatch.setattr("asr.synthesis.workers._START", dying)
    result = make(tmp_path / "a", ["one", "die", "two"])
    assert result.failures == ["utterance 1: the process that made it ended with signal 6"]
    assert [row.text for row in rows(tmp_path / "a")] == ["one", "two"]


def test_rooms_and_noise_are_laid_over(tmp_path: Path, made: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "noises" / "deep").mkdir(parents=True)
    soundfile.write(tmp_path / "noises" / "deep" / "hiss.wav", rng.normal(0, 0.1, 16000), 16000)
    options: dict[str, Any] = {"count": 7, "noises": tmp_path / "noises"}
    make(tmp_path / "one", **options, workers=1)
    make(tmp_path / "two", **options, workers=2)
    assert sounds(tmp_path / "one") == sounds(tmp_path / "two")
    clean, varied = sounds(made), sounds(tmp_path / "one")
    assert sum(clean[name] != varied[name] for name in clean) >= 4
    assert not list((tmp_path / "one").glob("*.cache")) + list((tmp_path / "one").glob(".*.cache"))


def test_engines_are_listed_with_how_to_install_what_is_missing(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*CEPSTRA, "synthesize", "--engines"], env={**os.environ, "PATH": str(tmp_path), "CEPSTRA_KOKORO": ""},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in ("apt install espeak-ng", "apt install flite", "--kokoro FOLDER"):
        assert f"install it: {line}" in ran.stdout or line in ran.stdout
    named = subprocess.run(
        [*CEPSTRA, "synthesize", "on", "-o", "a", "--engine", "espeak"], env={**os.environ, "PATH": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert named.returncode == 1
    assert named.stderr == (
        "cepstra: engine espeak: the program espeak-ng isn't there; install it: apt install espeak-ng (or your "
        "system's package of that name)\n"
    )
    assert not (tmp_path / "a").exists()
