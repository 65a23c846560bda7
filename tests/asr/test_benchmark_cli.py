"""`cepstra benchmark`, from options to files."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from asr.benchmark.latency import STAGES
from asr.bundle import read_bundle
from asr.cli.benchmark import _torch
from asr.cli.commands import app
from asr.errors import CepstraError, ConfigError
from asr.recognizer import DEFAULT_BUNDLE, DEFAULT_WEIGHTS

if TYPE_CHECKING:
    from pathlib import Path

QUICK = ["--runs", "2", "--cold-runs", "1", "--seconds", "0.5", "--threads", "1"]


def attempt(*options: str) -> tuple[int, str, BaseException | None]:
    found = CliRunner().invoke(app, ["benchmark", *options], env={"COLUMNS": "80"})
    return found.exit_code, found.output, found.exception


@pytest.fixture(autouse=True)
def peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asr.benchmark.products.SECONDS", 0.0)


@pytest.fixture
def measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was measured")

    monkeypatch.setattr("asr.benchmark.run.run", refuse)


def test_figures_and_picture(tmp_path: Path) -> None:
    figures, picture = tmp_path / "figures.json", tmp_path / "figures.svg"
    code, output, error = attempt(
        *QUICK, "--seconds", "2", "--memory", "20", "--json", str(figures), "--picture", str(picture)
    )
    assert (code, error) == (0, None)
    assert max(map(len, output.split(f"Figures: {figures}")[0].splitlines())) <= 80
    for shown in ("the one that ships", "sample commands", "1 thread", "real-time", "Cold start", "utterances"):
        assert shown in output
    found: dict[str, Any] = json.loads(figures.read_text(encoding="utf-8"))
    assert found["model"]["bytes"] == DEFAULT_BUNDLE.stat().st_size
    assert {"processor", "cores", "system", "python", "onnxruntime"} <= set(found["machine"])
    assert [each["seconds"] for each in found["latency"]] == [0.5, 2.0]
    for each in found["latency"]:
        assert set(each["stages_ms"]) == {*STAGES, "rest"}
        assert sum(each["stages_ms"].values()) == pytest.approx(each["median_ms"], abs=0.001)
        assert each["p95_ms"] >= each["median_ms"] >= each["fastest_ms"] > 0
        assert each["real_time_factor"] == pytest.approx(each["median_ms"] / 1000 / each["seconds"], abs=1e-4)
        assert each["decoder_tokens"] >= each["decoder_steps"] >= 1
        assert each["decoder_step_ms"] == pytest.approx(each["stages_ms"]["decoder"] / each["decoder_steps"], abs=0.001)
        assert set(each["share_of_peak"]) == {"encoder", "decoder"}
        assert each["share_of_peak"]["encoder"] > 0
    assert set(found["peak_operations_per_second"]["1"]) == {"float64", "float32", "int8"}
    assert [each["seconds"] for each in found["resident_mb"]] == [0.5, 2.0]
    assert found["cold_start"]["seconds"] == 2.0
    assert found["memory"]["utterances"] == list(range(21))
    assert len(found["memory"]["resident_mb"]) == 21
    words = [each.text for each in ET.parse(picture).getroot().iter() if each.text]  # noqa: S314  ours
    assert {"From file to text, warm, median", "Resident memory", "encoder", "utterances"} <= set(words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures.json", "figures.svg"]


def test_a_recording_of_ones_own_and_no_memory(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "hiss.wav", np.random.default_rng(0).normal(0, 0.01, 24000), 24000)
    code, output, _ = attempt(*QUICK, "--clip", str(tmp_path / "hiss.wav"), "--json", str(tmp_path / "figures.json"))
    assert code == 0
    assert str(tmp_path / "hiss.wav") in output.replace("\n", "")
    found = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert found["sound"] == str(tmp_path / "hiss.wav")
    assert found["memory"] is None
    (latency,) = found["latency"]
    assert latency["stages_ms"]["resample"] > 0
    assert (latency["decoder_steps"], latency["decoder_step_ms"]) == (0, None)  # nobody speaks: the model isn't asked
    assert latency["share_of_peak"] == {"encoder": None, "decoder": None}


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
def test_torch_in_turn_and_png(tmp_path: Path) -> None:
    figures, picture = tmp_path / "figures.json", tmp_path / "figures.png"
    code, output, error = attempt(*QUICK, "--against", "torch", "--json", str(figures), "--picture", str(picture))
    assert (code, error) == (0, None)
    assert "In turn with torch" in output
    found = json.loads(figures.read_text(encoding="utf-8"))["latency"]
    assert [each["backend"] for each in found] == ["onnxruntime", "torch"]
    assert "share_of_peak" not in found[1]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("measures_nothing")
def test_torch_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asr.cli.extras.find_spec", lambda name: None if name == "torch" else True)
    code, _, error = attempt("--against", "torch")
    assert code == 1
    assert isinstance(error, CepstraError)
    assert str(error) == "torch is not installed; run: pip install 'cepstra[train]'"


@pytest.mark.usefixtures("measures_nothing")
def test_png_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("asr.cli.extras.find_spec", lambda _name: None)
    _, _, error = attempt("--picture", str(tmp_path / "a.png"))
    assert "matplotlib is not installed" in str(error)


def test_weights_of_another_model_are_refused() -> None:
    bundle = read_bundle(DEFAULT_BUNDLE)
    _torch(bundle, DEFAULT_WEIGHTS)
    with pytest.raises(ConfigError, match=r"en-commands\.safetensors: not of the same model as bundle"):
        _torch(replace(bundle, model=replace(bundle.model, encoder_ff=512)), DEFAULT_WEIGHTS)


@pytest.mark.usefixtures("measures_nothing")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json", "{}/absent/a.json"], "--json .*there is no folder"),
        (["--picture", "{}/a.gif"], "--picture .*ends in .svg or .png"),
        (["--json", "{}/a", "--picture", "{}/a"], "goes to the same file"),
        (["--model", "{}/absent.cepstra"], "--model .*absent.cepstra"),
        (["--clip", "{}/absent.wav"], "--clip .*absent.wav"),
        (["--json", str(DEFAULT_BUNDLE)], "is read by this command"),
    ],
)
def test_faults_come_before_the_work(options: list[str], message: str, tmp_path: Path) -> None:
    code, _, error = attempt(*(option.format(tmp_path) for option in options))
    assert code == 1
    assert isinstance(error, CepstraError)
    with pytest.raises(CepstraError, match=message):
        raise error


@pytest.mark.usefixtures("measures_nothing")
@pytest.mark.parametrize(
    "options",
    [
        ["--weights", "a.ckpt"],
        ["--against", "torch", "--model", "a.cepstra"],
        ["--against", "paper"],
        ["--runs", "0"],
        ["--threads", "0"],
        ["--seconds", "0"],
        ["--memory", "19"],
    ],
)
def test_wrong_usage(options: list[str]) -> None:
    assert attempt(*options)[0] == 2


@pytest.mark.usefixtures("measures_nothing")
def test_a_pipe_is_refused_as_a_clip_since_it_is_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("-", str(tmp_path / "pipe")):
        code, output, error = attempt("--clip", name)
        assert code == 1
        assert "can be read only once" in output + str(error)


def test_sigterm_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "asr", "benchmark", "--seconds", "0.5", "--runs", "1", "--cold-runs", "1"]
    running = subprocess.Popen([*command, "--memory", "100000"], env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not (begun := list(tmp_path.iterdir())) and time.monotonic() < until:
        time.sleep(0.1)
    assert begun
    running.terminate()
    assert running.wait(60) == 143
    assert list(tmp_path.iterdir()) == []


def test_what_is_broken_off_leaves_files_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("asr.benchmark.run.run", stop)
    figures = tmp_path / "figures.json"
    figures.write_text("earlier")
    assert attempt("--json", str(figures), "--picture", str(tmp_path / "a.svg"))[0] == 130
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
    assert figures.read_text() == "earlier"


def test_the_base_install_is_enough() -> None:
    blocked = "import sys; sys.modules |= dict.fromkeys(['torch', 'onnx', 'matplotlib', 'pydantic', 'lightning'])\n"
    program = f"{blocked}import asr.benchmark.run, asr.benchmark.table, asr.benchmark.picture"
    subprocess.run([sys.executable, "-c", program], check=True)
