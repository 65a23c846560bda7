"""The `cepstra` command as a whole: what is said and returned when something goes wrong, and what starting it loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from asr.bundle import write_bundle
from asr.cli import main, running
from asr.errors import CepstraError

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained

COMMANDS = ["transcribe", "evaluate", "features", "train", "export", "bundle", "manifest"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command in this process; returns its exit code."""

    def call(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["cepstra", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code if isinstance(end.value.code, int) else int(end.value.code is not None)

    return call


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes every command raise what it is given."""

    def fail_with(error: BaseException) -> None:
        def app(**_settings: object) -> None:
            raise error

        monkeypatch.setattr(running, "application", lambda _wanted: app)

    return fail_with


def in_shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real command, as "$C", in a shell."""
    variables = {**os.environ, "C": f"{sys.executable} -c 'from asr.cli import main; main()'", **environment}
    return subprocess.run(["bash", "-c", command.replace("$C", variables["C"])], capture_output=True, text=True,
                          env=variables, check=False)  # fmt: skip


def test_version(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    name, version = capsys.readouterr().out.split()
    assert name == "cepstra"
    assert version[0].isdigit()


def test_help_names_every_command(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    text = capsys.readouterr().out
    assert all(f"\n  {command} " in text for command in COMMANDS)
    for command in COMMANDS:
        assert run(command, "--help") == 0
        assert f"Usage: cepstra {command} " in capsys.readouterr().out


FULL_DISK = "cepstra: the output can't be written: No space left on device; check folder, permissions and space\n"


@pytest.mark.parametrize(
    "arguments", [(), ("frobnicate",), ("--frobnicate",), ("bundle",), ("bundle", "show", "a", "b")]
)
def test_wrong_usage_is_2(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert "Usage: cepstra" in out + err


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CepstraError("a.wav: broken;\nmend it"), "cepstra: a.wav: broken; mend it\n"),
        (
            FileNotFoundError(2, "No such file or directory", "gone"),
            "cepstra: gone: No such file or directory; check folder, permissions and space\n",
        ),
        (OSError(28, "No space left on device"), FULL_DISK),
        (
            MemoryError(),
            "cepstra: there is not enough memory for this; give it less at a time, or close other programs\n",
        ),
        (
            ZeroDivisionError("division by zero"),
            (
                "cepstra: a fault in Cepstra itself (ZeroDivisionError: division by zero); "
                "please report it, with what CEPSTRA_TRACEBACK=1 shows\n"
            ),
        ),
    ],
)
def test_every_error_is_one_line(
    run: Callable[..., int],
    failing: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    line: str,
) -> None:
    failing(error)
    assert run() == 1
    assert capsys.readouterr() == ("", line)


def test_a_traceback_for_who_wants_it(
    failing: Callable[[BaseException], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(CepstraError("a.wav: broken"))
    monkeypatch.setenv("CEPSTRA_TRACEBACK", "1")
    with pytest.raises(CepstraError):
        main()


def test_ctrl_c_is_130(
    run: Callable[..., int], failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    loading = ImportError("initialization failed")
    loading.__cause__ = KeyboardInterrupt()  # what a library makes of it while it loads
    for error in (KeyboardInterrupt(), loading):
        failing(error)
        assert run() == 130
        assert capsys.readouterr() == ("", "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    ended = in_shell("$C --help | true; exit ${PIPESTATUS[0]}")
    assert (ended.returncode in {0, 1}, ended.stdout, ended.stderr) == (True, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line() -> None:
    ended = in_shell("$C --help > /dev/full")
    assert (ended.returncode, ended.stderr) == (1, FULL_DISK)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_fault(closed: str) -> None:
    ended = in_shell(f"$C bundle show /nowhere {closed}")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr in {"", "cepstra: /nowhere: no such file; give the path of a bundle, such as model.cepstra\n"}


def test_starting_loads_little() -> None:
    script = "import sys, asr.cli.running, asr.cli.commands; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert "typer" in loaded
    assert not set(loaded) & {"numpy", "onnxruntime", "tokenizers", "soundfile", "soxr", "rich", "torch", "yaml"}


def test_bundle_show(
    run: Callable[..., int], toy: tuple[Trained, Bundle], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, path = toy[1], tmp_path / "toy.cepstra"
    write_bundle(path, bundle)
    assert run("bundle", "show", path, "--all") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [str(path), "name: toy", "language: en"]
    assert f"  file: {path.stat().st_size}" in lines
    assert f"  sample_rate: {bundle.front_end.sample_rate}" in lines
    assert f"vocabulary: {bundle.tokenizer.vocab_size}" in lines
    assert run("bundle", "show", path, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["model"] == bundle.model.to_dict()
    assert facts["front_end"] == json.loads(json.dumps(bundle.front_end.to_dict()))
    assert facts["bytes"] == {
        "file": path.stat().st_size,
        "encoder": len(bundle.encoder),
        "decoder": len(bundle.decoder),
    }


def test_bundle_show_of_what_is_none(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.html").write_text("<html>")
    for name, problem in (("none", "no such file"), ("page.html", "not a bundle"), (".", "not a file")):
        assert run("bundle", "show", tmp_path / name) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"cepstra: {tmp_path / name}: ")
        assert problem in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["transcribe", "evaluate"])
def test_a_beam_that_would_take_for_ever_is_refused(command: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from asr.cli import main; main()", command, "--beam", "99999999999999999999", "x"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert "64" in run.stderr
