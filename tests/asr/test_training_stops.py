"""Runs that can't be, or that end early: each says why, and leaves something to go on from."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from asr.bundle import read_bundle
from asr.cli.commands import app
from asr.errors import CepstraError, ConfigError, ManifestError, TrainingError
from asr.manifest import Utterance
from asr.tokenizer import Tokenizer
from asr.training import run
from asr.training.callbacks import Pictures
from asr.training.checkpoint import read_checkpoint
from asr.training.config import TrainConfig
from asr.training.corpus import Packed
from asr.training.module import Recogniser
from asr.training.run import _Sounds, _usable, train
from asr.training.saving import StoppedError
from asr.training.signals import SignalledError, Signals
from audio.augmentation import AugmentationConfig, Augmenter

Settings = dict[str, Any]
Config = Callable[..., TrainConfig]


@pytest.fixture(autouse=True)
def _the_processor_is_as_before() -> Iterator[None]:
    """However a training ended, numbers near zero are not zero for the rest of the program."""
    yield
    assert np.float32(1e-40) * np.float32(1) > 0


def test_an_absurd_learning_rate_is_a_clear_stop(chirp_config: Config) -> None:
    optimiser = {"learning_rate": 1e30, "warmup_steps": 0, "gradient_clip": 0}
    with pytest.raises(StoppedError, match=r"the loss is .* after step \d+; try a lower optimiser\.learning_rate"):
        train(chirp_config(optimiser=optimiser))


def test_a_loss_that_is_no_number_stops_before_it_spoils_the_weights(
    chirp_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = Recogniser.losses

    def spoilt(self: Recogniser, batch: Any) -> Any:
        total, *parts = losses(self, batch)
        return total * (float("nan") if self.global_step == 3 and self.training else 1), *parts

    monkeypatch.setattr(Recogniser, "losses", spoilt)
    with pytest.raises(StoppedError, match="the loss is nan and the norm of its gradient nan after step 3"):
        train(chirp_config(save_every=1))
    last = read_checkpoint(tmp_path / "run" / "last.ckpt")
    assert last.steps == 3
    assert all(torch.isfinite(value).all() for value in last.model.state_dict().values())


@pytest.mark.usefixtures("without_pictures")
def test_a_model_of_a_run_that_was_stopped_tells_of_its_training(
    chirp_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Recogniser, *_: object) -> None:
        if self.global_step == 3:
            raise StoppedError("enough")

    monkeypatch.setattr(Recogniser, "on_before_optimizer_step", stop)
    with pytest.raises(StoppedError):
        train(chirp_config(save_every=1))
    last, bundle = tmp_path / "run" / "last.ckpt", tmp_path / "stopped.cepstra"
    for arguments in (["export", str(last), "-o", str(bundle)], ["bundle", "show", str(bundle)]):
        ended = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert ended.exit_code == 0
    assert "training: 0.0 hours of data: unnamed" in ended.stdout.splitlines()
    facts = read_bundle(bundle).facts["training"]
    assert (facts["steps"], facts["utterances"]) == (3, 40)

    monkeypatch.undo()
    other = chirp_config(output=str(tmp_path / "other"), start_from=str(last), steps=2, optimiser={"warmup_steps": 0})
    history = read_checkpoint(train(other)).history
    assert [run["steps"] for run in history] == [3, 2]


def test_a_disk_that_is_full_is_named_and_the_run_goes_on_once_there_is_room(
    chirp_config: Config, tmp_path: Path
) -> None:
    train(chirp_config(output=str(tmp_path / "first")))  # what is written before the run: the sound, decoded
    config = chirp_config(save_every=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # no checkpoint is as small
    try:
        with pytest.raises(
            TrainingError, match=r"run: can't be written \(.*\); make room there.*the same command goes"
        ):
            train(config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [file.name for file in (tmp_path / "run").iterdir() if file.name.endswith(".ckpt")]
    assert train(config) == tmp_path / "run" / "best.ckpt"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"data": {"train": []}}, ConfigError, r"setting data\.train: names no manifest"),
        ({"data": {"validation": []}}, ConfigError, r"setting data\.validation: names no manifest.*manifest split"),
        ({"data": {"train": "empty"}}, ManifestError, r"empty\.jsonl"),
        (
            {"data": {"validation": "train"}},
            ManifestError,
            "and 39 other utterances of the validation are in the train",
        ),
        ({"data": {"max_seconds": 0.2}}, TrainingError, r"training: no utterance can be used \(40 too long\)"),
        ({"stages": [{"max_seconds": 0.2}]}, TrainingError, r"setting stages\.0: no utterance of 0\.2 s or less"),
        ({"devices": 7}, ConfigError, "setting devices: 7 can't share 6 validation utterances"),
        ({"accelerator": "gpu"}, ConfigError, "setting accelerator or devices: "),
        ({"vocab_size": 5}, ConfigError, "vocab_size 5 is too small"),
        ({"start_from": "/nowhere.ckpt"}, ConfigError, r"setting start_from: no such file: /nowhere\.ckpt"),
        ({"data": {"noises": "none"}}, ManifestError, r"setting data\.noises: no such manifest: .*none\.jsonl"),
    ],
)
def test_what_cannot_be_trained_is_a_clear_error(
    chirp_config: Config,
    chirps: Path,
    changes: Settings,
    error: type[CepstraError],
    message: str,
) -> None:
    if changes.get("accelerator") == "gpu" and torch.cuda.is_available():
        pytest.skip("here it can")
    data = {
        "train": [{"manifest": str(chirps / "train.jsonl")}],
        "validation": [{"manifest": str(chirps / "dev.jsonl")}],
        "cache": str(chirps / "cache"),
        **changes.get("data", {}),
    }
    (chirps / "empty.jsonl").write_text("")
    for name, value in data.items():
        if isinstance(value, str) and name != "cache":
            data[name] = [{"manifest": str(chirps / f"{value}.jsonl")}]
    config = chirp_config(**{"steps": 1, **changes, "data": data})
    with pytest.raises(error, match=message) as caught:
        train(config)
    assert "\n" not in str(caught.value)
    output = Path(config.output)
    assert not output.exists()  # nothing is left of a run that can't begin
    (output / "deep").mkdir(parents=True)
    (output / "deep" / "mine.txt").write_text("keep me")
    with pytest.raises(error, match=message):
        train(replace(config, output=str(output / "deep")), restart=True)
    assert [path.relative_to(output) for path in output.rglob("*")] == [Path("deep"), Path("deep/mine.txt")]


def test_an_output_that_cannot_be_written_is_named(chirp_config: Config, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/run: can't be written"):
        train(chirp_config(output=str(tmp_path / "file" / "run")))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_at_once_it_says_where_it_goes_on(
    chirp_config: Config, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    def told_twice(*_: Any) -> Any:
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGINT)

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        patch.setattr(Recogniser, "losses", told_twice)
        with pytest.raises(SignalledError, match="stopped at once; the same command begins anew") as caught:
            train(chirp_config())
    assert caught.value.exit_code == code  # of the first
    monkeypatch.setattr(Pictures, "on_validation_end", lambda *_: told_twice())  # there is a checkpoint by then
    with pytest.raises(SignalledError, match=r"stopped at once; the same command goes on from .*last\.ckpt"):
        train(chirp_config(validate_every=3, save_every=1))
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_the_first_step_one_signal_is_enough(
    chirp_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(run, "load", lambda *_: signal.raise_signal(number))
    with pytest.raises(SignalledError, match="stopped at once; the same command begins anew") as caught:
        train(chirp_config())
    assert caught.value.exit_code == 128 + number
    assert not (tmp_path / "run").exists()


def test_an_error_is_told_though_a_signal_came(chirp_config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def told_and_failed(*_: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        raise TrainingError("the real fault")

    monkeypatch.setattr(Recogniser, "training_step", told_and_failed)
    with pytest.raises(TrainingError, match="the real fault"):
        train(chirp_config())


@pytest.mark.usefixtures("without_pictures")
def test_told_in_the_last_step_it_stops_and_can_be_finished(chirp_config: Config, tmp_path: Path) -> None:
    class Told(Signals):
        def listen(self) -> None:
            """As if the signal had come just before the first step."""
            self.told = signal.SIGTERM

    config = chirp_config(steps=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "Signals", Told)
        with pytest.raises(
            SignalledError, match="stopped at step 1 of 1; the same command goes on from there"
        ) as caught:
            train(config)
    assert caught.value.exit_code == 143
    assert not (tmp_path / "run" / "best.ckpt").exists()
    assert train(config) == tmp_path / "run" / "best.ckpt"
    assert read_checkpoint(tmp_path / "run" / "best.ckpt").facts["training"]["steps"] == 1


def test_a_second_signal_does_not_wait(capfd: pytest.CaptureFixture[str]) -> None:
    signals = Signals()
    with signals.listening():
        signals.patient = True
        signal.raise_signal(signal.SIGTERM)
        assert "stopping after this step; once more stops at once" in capfd.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signals.told == signal.SIGTERM


@pytest.mark.usefixtures("without_pictures")
def test_a_thread_may_train(chirp_config: Config) -> None:
    with ThreadPoolExecutor(1) as pool:  # which may not touch signals
        best = pool.submit(train, chirp_config(steps=1)).result()
    assert best.exists()


def test_text_must_fit_however_the_sound_is_varied(chirp_config: Config) -> None:
    tokenizer = Tokenizer.train(["ab"], 40)
    config = chirp_config()
    plain = replace(config, augmentation=AugmentationConfig.off())
    # "▁ a b …" of 20 tokens: 20 positions of 3 frames take 58 frames at least
    samples = 400 + 57 * 160
    for n, kept_plain in ((samples, 2), (samples - 160, 1)):
        data = Packed(
            (Utterance(Path("a"), 1, ""),) * 2,
            ("ab" * 9 + "a", "a"),
            np.ones(2),
            (),
            np.array([(0, 0, n), (0, 0, 9000)]),
        )
        sounds = _Sounds(data, data, data)
        assert len(_usable(sounds, tokenizer, Augmenter(plain.augmentation), plain)[0]) == kept_plain
        training, validation = _usable(sounds, tokenizer, Augmenter(config.augmentation), config)
        assert len(training) == 1  # played faster, its start cut off, it is too short
        assert len(validation) == kept_plain


PIECES = "a larger vocab_size needs fewer tokens"


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"model": {"halve_after": 1}}, f"{PIECES}, model.halve_after=0 leaves more places"),
        ({"model": {"halve_after": 0}}, f"{PIECES}, model.stride=2 leaves more places"),
        ({"model": {"halve_after": 0, "stride": 1}}, PIECES),
        (
            {"start_from": "a.ckpt"},
            "so it is with the model of a.ckpt; without start_from, other settings of the model count",
        ),
    ],
)
def test_text_that_does_not_fit_has_a_remedy_that_is_none_yet(
    chirp_config: Config, capsys: pytest.CaptureFixture[str], changes: Settings, remedy: str
) -> None:
    config = chirp_config(start_from=changes.get("start_from"))
    config = replace(config, model=replace(config.model, **changes.get("model", {})))
    texts = ("ab" * 99, "a")
    where = np.array([(0, 0, 16000)] * 2)
    data = Packed((Utterance(Path("a"), 1, ""),) * 2, texts, np.ones(2), (), where)
    _usable(_Sounds(data, data, data), Tokenizer.train(["ab"], 40), Augmenter(config.augmentation), config)
    told = capsys.readouterr().err.splitlines()
    for what in ("training", "validation"):
        assert f"{what}: left out of 2 utterances: 1 with more text than their frames can carry" in told
        assert f"{what}: with more text than their frames can carry: {remedy}" in told


def test_too_little_memory_is_told_before_the_first_step(chirp_config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def hungry(self: Recogniser, batch: Any) -> Any:
        assert self.global_step == 0
        sizes.append(len(batch["samples"]))
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(Recogniser, "losses", hungry)
    with pytest.raises(TrainingError, match=r"costliest batch, \d+ times [\d.]+ s; lower data\.seconds_per_batch"):
        train(chirp_config())
    assert len(sizes) == 1
