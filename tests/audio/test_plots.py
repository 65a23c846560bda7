"""Pictures: that they are drawn, of anything, and without a display."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from audio.errors import CepstraError
from audio.mfcc import MfccSpec
from audio.plots import FORMATS, features_picture, picture_format

MAGIC = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("kind", FORMATS)
def test_is_the_kind_asked_for(kind: str) -> None:
    samples = (0.1 * np.random.default_rng(0).standard_normal(8000)).astype(np.float32)
    assert features_picture(samples, MfccSpec(), kind=kind).startswith(MAGIC[kind])


@pytest.mark.parametrize("n", [0, 1, 400, 16000, 16000 * 90])
@pytest.mark.parametrize(
    "spec",
    [
        MfccSpec(),
        MfccSpec(normalisation="running", edges="zero", mel_scale="slaney", low_hz=0.0, log="decibel"),
        MfccSpec(normalisation="none", n_cepstra=1, n_mels=1, spread=(2.0,), sample_rate=8000, high_hz=200.0),
    ],
    ids=["default", "running", "one filter"],
)
def test_draws_any_clip(n: int, spec: MfccSpec) -> None:
    assert features_picture(np.zeros(n, np.float32), spec).startswith(MAGIC["png"])


def test_a_title_is_no_formula() -> None:
    title = "C:\\$HOME_$\\語\n\N{MICROPHONE}.wav"  # letters that the font lacks bring no warning
    assert features_picture(np.zeros(800, np.float32), MfccSpec(), title=title)


def test_the_time_axis_is_the_clips() -> None:
    """In an SVG one can read it: the last second is on the axis, the one after is not."""
    picture = features_picture(np.zeros(16000 * 5, np.float32), MfccSpec(), kind="svg").decode()
    assert "<!-- 5 -->" in picture
    assert "<!-- 6 -->" not in picture
    for label in ("Time (s)", "Frequency (Hz)", "Power (dB)", "Cepstrum", "Waveform"):
        assert f"<!-- {label} -->" in picture


def test_the_format_follows_the_name() -> None:
    assert picture_format(Path("a.b/C.PNG")) == "png"
    for name in ("a", "a.gif", "png"):
        with pytest.raises(CepstraError, match=rf"^{name}: no known kind of picture.*\.png, \.svg, \.pdf"):
            picture_format(Path(name))


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CepstraError, match=r"pip install 'cepstra\[train\]'"):
        features_picture(np.zeros(800, np.float32), MfccSpec())


def test_importing_draws_nothing() -> None:
    code = "import sys, audio.plots; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
