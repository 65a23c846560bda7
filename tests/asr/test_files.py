"""Files written whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from asr.errors import BundleError, CepstraError
from asr.files import atomic, check_writable, write_atomically


def test_text_and_bytes_come_as_they_are(tmp_path: Path) -> None:
    write_atomically(tmp_path / "text", "zwölf\r\n\n")
    write_atomically(tmp_path / "bytes", b"\xff\r\n\x00")
    assert (tmp_path / "text").read_bytes() == "zwölf\r\n\n".encode()
    assert (tmp_path / "bytes").read_bytes() == b"\xff\r\n\x00"


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path, link = tmp_path / "out.json", tmp_path / "link.json"
    write_atomically(path, "old\n")
    link.symlink_to(path)
    with path.open(encoding="utf-8") as reader:
        with atomic(link) as file:
            file.write(b"new")
            file.flush()
            assert path.read_text(encoding="utf-8") == "old\n"  # until the block ends
        assert reader.read() == "old\n"  # and who reads already has all of it
    assert path.read_text(encoding="utf-8") == "new"
    assert link.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.json", "out.json"]


def test_a_link_to_a_file_that_is_yet_to_come(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize("fault", [RuntimeError, KeyboardInterrupt])
def test_what_goes_wrong_leaves_the_old_file(tmp_path: Path, fault: type[BaseException]) -> None:
    path = tmp_path / "out.json"
    write_atomically(path, "old")
    with pytest.raises(fault), atomic(path) as file:  # noqa: PT012  the block is what goes wrong
        file.write(b"new")
        raise fault
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \udce9")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_permissions_are_the_umasks(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "out", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_the_longest_names_work(tmp_path: Path) -> None:
    for name in ("n" * 255, "語" * 85):  # 255 bytes
        write_atomically(tmp_path / name, "x")
        assert (tmp_path / name).read_text(encoding="utf-8") == "x"


def test_what_is_no_file_is_written_straight(tmp_path: Path) -> None:
    write_atomically(Path("/dev/null"), "gone")
    assert not Path("/dev/null").is_file()
    pipe, heard = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, "through")
    reader.join()
    assert heard == [b"through"]
    script = "from pathlib import Path; from asr.files import *; write_atomically(Path('/dev/stdout'), 'piped')"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "piped"


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    for place in ("absent/out.json", "."):
        with pytest.raises(BundleError, match=r"^.*: can't be written \(.+\); check folder, permissions and space$"):
            write_atomically(tmp_path / place, "x", BundleError)
    assert list(tmp_path.iterdir()) == []


def test_places_are_checked_beforehand(tmp_path: Path) -> None:
    with pytest.raises(CepstraError, match=r"there is no folder .*absent; create it first"):
        check_writable(tmp_path / "absent" / "out.json")
    with pytest.raises(BundleError, match="is a folder; name a file"):
        check_writable(tmp_path, error=BundleError)
    check_writable(tmp_path / "out.json")
    check_writable(Path("/dev/null"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_places_that_may_not_be_written_are_found_beforehand(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("x", encoding="utf-8")
    kept.chmod(0o444)
    with pytest.raises(CepstraError, match="kept: can't be written"):
        check_writable(kept)
    kept.chmod(0o644)
    tmp_path.chmod(0o555)
    try:
        for path in (kept, tmp_path / "new"):
            with pytest.raises(CepstraError, match="can't be written"):
                check_writable(path)
    finally:
        tmp_path.chmod(0o755)
