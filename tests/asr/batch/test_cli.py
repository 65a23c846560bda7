"""`cepstra transcribe --engine ray` as far as it goes without Ray: what it refuses, writes and says."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from asr.batch import ray_engine
from asr.batch.blocks import read_block, rows_of
from asr.batch.documents import failed, heard
from asr.batch.run import Answer, Unit
from asr.cli import main
from asr.errors import CepstraError
from asr.recognizer import Recognizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Run = Callable[..., tuple[int, str, str]]

SAMPLES = Path(__file__).resolve().parents[3] / "data_manifests" / "samples"


class Here:
    """In Ray's place: one recogniser in this process, with the arguments that workers would get."""

    stop: int | None = None  # the signal that comes in the middle

    def __init__(self, manifest: Path, options: dict[str, Any], address: str | None) -> None:
        assert address is None
        self.manifest, self.recognizer = manifest, Recognizer(threads=1, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def hear(self, units: Sequence[Unit]) -> Iterator[Answer]:
        if self.stop is not None:
            os.kill(os.getpid(), self.stop)
        for i, unit in enumerate(units):
            rows = rows_of(read_block(self.manifest, unit.block), self.manifest, unit.block.line)
            said = zip(rows, self.recognizer.transcribe_each(rows), strict=True)
            lines = (
                failed(row, str(each)) if isinstance(each, CepstraError) else heard(row, each) for row, each in said
            )
            yield Answer(i, tuple(lines), ("cut short",))


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Two recordings, and one that isn't there between them."""
    path = tmp_path / "rows.jsonl"
    names = [SAMPLES / "computer_speed_up.wav", tmp_path / "none.wav", SAMPLES / "please_save_the_file.wav"]
    rows = [{"audio_filepath": str(name), "duration": 1, "text": "", "id": i} for i, name in enumerate(names)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], manifest: Path) -> Run:
    """The command: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        command = ["cepstra", "transcribe", "--manifest", manifest, *arguments]
        monkeypatch.setattr(sys, "argv", list(map(str, command)))
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return call


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "RayEngine", Here)
    monkeypatch.setattr("asr.cli.extras.find_spec", lambda _: True)


@pytest.mark.usefixtures("without_ray")
def test_results_are_those_of_the_plain_command_and_rows_that_fail_are_said_at_the_end(
    run: Run, tmp_path: Path
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("speed\n")
    guides = ("--beam", "2", "--boost", words, "--no-speech-detection")
    code, out, err = run("--engine", "ray", "-o", tmp_path / "out", *guides)
    results = tmp_path / "out" / "results.jsonl"
    assert (code, out) == (1, f"{results}: 3 rows\n")
    missing = f"{tmp_path / 'none.wav'}: no such file"
    assert err.splitlines()[0] == "cepstra: warning: cut short"
    assert err.splitlines()[1].startswith(f"cepstra: {missing}")
    assert err.splitlines()[2:] == ["cepstra: 1 of 3 rows failed; the same command tries them again"]
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == [0, 1, 2]
    assert rows[1]["error"].startswith(missing)
    plain = [json.loads(line) for line in run("--format", "json", *guides)[1].splitlines()]
    assert [row["text"] for row in plain] == [row["text"] for row in rows if "error" not in row]
    assert [list(row) for row in plain] == [list(row) for row in rows if "error" not in row]

    code, _, err = run("--engine", "ray", "-o", tmp_path / "out", *guides, "--channel", "0")
    assert code == 1
    assert "holds a run with other settings (channel); choose another folder" in err
    words.write_text("save\n")
    assert "other settings (boost)" in run("--engine", "ray", "-o", tmp_path / "out", *guides)[2]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.usefixtures("without_ray")
def test_signals_end_it_in_a_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    monkeypatch.setattr(Here, "stop", number)
    before = signal.getsignal(signal.SIGTERM)
    ended = run("--engine", "ray", "-o", tmp_path / "out")
    assert ended == (code, "", "cepstra: interrupted; 0 of 3 rows done; the same command goes on\n")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--engine", "ray"), "name one with --output-dir"),
        (("--engine", "ray", "-o", "out", "a.wav"), "no files"),
        (("--engine", "ray", "-o", "out", "--format", "text"), "leave --format out"),
        (("--engine", "ray", "-o", "out", "--threads", "2"), "leave it out"),
        (("--engine", "nonsense"), "'local', 'ray'"),
        (("--address", "auto"), "is for --engine ray"),
    ],
)
def test_what_doesnt_go_together_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert problem in err
    assert not (tmp_path / "out").exists()


def test_without_ray_it_says_how_to_install_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "asr.cli.extras.find_spec", lambda name: None if name == "ray" else importlib.util.find_spec(name)
    )
    assert run("--engine", "ray", "-o", tmp_path / "out") == (
        1, "", "cepstra: ray is not installed; run: pip install 'cepstra[ray]'\n",
    )  # fmt: skip


@pytest.mark.parametrize("address", ["nonsense", "host:", ":6379", "ray://host:10001", "host:port"])
def test_what_is_no_address_is_refused(run: Run, tmp_path: Path, address: str) -> None:
    pytest.importorskip("ray")
    code, _, err = run("--engine", "ray", "-o", tmp_path / "out", "--address", address)
    assert code == 1
    assert f"--address {address!r} is not HOST:PORT" in err


def test_an_address_where_nobody_answers_is_said_at_once(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    code, out, err = run("--engine", "ray", "-o", tmp_path / "out", "--address", f"127.0.0.1:{port}")
    assert (code, out) == (1, "")
    assert f"127.0.0.1:{port}: no Ray cluster answers there" in err
