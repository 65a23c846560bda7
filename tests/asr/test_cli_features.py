"""`cepstra features`, as a user runs it."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile as sf
import typer
from typer.testing import CliRunner

from asr.bundle import Bundle, write_bundle
from asr.cli.features import features
from asr.errors import CepstraError
from asr.model.config import ModelConfig
from asr.tokenizer import Tokenizer
from audio.mfcc import MfccSpec, mfcc

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


@pytest.fixture
def tone(tmp_path: Path) -> Path:
    """A second of a fading tone, 16 kHz, 16 bit, under a name that is not plain."""
    samples = 0.5 * np.sin(2 * np.pi * 440 / 16000 * np.arange(16000)) * np.linspace(1, 0.1, 16000)
    path = tmp_path / "tön 語.wav"
    sf.write(path, samples, 16000, subtype="PCM_16")
    return path


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    app = typer.Typer()
    app.command()(features)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def expected(path: Path, spec: MfccSpec) -> Any:
    return mfcc(sf.read(path, dtype="float32")[0], spec)


def test_says_what_came_out(tone: Path) -> None:
    result = run(tone)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    assert lines[0] == f"{tone}: 1.00 s at 16000 Hz, peak -6.0 dBFS, rms -13.3 dBFS"
    assert lines[1] == "98 frames x 40 cepstra: 25 ms every 10 ms, normalisation utterance"
    assert lines[2].startswith("range ")


def test_writes_the_array(tone: Path, tmp_path: Path) -> None:
    output = tmp_path / "cepstra.npy"
    assert f"Cepstra: {output}" in run(tone, "-o", output).stdout
    np.testing.assert_array_equal(np.load(output), expected(tone, MfccSpec()))
    before = output.read_bytes()
    assert run(tone, "--output", output).exit_code == 0
    assert output.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cepstra.npy", "tön 語.wav"]


def test_draws_the_picture(tone: Path, tmp_path: Path) -> None:
    picture = tmp_path / "out.PNG"
    assert f"Picture: {picture}" in run(tone, "--plot", picture).stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_reads_standard_input(tone: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.npy"
    result = run("-", "-o", output, stdin=tone.read_bytes())
    assert result.stdout.startswith("standard input: 1.00 s")
    np.testing.assert_array_equal(np.load(output), expected(tone, MfccSpec()))


def test_the_spec_is_a_file_and_settings_over_it(tone: Path, tmp_path: Path) -> None:
    file, output = tmp_path / "spec.json", tmp_path / "a.npy"
    file.write_text(json.dumps({"n_mels": 23, "n_cepstra": 20, "normalisation": "none"}), encoding="utf-8")
    assert run(tone, "-o", output, "--spec", file, "--spec", "n_cepstra=13", "--spec", "window=hamming").exit_code == 0
    spec = MfccSpec(n_mels=23, n_cepstra=13, normalisation="none", window="hamming")
    np.testing.assert_array_equal(np.load(output), expected(tone, spec))


def test_the_spec_of_a_bundle(tone: Path, tmp_path: Path) -> None:
    spec = MfccSpec(n_mels=30, n_cepstra=30, normalisation="running", spread=(2.0,) * 30)
    bundle = Bundle(b"", b"", Tokenizer.train(["one two"], vocab_size=40), spec, ModelConfig(), language="en")
    write_bundle(tmp_path / "model.cepstra", bundle)
    assert run(tone, "-o", tmp_path / "a.npy", "--spec", tmp_path / "model.cepstra").exit_code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), expected(tone, spec))


def test_the_spec_decides_the_rate(tone: Path) -> None:
    settings = ("sample_rate=8000", "frame=200", "hop=80", "fft=256", "high_hz=4000", "top_db=80", "spread=null")
    result = run(tone, *(word for setting in settings for word in ("--spec", setting)))
    assert "1.00 s at 8000 Hz" in result.stdout
    assert "98 frames x 40 cepstra: 25 ms every 10 ms" in result.stdout


def test_silence(tmp_path: Path) -> None:
    path = tmp_path / "silence.wav"
    sf.write(path, np.zeros(8000), 16000)
    assert "0.50 s at 16000 Hz, peak digital silence" in run(path).stdout


def test_a_warning_goes_to_standard_error(tone: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.wav"
    short.write_bytes(tone.read_bytes()[:-1000])
    result = run(short)
    assert result.exit_code == 0
    assert result.stderr.startswith(f"cepstra: {short}: ")
    assert "0.97 s" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plot", "x.gif"], r"^--plot x.gif: no known kind of picture"),
        (["--plot", "missing/x.png"], r"^--plot missing/x.png: there is no folder missing"),
        (["-o", "missing/x.npy"], r"^--output missing/x.npy: there is no folder missing"),
        (["-o", "."], r"is a folder"),
        (["--spec", "missing.json"], r"^--spec missing.json: no such file, and no NAME=VALUE"),
        (["--spec", "n_mel=3"], r"^--spec .*unknown setting 'n_mel'; did you mean 'n_mels'"),
        (["--spec", "hop=ten"], r"^--spec .*hop is 'ten'; it takes a whole number"),
        (["--spec", "hop="], r"^--spec .*hop is ''; it takes a whole number"),
        (["--spec", "words.json"], r"^--spec words.json: is neither a bundle nor JSON"),
        (["--spec", "list.json"], r"^--spec list.json: holds a list"),
    ],
)
def test_refuses_in_one_line(
    tone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.json").write_bytes(b"\xff words")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(CepstraError, match=message) as caught:
        run(tone, *arguments)
    assert "\n" not in str(caught.value)


def test_no_sound(tmp_path: Path) -> None:
    with pytest.raises(CepstraError, match=r"missing\.wav: no such file"):
        run(tmp_path / "missing.wav")


def test_a_failed_write_leaves_the_old_file(tone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "a.npy"
    output.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(CepstraError, match=r"a\.npy: can't be written \(No space left on device\)"):
        run(tone, "-o", output)
    monkeypatch.undo()
    assert output.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2


def test_the_array_needs_no_pickle(tone: Path, tmp_path: Path) -> None:
    run(tone, "-o", tmp_path / "a.npy")
    array = np.load(io.BytesIO((tmp_path / "a.npy").read_bytes()), allow_pickle=False)
    assert array.dtype == np.float32
    assert array.shape == (98, 40)
