"""Two thousand damaged bundles: each is refused in one line, or answers what the sound one answers.

They are read and run in processes of their own (bundle_mutants.py), of bounded memory, since ONNX Runtime is C++. Where
somebody made the digests fit again the bundle is another one: it may answer otherwise, but end nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from asr.bundle import FORMAT
from asr.recognizer import DEFAULT_BUNDLE

HERE = Path(__file__).parent
TINY = HERE / "old_bundles" / f"format{FORMAT}.cepstra"
CONTAINER = ("bits", "cuts", "headers", "names")
HANG = 400  # seconds, for what takes ten


def run(bundle: Path, folder: Path, first: int, last: int, kinds: tuple[str, ...]) -> tuple[Counter[str], list[str]]:
    """How many came to what, and the tracebacks of processes that died."""
    outcomes: Counter[str] = Counter()
    deaths = []
    while first < last:
        ended = subprocess.run(
            [sys.executable, HERE / "bundle_mutants.py", bundle, folder, str(first), str(last), ",".join(kinds)],
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
            env={**os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        assert lines, ended.stderr
        for number, kind, outcome in lines:
            if outcome != "started":
                outcomes[outcome if outcome in {"refused", "same", "other"} else f"{number} {kind}: {outcome}"] += 1
        if ended.returncode:
            deaths.append(f"{lines[-1]} {ended.returncode}: {ended.stderr}")
        first = lines[-1][0] + 1
    return outcomes, deaths


@pytest.mark.parametrize("part", range(3))
def test_a_damaged_file_is_refused_or_answers_the_same(tmp_path: Path, part: int) -> None:
    outcomes, deaths = run(TINY, tmp_path, 500 * part, 500 * (part + 1), CONTAINER)
    assert deaths == []
    assert set(outcomes) == {"refused", "same"}  # an unknown date or attribute of a part changes nothing
    assert outcomes["refused"] > 250


def test_so_is_the_one_that_ships(tmp_path: Path) -> None:
    outcomes, deaths = run(DEFAULT_BUNDLE, tmp_path, 2000, 2040, CONTAINER)
    assert deaths == []
    assert set(outcomes) == {"refused", "same"}


def test_strange_settings_with_digests_that_fit_end_nothing(tmp_path: Path) -> None:
    outcomes, deaths = run(TINY, tmp_path, 3000, 3260, ("settings",))
    assert deaths == []
    assert set(outcomes) <= {"refused", "same", "other"}
    assert outcomes["refused"] > 80


def test_damaged_graphs_with_digests_that_fit_end_nothing(tmp_path: Path) -> None:
    outcomes, deaths = run(TINY, tmp_path, 4000, 4150, ("graphs",))
    assert deaths == []
    assert set(outcomes) <= {"refused", "same", "other"}
    assert outcomes["refused"] > 80


def test_forged_graphs_reach_no_further_than_onnx_runtime(tmp_path: Path) -> None:
    """A few valid graphs with one node changed crash its loader (1.32), which only whoever forges digests can do."""
    outcomes, deaths = run(TINY, tmp_path, 5000, 5060, ("swapped_values",))
    assert set(outcomes) <= {"refused", "same", "other"}
    assert outcomes["refused"] > 20
    assert len(deaths) <= 3
    assert all(
        "Current thread" in death and "onnxruntime" in death.split("Current thread")[1].splitlines()[1]
        for death in deaths
    )
