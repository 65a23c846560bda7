"""Transcribing on two Ray nodes of this machine: whatever dies, each row is there once, as without Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from asr.manifest import read_manifest, write_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parents[2] / "data_manifests" / "samples"
PATIENCE = 100.0  # seconds, of what takes ten on an idle machine

pytest.importorskip("ray")


def _plain(manifest: Path) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "asr", "transcribe", "--manifest", str(manifest), "-f", "json"]
    return _rows(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def _alike(one: object, other: object) -> bool:
    """The same, but for a few thousandths of a confidence: what is decoded together has a say in it."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) < 0.02
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return one == other


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 rows."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    write_manifest(path, read_manifest(SAMPLES / "samples.jsonl") * 2)
    return path


@pytest.fixture(scope="module")
def expected(manifest: Path) -> list[dict[str, object]]:
    return _plain(manifest)


class Nodes:
    """Of a cluster."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.address = self._line()

    def kill_one(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self._line() == "killed"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    with subprocess.Popen(
        [sys.executable, HERE / "nodes.py"], env={**os.environ, **quiet}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        yield Nodes(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE)


@contextmanager
def _driver(manifest: Path, folder: Path, address: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, *map(str, (HERE / "driver.py", manifest, folder / "out", address, folder / "go"))]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait_for_parts(process: subprocess.Popen[str], folder: Path, count: int) -> None:
    """Until so many blocks are done; those after the third wait."""
    end = time.monotonic() + PATIENCE
    while len(list(folder.glob("out/parts/[0-9]*"))) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)


def _go(process: subprocess.Popen[str], folder: Path) -> tuple[list[dict[str, object]], str]:
    """What comes of it, and what is printed: the number of rows, and why some failed."""
    (folder / "go").touch()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert err == ""
    return _rows((folder / "out" / "results.jsonl").read_text(encoding="utf-8")), out


def _workers() -> list[int]:
    """Processes that hold a recogniser."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"MapWorker" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def test_a_killed_workers_block_is_done_again(
    nodes: Nodes, manifest: Path, expected: list[dict[str, object]], tmp_path: Path
) -> None:
    others = set(_workers())
    with _driver(manifest, tmp_path, nodes.address) as process:
        _wait_for_parts(process, tmp_path, 3)
        (victim, *_) = set(_workers()) - others
        os.kill(victim, signal.SIGKILL)
        rows, said = _go(process, tmp_path)
    assert _alike(rows, expected)
    assert said == "16\n"  # none of Ray's own lines


def test_a_killed_run_goes_on_where_it_stopped(
    nodes: Nodes, manifest: Path, expected: list[dict[str, object]], tmp_path: Path
) -> None:
    with _driver(manifest, tmp_path, nodes.address) as process:
        _wait_for_parts(process, tmp_path, 3)
        process.kill()
    assert not (tmp_path / "out" / "results.jsonl").exists()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/parts/[0-9]*")}
    with _driver(manifest, tmp_path, nodes.address) as process:
        rows, said = _go(process, tmp_path)
    assert _alike(rows, expected)
    assert said == "16\n"  # none of Ray's own lines
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_row_that_kills_every_worker_fails_alone(nodes: Nodes, manifest: Path, tmp_path: Path) -> None:
    lines = manifest.read_text(encoding="utf-8").splitlines()[:4]
    poisoned = tmp_path / "poisoned.jsonl"
    lines[1] = json.dumps(json.loads(lines[1]) | {"poison": True})
    poisoned.write_text("\n".join(lines), encoding="utf-8")
    with _driver(poisoned, tmp_path, nodes.address) as process:
        rows, said = _go(process, tmp_path)
    assert [("error" in row) for row in rows] == [False, True, False, False]
    assert _alike([row for row in rows if "error" not in row], [row for row in _plain(poisoned) if "poison" not in row])
    assert "takes its worker down" in said
    assert json.loads(lines[1])["audio_filepath"] in said


def test_a_killed_nodes_blocks_are_done_elsewhere(
    nodes: Nodes, manifest: Path, expected: list[dict[str, object]], tmp_path: Path
) -> None:
    """The last test on these nodes."""
    with _driver(manifest, tmp_path, nodes.address) as process:
        _wait_for_parts(process, tmp_path, 3)
        nodes.kill_one()
        rows, said = _go(process, tmp_path)
    assert _alike(rows, expected)
    assert said == "16\n"  # none of Ray's own lines
