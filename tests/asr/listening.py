"""`cepstra listen` as a command, and what is said to it."""

from __future__ import annotations

import sys
from pathlib import Path

RATE = 16000
SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
COMMAND = [sys.executable, "-c", "from asr.cli import main; main()", "listen", "--input"]
