"""A synthesis that ended early, or is started again: nothing is made twice, and nothing of others is touched."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from asr.errors import ConfigError, SynthesisError
from asr.synthesis import Prompt
from tests.asr.synthesising import CEPSTRA, SCRIPT, TEXTS, TONE, cepstra, make, rows, sounds


def _many(folder: Path) -> list[str]:
    texts = [f"slow {i}" for i in range(9)]
    (folder / "texts.txt").write_text("\n".join(texts) + "\n")
    split = "train=0.8,test=0.2"
    return ["texts.txt", "-o", "a", "--engine", TONE, "--engine", TONE, "--workers", "2", "--split", split]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `_many` comes to in one go."""
    folder = tmp_path_factory.mktemp("whole")
    texts = [Prompt(f"slow {i}", intent=f"slow {i}") for i in range(9)]
    make(folder, texts, engines=[TONE, TONE], split={"train": 0.8, "test": 0.2}, workers=2)
    return folder


def _started(folder: Path, arguments: list[str], enough: int) -> subprocess.Popen[str]:
    """A run that has made some utterances."""
    run = subprocess.Popen([*CEPSTRA, "synthesize", *arguments], cwd=folder, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if len(list((folder / "a" / "audio").glob("*.flac"))) >= enough:
            return run
        assert run.poll() is None, run.communicate()
        time.sleep(0.1)
    raise AssertionError(run.communicate())


def _engines_running(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return [line for line in found if str(SCRIPT) in line and "synthesize" not in line and str(folder) in line]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_run_that_ended_early_goes_on_and_ends_as_one_that_did_not(
    tmp_path: Path, whole: Path, how: signal.Signals
) -> None:
    arguments = _many(tmp_path)
    run = _started(tmp_path, arguments, 2)
    run.send_signal(how)
    errors = run.communicate(timeout=60)[1]
    assert run.returncode == (-9 if how == signal.SIGKILL else 130)
    if how == signal.SIGINT:
        assert errors.startswith("cepstra: interrupted; ")
        assert errors.endswith("of 9 made; the same command goes on\n")
        assert errors.count("\n") == 1
    time.sleep(1)  # what was killed leaves its processes to the end of their input
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a" / "audio").glob("*.flac")}
    assert 2 <= len(before) < 9
    assert not (tmp_path / "a" / "train.jsonl").exists()
    (tmp_path / "a" / "audio" / ".000008.flac.abc.part").touch()
    with (tmp_path / "a" / ".done.jsonl").open("a") as file:
        file.write('{"index": 8, "ro')  # half a line
    done = cepstra(*arguments, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    now = _written(tmp_path / "a")
    kept = [name for name, when in before.items() if now[name] == when]
    assert len(kept) >= len(before) - 2  # one of each process may have been written and not been noted
    for name in ("train.jsonl", "test.jsonl"):
        assert (tmp_path / "a" / name).read_text() == (whole / name).read_text()
    assert sounds(tmp_path / "a") == sounds(whole)
    assert not _engines_running(tmp_path)


def test_ctrl_c_ends_an_engine_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("one\nhang\n")
    run = _started(tmp_path, ["texts.txt", "-o", "a", "--engine", f"{TONE} {tmp_path}", "--workers", "2"], 1)
    for _ in range(300):
        if _engines_running(tmp_path):
            break
        time.sleep(0.1)
    assert len(_engines_running(tmp_path)) == 1
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=30)
    assert run.returncode == 130
    assert not _engines_running(tmp_path)


def test_what_is_done_is_not_made_again(tmp_path: Path) -> None:
    make(tmp_path / "a")
    before = _written(tmp_path / "a")
    seen: list[tuple[int, int]] = []
    make(tmp_path / "a", workers=2, progress=lambda *numbers: seen.append(numbers))
    assert _written(tmp_path / "a") == before
    assert not seen
    lost = tmp_path / "a" / "audio" / "000001.flac"
    lost.unlink()
    make(tmp_path / "a")
    assert lost.exists()
    assert len(rows(tmp_path / "a")) == 3


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"seed": 1}, "seed"),
        ({"texts": ["one"]}, "texts, count"),
        ({"vary": True}, "vary"),
        ({"engines": [TONE + " x"]}, "engines"),
    ],
)
def test_a_run_with_other_settings_is_refused_unless_it_restarts(
    tmp_path: Path, changed: dict[str, Any], what: str
) -> None:
    make(tmp_path / "a")
    (tmp_path / "a" / "mine.txt").touch()
    before = _written(tmp_path / "a")
    with pytest.raises(ConfigError, match=rf"other settings \({what}\); choose another folder, or --restart"):
        make(tmp_path / "a", **changed)
    assert _written(tmp_path / "a") == before
    make(tmp_path / "a", **changed, restart=True)
    after = _written(tmp_path / "a")
    assert len(rows(tmp_path / "a")) == len(changed.get("texts", TEXTS)) == len(after)
    assert all(after[name] > before[name] for name in after)
    assert (tmp_path / "a" / "mine.txt").exists()


def _written(folder: Path) -> dict[str, int]:
    """When each sound was."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "audio").iterdir()}


@pytest.mark.parametrize("name", ["audio/mine.flac", "manifest.jsonl"])
def test_files_that_no_run_has_written_are_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / "a" / name).parent.mkdir(parents=True)
    (tmp_path / "a" / name).write_text("mine")
    for restart in (False, True):
        with pytest.raises(ConfigError, match="not written by a run; choose another folder"):
            make(tmp_path / "a", restart=restart)
    assert (tmp_path / "a" / name).read_text() == "mine"


def test_a_full_disk_ends_the_run_with_one_line(tmp_path: Path) -> None:
    ran = cepstra(
        "slow and quite long to say, so that no file is small", "-o", "a", "--engine", TONE, "--count", "30",
        cwd=tmp_path, before="ulimit -S -f 4; trap '' XFSZ;",
    )  # fmt: skip
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "can't be written (File too large); check folder, permissions and space" in ran.err
    assert not list(tmp_path.rglob("*.part"))


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in ("file", "file/below"):
        with pytest.raises(SynthesisError, match="choose another"):
            make(tmp_path / folder)


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    holder = "from asr.synthesis.folder import Folder; from pathlib import Path; import sys\n"
    holder += "with Folder(Path(sys.argv[1])).held(print): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path / "a")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(SynthesisError, match=f"another synthesis is writing into it .process {process.pid}"):
            make(tmp_path / "a")
