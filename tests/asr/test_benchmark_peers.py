"""benchmarks/peers.py: what isn't there is left out, with a word, and the rest is compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "peers.py"


def test_peers_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    figures = tmp_path / "peers.json"
    (tmp_path / "broken").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "broken").chmod(0o755)
    absent = ["--peer", f"moonshine={tmp_path / 'python'}", "--peer", f"pocketsphinx={tmp_path / 'broken'}"]
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--runs", "1", "--seconds", "0.5", "--json", figures, *absent],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"moonshine: left out, {tmp_path / 'python'} doesn't start" in ran.stderr
    assert "pocketsphinx: left out, it doesn't load in" in ran.stderr
    assert "whisper: left out; --peer whisper=PYTHON takes it in" in ran.stderr
    (row,) = json.loads(figures.read_text(encoding="utf-8"))["peers"]
    assert row["name"] == "Cepstra"
    assert row["times_cepstra"] == {"0.5": 1.0}
    assert row["median_ms"]["0.5"] > 0
    assert row["load_s"] > 0
    assert 1 < row["model_mb"] < row["installed_mb"]
    assert row["resident_mb"] > 50
