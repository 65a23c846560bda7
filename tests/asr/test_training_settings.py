"""Settings: YAML that states differences, overrides, and errors that name the setting."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import CepstraError, ConfigError
from asr.model.config import PRESETS
from asr.training.config import DataConfig, Stage, TrainConfig
from asr.training.settings import build, load_config


def write(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_said_is_the_defaults(tmp_path: Path) -> None:
    assert load_config(None) == TrainConfig()
    expected = TrainConfig(
        output=str(tmp_path / "runs" / "settings"), data=DataConfig(cache=str(tmp_path / "runs" / "cache"))
    )
    assert load_config(write(tmp_path, "# nothing\n")) == expected
    assert load_config(write(tmp_path, "data:\noptimiser:\noutput:\n")) == expected  # headings with nothing below


def test_a_file_states_only_differences(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        steps: 300
        optimiser: {learning_rate: 1e-3, betas: [0.9, 9.9e-1]}
        stages:
          - {steps: 100, max_seconds: 1.5, augment: false}
          - {}
        augmentation: {noise_probability: 0}
        """,
    )
    config = load_config(path)
    assert config.steps == 300
    assert config.optimiser.learning_rate == 1e-3  # YAML 1.1 has it as text
    assert config.optimiser.betas == (0.9, 0.99)
    assert config.optimiser.weight_decay == TrainConfig().optimiser.weight_decay
    assert config.stages == (Stage(100, 1.5, augment=False), Stage())
    assert config.augmentation.noise_probability == 0
    assert config.augmentation.speed_factors == TrainConfig().augmentation.speed_factors


def test_overrides_win_and_are_typed(tmp_path: Path) -> None:
    path = write(tmp_path, "steps: 300\noptimiser: {warmup_steps: 10}\n")
    config = load_config(
        path, ["steps=4e2", "optimiser.learning_rate=1e-3", "data.train=[{manifest: a.jsonl, repeat: 5e-1}]"]
    )
    assert config.steps == 400
    assert config.optimiser.learning_rate == 1e-3
    assert config.optimiser.warmup_steps == 10
    assert config.data.train[0].repeat == 0.5


def test_paths_are_relative_to_where_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    path = write(
        tmp_path / "deep", "output: ../out\nstart_from: a.ckpt\ndata: {cache: c, train: [{manifest: t.jsonl}]}\n"
    )
    monkeypatch.chdir(tmp_path)
    config = load_config(path, ["data.validation=[{manifest: v.jsonl}]"])
    assert config.output == str(tmp_path / "out")
    assert config.start_from == str(tmp_path / "deep" / "a.ckpt")
    assert config.data.cache == str(tmp_path / "deep" / "c")
    assert config.data.train[0].manifest == str(tmp_path / "deep" / "t.jsonl")
    assert config.data.validation[0].manifest == str(tmp_path / "v.jsonl")  # from the current folder
    # What a file leaves out is beside it all the same, named after it, whatever the current folder
    config = load_config(write(tmp_path / "deep", "steps: 3\n"))
    assert config.output == str(tmp_path / "deep" / "runs" / "settings")
    assert config.data.cache == str(tmp_path / "deep" / "runs" / "cache")
    assert load_config(tmp_path / "deep" / "settings.yaml", ["output=x"]).output == str(tmp_path / "x")
    monkeypatch.setenv("HOME", "/home/me")
    assert load_config(None, ["output=~/runs"]).output == "/home/me/runs"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 500),
        ({"steps": 5000}, 500),
        ({"steps": 4999}, 499),
        ({"steps": 400, "optimiser": {"learning_rate": 1e-3}}, 40),
        ({"steps": 400, "optimiser": {"warmup_steps": None}}, 40),  # a heading with nothing below
        ({"steps": 3}, 0),
        ({"steps": 400, "optimiser": {"warmup_steps": 500}}, 500),  # stated, it is as it is stated
        ({"steps": 400, "optimiser": {"warmup_steps": 0}}, 0),
    ],
)
def test_a_warm_up_not_stated_is_a_tenth_of_the_steps_at_most(values: dict[str, Any], expected: int) -> None:
    assert build(values).optimiser.warmup_steps == expected


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_where_a_model_starts_from(name: str) -> None:
    preset = PRESETS[name]
    assert build({"preset": name}).model == preset
    changed = build({"preset": name, "model": {"encoder_layers": 2}}).model
    assert changed.encoder_layers == 2
    assert changed.d_model == preset.d_model


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.learning_rate=1", "unknown setting optimizer; did you mean optimiser?"),
        ("optimiser.learning_rat=1", "unknown setting optimiser.learning_rat; did you mean optimiser.learning_rate?"),
        ("data.train=[{manifets: x}]", "unknown setting data.train.manifets; did you mean data.train.manifest?"),
        ("stages=[{step: 3}]", "unknown setting stages.step; did you mean stages.steps?"),
        ("learning_rate=1", "unknown setting learning_rate; did you mean optimiser.learning_rate?"),
        ("data.learning_rate=1", "unknown setting data.learning_rate; did you mean optimiser.learning_rate?"),
        ("dropout=0", "unknown setting dropout; did you mean model.dropout?"),  # though output is near
        ("dropuot=0", "unknown setting dropuot; did you mean model.dropout?"),
        ("max_seconds=3", "unknown setting max_seconds; did you mean data.max_seconds or stages=[{max_seconds: …}]?"),
        (
            "manifest=a.jsonl",
            "did you mean data.train=[{manifest: …}], data.validation=[{manifest: …}], data.silences=[{manifest: …}]",
        ),
        ("epochs=4", "unknown setting epochs; there are output, preset, model, front_end, vocab_size, language, data,"),
        ("loss.qqq=4", "unknown setting loss.qqq; there are loss.ctc_weight, loss.label_smoothing"),
        ("steps=many", "setting steps: 'many' is not a whole number"),
        ("steps=1.5", "setting steps: 1.5 is not a whole number"),
        ("steps=.nan", "setting steps: nan is not a finite number"),
        ("model.halve_after=true", "setting model.halve_after: true is not a whole number"),
        ("optimiser.learning_rate=on", "setting optimiser.learning_rate: true is not a number"),
        ("optimiser.betas=[true, 0.9]", "setting optimiser.betas: true is not a number"),
        ("model.windows=[4, off, 4, 8]", "setting model.windows: false is not a whole number"),
        ("augmentation.speed_factors=[yes]", "setting augmentation.speed_factors: true is not a number"),
        ("data.train=[{manifest: a, repeat: false}]", "setting data.train.repeat: false is not a number"),
        ("steps=[1]", "setting steps: [1] is not a whole number"),
        ("optimiser.learning_rate=fast", "setting optimiser.learning_rate: 'fast' is not a number"),
        ("stages=[{augment: maybe}]", "setting stages.0.augment: 'maybe' is neither true nor false"),
        ("output=3", "setting output: 3 is not text; put it in quotes"),
        ("optimiser.betas=[1]", "setting optimiser.betas.1: is missing; state it"),
        ("optimiser.betas=[0, 0, 0]", "setting optimiser.betas: [0, 0, 0] has 3 values and not 2"),
        ("model=5", "setting model: 5 is no settings with names; write key: value"),
        ("preset=[small]", "setting preset: ['small'] is none of 'tiny', 'small', 'base'"),
        ("preset=huge", "setting preset: 'huge' is none of 'tiny', 'small', 'base'"),
        ("accelerator=tpu", "setting accelerator: 'tpu' is none of 'auto', 'cpu', 'gpu', 'cuda', 'mps'"),
        ("data.train=[3]", "setting data.train.0: 3 is no settings with names; write key: value"),
        ("data.train={manifest: x}", "x'} is not a list; write it in brackets, as in [a, b]"),
        ("data.train=[{repeat: 1}]", "setting data.train.0.manifest: is missing; state it"),
        (f"steps={'x' * 99}", f"setting steps: '{'x' * 58}… is not a whole number"),
        ("model.d_model=33", "model: d_model=33"),
        ("front_end.sample_rate=32000", "front_end.sample_rate is 32000; sound is read at 16000"),
        ("augmentation.gain_db=[3, 1]", "augmentation: gain_db"),
        ("optimiser.learning_rate=0", "setting optimiser.learning_rate is 0.0; use more than 0"),
        ("optimiser.learning_rate=.inf", "setting optimiser.learning_rate"),
        ("optimiser.accumulate=0", "setting optimiser.accumulate is 0"),
        ("loss.ctc_weight=1.5", "setting loss.ctc_weight is 1.5"),
        ("data.min_seconds=30", "setting data.min_seconds: 30.0 is not below"),
        ("devices=0", "setting devices is 0; use 1 or more"),
        ("stages=[]", "setting stages is empty"),
        ("stages=[{}, {}]", "only the last one may leave out its steps"),
        ("stages=[{steps: 3}]", "they end after 3 of 10000 steps"),
        ("data.train=[{manifest: /x, repeat: -1}]", "setting repeat of /x is -1.0"),
        ("steps", "'steps' is not key=value, such as steps=2000"),
        ("=5", "'=5' is not key=value"),
        ("steps=[1", "'steps=[1': the value is not YAML"),
    ],
)
def test_what_is_wrong_is_named(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        load_config(None, [override])
    assert "\n" not in str(caught.value)


def test_a_setting_below_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"setting steps\.more: steps holds no settings of its own"):
        load_config(None, ["steps=3", "steps.more=5"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"steps: 3\nsteps\n", "not YAML"),
        (b"- 1\n", "holds no settings"),
        (b"\xff\xfe\x00", "not YAML"),
        (b"data: {wrokers: 2}\n", "unknown setting data.wrokers; did you mean data.workers?"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        load_config(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: can't be read \(No such file"):
        load_config(tmp_path / "none.yaml")


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "train", "manifest", "model", "steps", "d_model", "stages", "x"]), inner
        )
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["data", "model", "steps", "stages", "preset", "optimiser", "front_end"]), NESTED)
)
@settings(derandomize=True, max_examples=80, deadline=None)
def test_any_tree_is_settings_or_one_clear_error(values: dict[str, Any]) -> None:
    try:
        config = build(values)
    except CepstraError as error:
        assert str(error)  # noqa: PT017  any other exception is the failure looked for
    else:
        assert isinstance(config, TrainConfig)
        assert yaml.safe_load(yaml.safe_dump(values)) is not None


NINES = "seed:\n  - &x0 [a]\n" + "".join(f"  - &x{i} [{','.join([f'*x{i - 1}'] * 9)}]\n" for i in range(1, 10))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (NINES, "an alias"),  # a billion values out of 400 bytes
        ("stages: &a [*a]", "an alias"),
        ("data: &a {train: *a}", "an alias"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("output: " + "{a: " * 3000 + "1" + "}" * 3000, "nested too deeply"),
        ("seed: 0b" + "1" * 20_000, "digits"),
        ("steps: " + "9" * 5000, "digits"),
        ("vocab_size: 99999999999999999999999", "digits"),
        ("vocab_size: 999999", "use at most 65536"),
        ("steps: 2001-99-99", "month"),
        ("output: !!python/object/apply:os.system ['touch executed']", "tag"),
        ('output: "a\\0b"', "is no path"),
        ('output: "\\ud800"', "is no path"),
        ("output: ''", "is no path"),
        ("output: ~nosuchuser/x", "no such user"),
    ],
)
def test_hostile_files_are_refused_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(ConfigError, match=said) as caught:
        load_config(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert [file.name for file in tmp_path.iterdir()] == ["settings.yaml"]


@pytest.mark.parametrize("override", ["seed=0b" + "1" * 20_000, "data.train=" + "[" * 5000, "output=''"])
def test_hostile_overrides_are_refused_in_one_line(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, [override])
    assert len(str(caught.value)) < 500


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(ConfigError, match="not a file; give the path of a YAML file"):
            load_config(path)


def test_links_in_a_circle_are_a_matter_of_opening_them(tmp_path: Path) -> None:
    (tmp_path / "loop1").symlink_to("loop2")
    (tmp_path / "loop2").symlink_to("loop1")
    assert load_config(write(tmp_path, "output: loop1/x")).output.endswith("loop1/x")
    with pytest.raises(ConfigError, match="can't be read"):
        load_config(tmp_path / "loop1" / "x.yaml")


@pytest.mark.parametrize("value", ['!!bool "x"', '!!int ""', '!!int "+"', '!!timestamp "x"', '!!float "x"', "[" * 3000])
def test_tags_that_do_not_fit_are_refused_in_one_line(tmp_path: Path, value: str) -> None:
    (tmp_path / "my.yaml").write_text(f"seed: {value}\n")
    with pytest.raises(ConfigError, match=r"my\.yaml: not YAML") as caught:
        load_config(tmp_path / "my.yaml")
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="the value is not YAML that can be read"):
        load_config(None, [f"seed={value}"])
