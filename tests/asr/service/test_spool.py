"""The service's temporary folder: its own while it lives, and taken away by the next one where it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from asr.service.spool import PREFIX, YOUNG_SECONDS, spool

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders can't be locked")
HOLD = """
import sys, time
from asr.service.spool import spool
with spool() as folder:
    (folder / "bundle-1.cepstra").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def age(folder: Path) -> None:
    then = time.time() - YOUNG_SECONDS - 5
    os.utime(folder, (then, then))


def test_a_killed_services_folder_goes_with_the_next_start_and_a_living_ones_stays(place: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(place)}
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    folders = []
    for holder in holders:
        assert holder.stdout is not None
        folders.append(Path(holder.stdout.readline().strip()))
    killed, living = folders
    try:
        for folder in folders:
            age(folder)
        with spool():
            assert killed.exists()  # both live
            assert living.exists()
        holders[0].send_signal(signal.SIGKILL)
        holders[0].wait(10)
        assert killed.exists()
        with spool() as own:
            assert own.parent == place
            assert not killed.exists()
            assert (living / "bundle-1.cepstra").exists()
        assert not own.exists()
    finally:
        for holder in holders:
            holder.kill()
            holder.wait(10)
            if holder.stdout is not None:
                holder.stdout.close()


def test_two_of_one_process_leave_each_other_alone() -> None:
    with spool() as one:
        age(one)
        with spool() as two:
            assert one.exists()
            assert two != one
        assert one.exists()


def test_what_is_no_ones_folder_stays(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("x")
    (place / f"{PREFIX}link").symlink_to(elsewhere)
    (place / f"{PREFIX}file").write_text("x")
    young, other = place / f"{PREFIX}young", place / "cepstra-other"
    for folder in (young, other):
        folder.mkdir()
    for path in (elsewhere, place / f"{PREFIX}file", other):
        age(path)
    old, named, mine = (place / f"{PREFIX}{name}" for name in ("abcd_123", "recordings", "abcd_124"))
    for folder, file in ((old, f"{32 * 'a'}.upload"), (named, f"{32 * 'a'}.upload"), (mine, "my.wav")):
        folder.mkdir()
        (folder / file).write_text("x")
        age(folder)
    with spool():
        pass
    assert (elsewhere / "kept").exists()
    assert young.exists()
    assert other.exists()
    assert (place / f"{PREFIX}file").exists()
    assert not old.exists()
    assert named.exists()
    assert mine.exists()
