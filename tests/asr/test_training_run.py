"""Whole runs of a few steps: what they leave behind, what they keep, and what they refuse."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

from asr.cli.commands import app
from asr.errors import ConfigError, ManifestError
from asr.evaluation.scoring import score
from asr.model.backend import TorchBackend
from asr.search import CTC_WEIGHT, SearchOptions, decode
from asr.tokenizer import Tokenizer
from asr.training import pictures
from asr.training.checkpoint import read_checkpoint
from asr.training.config import TrainConfig
from asr.training.console import console
from asr.training.corpus import load
from asr.training.folder import Folder
from asr.training.module import Recogniser
from asr.training.report import told
from asr.training.run import measure_spread, train
from asr.training.settings import build
from audio.mfcc import mfcc

Settings = dict[str, Any]
Config = Callable[..., TrainConfig]


@pytest.fixture(scope="module")
def finished(settings_of: Callable[..., Settings], tmp_path_factory: pytest.TempPathFactory) -> TrainConfig:
    """A run of 11 steps, validated after 4, 8 and the last, at which the two best are kept."""
    output = tmp_path_factory.mktemp("runs") / "finished"
    config = build(settings_of(output, steps=11, validate_every=4, save_every=3, average=2))
    assert train(config) == output / "best.ckpt"
    return config


def rows_of(config: TrainConfig) -> list[dict[str, str]]:
    with (Path(config.output) / "metrics.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_leaves_everything_behind(finished: TrainConfig) -> None:
    folder = Path(finished.output)
    assert {path.name for path in folder.iterdir()} == {
        "attention", "best.ckpt", "checkpoints", "config.yaml", "curves.png", "last.ckpt", "metrics.csv", "report.json",
        "report.txt", "tensorboard",
    }  # fmt: skip
    steps = ("000004", "000008", "000011")
    assert sorted(path.name for path in (folder / "attention").iterdir()) == [f"step-{step}.png" for step in steps]
    for picture in (folder / "curves.png", *(folder / "attention").iterdir()):
        assert picture.read_bytes().startswith(b"\x89PNG")
    # All settings can be read back as they were
    assert build(yaml.safe_load((folder / "config.yaml").read_text())) == finished


@pytest.mark.usefixtures("without_pictures")
def test_silences_are_learnt_from_too(chirp_config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = Path(chirp_config().data.train[0].manifest)
    rows = [json.loads(line) for line in said.read_text(encoding="utf-8").splitlines()]
    audio = str(said.parent / rows[0]["audio_filepath"])
    silences = tmp_path / "silences.jsonl"
    silences.write_text("".join(json.dumps(rows[0] | {"audio_filepath": audio, "text": t}) + "\n" for t in ("", "yes")))
    data = {**asdict(chirp_config().data), "silences": [{"manifest": str(silences)}]}
    config = chirp_config(output=str(tmp_path / "run"), steps=2, data=data)
    train(config)
    assert "silences: left out of 2 utterances: 1 with text" in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "report.json").read_text())["utterances"] == len(rows) + 1
    with pytest.raises(ManifestError, match=r"setting data\.silences: no such manifest"):
        train(chirp_config(output=str(tmp_path / "other"), data=data | {"silences": [{"manifest": "gone.jsonl"}]}))


def test_curves_and_tensorboard_hold_the_same_numbers(finished: TrainConfig) -> None:
    wers = [(int(row["step"]) + 1, float(row["val/wer"])) for row in rows_of(finished) if row["val/wer"]]
    assert [step for step, _ in wers] == [4, 8, 11]
    board = EventAccumulator(str(Path(finished.output) / "tensorboard")).Reload()
    assert [(event.step + 1, event.value) for event in board.Scalars("val/wer")] == [
        (step, pytest.approx(wer)) for step, wer in wers
    ]
    for name in ("train/loss", "train/ctc", "train/cross_entropy", "train/gradient_norm"):
        assert name in board.Tags()["scalars"]


def test_the_report_says_what_was_measured(finished: TrainConfig) -> None:
    folder = Path(finished.output)
    report = json.loads((folder / "report.json").read_text())
    wers = {int(row["step"]) + 1: float(row["val/wer"]) for row in rows_of(finished) if row["val/wer"]}
    assert report["best_single_wer"] == pytest.approx(min(wers.values()), abs=1e-5)
    assert report["validation_wer"] == min(report["best_single_wer"], report["averaged_wer"])
    assert report["steps"] == 11
    assert report["utterances"] == 40
    assert report["validation_utterances"] == 6
    assert 0 <= report["waiting_for_data"] <= 1
    assert report["hours_of_sound"] > 0 or report["x_real_time"] > 0
    assert report["training_minutes"] <= report["wall_minutes"] + 0.1
    facts = read_checkpoint(folder / "best.ckpt").facts["training"]
    assert facts == {**report, "sources": ["unnamed"]}


def test_every_checkpoint_tells_of_the_training_until_then(finished: TrainConfig) -> None:
    folder = Path(finished.output)
    whole = read_checkpoint(folder / "best.ckpt").facts["training"]
    measured = {"validation_wer", "best_single_wer", "averaged_wer", "checkpoints"}  # once the run is finished
    grows = {"steps", "wall_minutes", "hours_of_sound", "training_minutes", "x_real_time", "waiting_for_data"}
    paths = [folder / "last.ckpt", *(folder / "checkpoints").iterdir()]
    assert len(paths) == 3
    for trained in map(read_checkpoint, paths):
        facts = trained.facts["training"]
        assert facts.keys() == whole.keys() - measured
        assert {name: facts[name] for name in facts if name not in grows} == {
            name: whole[name] for name in whole if name not in measured | grows
        }
        assert facts["steps"] == trained.steps
        assert 0 <= facts["wall_minutes"] <= whole["wall_minutes"]


def test_the_report_is_for_people() -> None:
    report = {
        "validation_wer": 0.06667, "best_single_wer": 0.08, "averaged_wer": 0.06667,
        "checkpoints": ["step-000500.ckpt", "step-000040.ckpt"], "steps": 500, "wall_minutes": 90.0,
        "hours_of_sound": 3.0, "training_minutes": 80.0, "x_real_time": 27.8, "waiting_for_data": 0.016,
        "hours_of_data": 0.05, "utterances": 78, "validation_utterances": 26, "precision": "32-true", "machine": "m, 2",
    }  # fmt: skip
    assert told(report).splitlines() == [
        "word error rate  6.7 % of 26 validation utterances",
        "model            average of the checkpoints of steps 40, 500 (the best alone: 8.0 %)",
        "learnt from      78 utterances, 3.0 min",
        "training         500 steps in 1.50 h, validations included",
        "speed            28 x real time, 1.6 % of it waiting for data",
        "machine          m, 2, 32-true",
    ]
    one = report | {"checkpoints": ["step-000040.ckpt"]}
    assert "model            checkpoint of step 40 (averaged: 6.7 %)\n" in told(one)
    assert "model            checkpoint of step 40\n" in told(one | {"averaged_wer": None})


def test_the_model_kept_makes_as_many_errors_as_reported(finished: TrainConfig) -> None:
    trained = read_checkpoint(Path(finished.output) / "best.ckpt")
    packed = load(finished.data.validation, Path(finished.data.cache), "en", "validation")
    backend = TorchBackend(trained.model)
    clips = [packed.samples(i) for i in range(len(packed))]
    heard = decode(backend, backend.encode(clips), list(packed.seconds()), SearchOptions(ctc_weight=CTC_WEIGHT))
    wer = score(packed.texts, [trained.tokenizer.decode(h.tokens) for h in heard]).total.wer
    assert trained.facts["training"]["validation_wer"] == pytest.approx(wer, abs=1e-5)


def test_the_front_end_s_spread_is_measured(finished: TrainConfig) -> None:
    packed = load(finished.data.train, Path(finished.data.cache), "en", "training")
    spec = read_checkpoint(Path(finished.output) / "best.ckpt").model.spec
    assert spec.spread is not None
    assert len(set(spec.spread)) == 1  # so that what says little stays small
    cepstra = np.concatenate([mfcc(packed.samples(i), spec) for i in range(len(packed))])
    assert np.sqrt((cepstra.astype(np.float64) ** 2).mean()) == pytest.approx(1, abs=0.02)
    assert cepstra.std(axis=0)[0] > 3 * cepstra.std(axis=0)[-1]
    silent = packed.take(np.array([0]))
    (silence := Path(finished.output).parent / "silence.i16").write_bytes(bytes(2 * 16000))
    silent = replace(silent, files=(silence,), where=np.array([[0, 0, 16000]]))
    assert set(measure_spread(silent, finished.front_end)) == {1.0}  # nothing to divide by


def test_a_finished_run_says_so(finished: TrainConfig, capsys: pytest.CaptureFixture[str]) -> None:
    before = (Path(finished.output) / "best.ckpt").stat().st_mtime_ns
    assert train(finished) == Path(finished.output) / "best.ckpt"
    assert "this run is finished" in capsys.readouterr().err
    assert (Path(finished.output) / "best.ckpt").stat().st_mtime_ns == before


def test_other_settings_are_refused_by_name(finished: TrainConfig) -> None:
    other = replace(
        finished, vocab_size=50, optimiser=replace(finished.optimiser, learning_rate=1e-4),
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"other settings \(vocab_size, optimiser\.learning_rate\); .* --restart"):
        train(other)


def test_what_follows_from_another_setting_is_not_named(finished: TrainConfig) -> None:
    settings = yaml.safe_load((Path(finished.output) / "config.yaml").read_text())
    settings["optimiser"].pop("warmup_steps")
    for steps, named in ((70, r"steps"), (settings["steps"], None)):
        other = build({**settings, "steps": steps, "stages": [{}]})
        usual = replace(finished, optimiser=build({**settings, "stages": [{}]}).optimiser, stages=other.stages)
        folder = Folder(Path(finished.output))
        folder.begin(usual, restart=False)
        try:
            if named is None:
                assert folder.goes_on_from(other, restart=False) == folder.last
                continue
            with pytest.raises(ConfigError, match=rf"other settings \({named}\)"):
                folder.goes_on_from(other, restart=False)
            stated = replace(other, optimiser=replace(other.optimiser, warmup_steps=3))
            with pytest.raises(ConfigError, match=r"other settings \(optimiser\.warmup_steps, steps\)"):
                folder.goes_on_from(stated, restart=False)
        finally:
            folder.begin(finished, restart=False)


def test_a_run_of_an_earlier_version_that_knew_fewer_settings_goes_on(finished: TrainConfig, tmp_path: Path) -> None:
    shutil.copytree(finished.output, tmp_path / "run")
    config = replace(finished, output=str(tmp_path / "run"))
    settings = tmp_path / "run" / "config.yaml"
    old = yaml.safe_load(settings.read_text()) | {"output": config.output}
    for path in (("data", "silences"), ("optimiser", "qk_clip"), ("validation_beam",)):
        inner = old
        for name in path[:-1]:
            inner = inner[name]
        del inner[path[-1]]
    for item, name in ((old["data"]["train"][0], "repeat"), (old["stages"][-1], "augment")):
        del item[name]  # in lists as well
    settings.write_text(yaml.safe_dump(old))
    assert train(config) == tmp_path / "run" / "best.ckpt"
    with pytest.raises(ConfigError, match=r"other settings \(validation_beam\)"):
        train(replace(config, validation_beam=2))


def test_a_checkpoint_cut_short_is_refused(finished: TrainConfig, tmp_path: Path) -> None:
    shutil.copytree(finished.output, tmp_path / "run")
    (tmp_path / "run" / "report.json").unlink()
    (tmp_path / "run" / "last.ckpt").write_bytes((tmp_path / "run" / "last.ckpt").read_bytes()[:-100])
    config = replace(finished, output=str(tmp_path / "run"))
    with pytest.raises(ConfigError, match=r"other settings \(output\)"):
        train(config)
    text = (tmp_path / "run" / "config.yaml").read_text().replace(finished.output, config.output)
    (tmp_path / "run" / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"last\.ckpt: damaged; begin anew with --restart"):
        train(config)


def test_a_report_without_its_checkpoint_is_no_finished_run(finished: TrainConfig, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    shutil.copytree(finished.output, folder.path)
    folder.last.unlink()
    other = replace(finished, steps=99)
    assert folder.goes_on_from(other, restart=False) is None
    assert folder.report.exists()  # as long as the run may still be refused
    folder.begin(other, restart=False)
    assert not folder.report.exists()


def test_restart_takes_away_what_a_run_wrote_and_nothing_else(
    chirp_config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = chirp_config(steps=1)
    train(config)
    (tmp_path / "run" / "mine.txt").write_text("keep me")
    train(replace(config, seed=2), restart=True)
    assert "going on" not in capsys.readouterr().err
    assert (tmp_path / "run" / "mine.txt").read_text() == "keep me"
    assert [path.name for path in (tmp_path / "run" / "attention").iterdir()] == ["step-000001.png"]
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["seed"] == 2


def test_a_config_yaml_of_somebody_else_is_not_replaced(chirp_config: Config, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("steps: 3  # my own settings\n")
    for restart in (False, True):
        with pytest.raises(ConfigError, match=r"config\.yaml: not written by a run, and would be replaced"):
            train(chirp_config(output=str(tmp_path)), restart=restart)
    assert (tmp_path / "config.yaml").read_text() == "steps: 3  # my own settings\n"


@pytest.mark.usefixtures("without_pictures")
def test_starting_from_a_model_takes_all_of_it(
    chirp_config: Config, finished: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    start = Path(finished.output) / "best.ckpt"
    seen: list[Recogniser] = []

    def see(self: Recogniser) -> None:
        seen.append(self)

    monkeypatch.setattr(Recogniser, "on_fit_start", see)
    model = {"d_model": 64, "dropout": 0.3}  # the shape is the model's, the dropout the run's
    front_end = {"n_cepstra": 13, "high_hz": 7000.0}
    changes: Settings = {
        "start_from": str(start), "steps": 1, "model": model, "vocab_size": 99, "front_end": front_end,
    }  # fmt: skip
    optimiser = {"learning_rate": 1e-9, "warmup_steps": 1, "weight_decay": 0}
    train(chirp_config(**changes, optimiser=optimiser))
    before, after = read_checkpoint(start), read_checkpoint(tmp_path / "run" / "best.ckpt")
    its = {
        "model.d_model": before.model.config.d_model,
        "front_end.n_cepstra": before.model.spec.n_cepstra,
        "front_end.high_hz": before.model.spec.high_hz,
        "vocab_size": before.tokenizer.vocab_size,
    }
    kept = [f"setting {name}: the model of {start} has {value}, and keeps it" for name, value in its.items()]
    assert sorted(line for line in capsys.readouterr().err.splitlines() if "keeps it" in line) == sorted(kept)
    assert after.tokenizer == before.tokenizer
    assert after.model.spec == before.model.spec
    assert after.model.config == replace(before.model.config, dropout=0.3)
    assert seen[0].model.config.dropout == 0.3
    assert after.history == [before.facts["training"], after.facts["training"]]  # told of in the bundle, too
    for name, value in before.model.state_dict().items():
        torch.testing.assert_close(after.model.state_dict()[name], value, rtol=0, atol=1e-7)


@pytest.mark.usefixtures("without_pictures")
def test_the_best_are_kept_by_word_errors_and_not_by_loss(
    chirp_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word error rates are made up, the loss falls as it likes: it must not count."""
    wers = iter([0.5, 0.2, 0.9, 0.3, 0.7])

    def measured(self: Recogniser) -> None:
        self.log("val/wer", next(wers))
        self.log("val/cer", 0.0)

    monkeypatch.setattr(Recogniser, "on_validation_epoch_end", measured)
    train(chirp_config(steps=4, validate_every=1, average=2))
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "step-000002.ckpt", "step-000004.ckpt",
    ]  # fmt: skip
    # Their average was worse than the best alone
    assert report["checkpoints"] == ["step-000002.ckpt"]
    assert (report["validation_wer"], report["averaged_wer"]) == (0.2, 0.7)
    best = read_checkpoint(tmp_path / "run" / "best.ckpt").model.state_dict()
    kept = read_checkpoint(tmp_path / "run" / "checkpoints" / "step-000002.ckpt").model.state_dict()
    assert all(torch.equal(best[name], value) for name, value in kept.items())


@pytest.mark.usefixtures("without_pictures")
def test_the_average_is_kept_where_it_is_no_worse(
    chirp_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wers = iter([0.5, 0.4, 0.4])

    def measured(self: Recogniser) -> None:
        self.log("val/wer", next(wers))

    monkeypatch.setattr(Recogniser, "on_validation_epoch_end", measured)
    train(chirp_config(steps=2, validate_every=1, average=2))
    best = read_checkpoint(tmp_path / "run" / "best.ckpt").model.state_dict()
    kept = [
        read_checkpoint(tmp_path / "run" / "checkpoints" / f"step-00000{n}.ckpt").model.state_dict() for n in (1, 2)
    ]
    for name, value in best.items():
        torch.testing.assert_close(value, (kept[0][name] + kept[1][name]) / 2)


@pytest.mark.usefixtures("without_pictures")
def test_only_our_own_lines_are_printed(
    chirp_config: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(chirp_config(steps=2, validate_every=1))
    out, err = capfd.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("setting ")]  # advice has tests of its own
    assert lines[0].startswith("40 utterances, 0.")
    assert lines[1].startswith("step 1 of 2: loss ")
    assert lines[2].startswith("step 2 of 2: loss ")
    assert "WER" in lines[2]
    assert lines[3].startswith("word error rate  ")
    best = tmp_path / "run" / "best.ckpt"
    assert lines[-1] == f"best model: {best}"


@pytest.mark.parametrize("more", [[], ["--within-make"]])
def test_the_command_says_what_comes_next_unless_make_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    best = tmp_path / "my run" / "best.ckpt"
    monkeypatch.setattr("asr.training.run.train", lambda _config, *, restart: best)  # noqa: ARG005  as it is called
    (tmp_path / "a.yaml").write_text("steps: 1\n")
    ran = CliRunner().invoke(app, ["train", str(tmp_path / "a.yaml"), *more])
    said = "" if more else f"next: cepstra export '{best}' -o 'my run'.cepstra\n"
    assert (ran.exit_code, ran.output) == (0, said)


@pytest.mark.usefixtures("without_pictures")
def test_the_bar_shows_steps_loss_and_speed(
    chirp_config: Config, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console(), "_force_terminal", True)
    monkeypatch.setattr(console(), "_width", 120)
    train(chirp_config(steps=3, validate_every=2))
    shown = capfd.readouterr().err
    assert "3 of 3" in shown
    assert "loss" in shown
    assert "Epoch" not in shown


def test_pictures_of_odd_runs(chirp_config: Config, tmp_path: Path) -> None:
    """No number yet; a text of one token, of more than there are colours, of signs that mean something to others."""
    (tmp_path / "metrics.csv").write_text("step,train/ctc,val/wer\n9,,\n9,5.0,\n")
    pictures.curves(tmp_path / "metrics.csv", tmp_path / "curves.png")
    config = chirp_config()
    module = Recogniser(config, Tokenizer.train(["a"], 40)).train()
    sound = np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32)
    texts = ("a", "the quick brown fox jumps over the lazy dog " * 3, "", "$x^_{ $ \\frac 日本")
    for i, text in enumerate(texts):
        pictures.attention(module, sound, text, tmp_path / "deep" / f"{i}.png")
    assert len(list((tmp_path / "deep").iterdir())) == len(texts)
    assert module.model.training  # as it was
