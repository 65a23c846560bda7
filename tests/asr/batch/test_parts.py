"""Blocks of a manifest and the parts that are kept of them, without Ray: no row is lost or doubled."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.batch.blocks import Block, cut, read_block, rows_of
from asr.batch.documents import failed, heard
from asr.batch.parts import Folder
from asr.batch.run import Answer, LostError, Unit, transcribe
from asr.errors import CepstraError, ConfigError, ManifestError
from asr.manifest import Utterance, read_manifest
from asr.results import Result, Word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def _manifest(folder: Path, rows: int, *, marks: bool = False) -> Path:
    """Of rows of a second. marks: a byte-order mark, and line ends of Windows with blank lines between."""
    path = folder / "rows.jsonl"
    lines = [json.dumps({"audio_filepath": f"{i}.wav", "duration": 1, "text": f"row {i}"}) for i in range(rows)]
    ends = "\r\n\n \n" if marks else "\n"
    path.write_bytes(b"\xef\xbb\xbf" * marks + "".join(line + ends for line in lines).encode())
    return path


class Fake:
    """Writes a row's own text; may die, lose its workers, and be stopped."""

    def __init__(
        self, manifest: Path, *, bad: Sequence[str] = (), deadly: Sequence[str] = (), last: int = 10**9, lost: int = 0
    ) -> None:
        """bad, deadly: texts of rows. last: units before Ctrl-C. lost: times that the workers are lost midway."""
        self.manifest, self.bad, self.deadly, self.last, self.lost = manifest, bad, deadly, last, lost
        self.heard: list[str] = []

    def hear(self, units: Sequence[Unit]) -> Iterator[Answer]:
        for i, unit in reversed(list(enumerate(units))):
            rows = rows_of(read_block(self.manifest, unit.block), self.manifest, unit.block.line)
            wanted = [rows[row] for row in unit.rows]
            if self.last == 0:
                raise KeyboardInterrupt
            self.last -= 1
            if any(row.text in self.deadly for row in wanted):
                continue
            self.heard += [row.text for row in wanted]
            yield Answer(i, tuple(self._line(row) for row in wanted))
            if self.lost:
                self.lost -= 1
                raise LostError("gone")

    def _line(self, row: Utterance) -> str:
        return failed(row, "no such file") if row.text in self.bad else heard(row, Result(None, 1.0, row.text, 0.5))


def _run(folder: Path, engine: Fake, rows: int = 3, **asked: object) -> list[dict[str, object]]:
    """What is in the results, in their order."""
    transcribe(
        engine.manifest, Folder(folder / "out"), asked, engine, progress=lambda *_: None, say=pytest.fail, rows=rows
    )
    return [json.loads(line) for line in (folder / "out" / "results.jsonl").read_text().splitlines()]


@given(rows=st.integers(1, 40), most=st.integers(1, 9), seconds=st.floats(0.5, 9), marks=st.booleans())
@settings(deadline=None, max_examples=60)
def test_blocks_hold_every_row_once(
    tmp_path_factory: pytest.TempPathFactory, rows: int, most: int, seconds: float, marks: bool
) -> None:
    path = _manifest(tmp_path_factory.mktemp("m"), rows, marks=marks)
    blocks = cut(path, rows=most, seconds=seconds)
    found = [row for block in blocks for row in rows_of(read_block(path, block), path, block.line)]
    assert found == read_manifest(path)
    assert [row.line for row in found] == [row.line for row in read_manifest(path)]
    assert [block.first for block in blocks] == [sum(each.rows for each in blocks[:i]) for i in range(len(blocks))]
    assert all(block.rows <= most and (block.rows <= seconds or block.rows == 1) for block in blocks)


@given(data=st.data(), rows=st.integers(1, 14), most=st.integers(1, 5))
@settings(deadline=None, max_examples=80)
def test_whatever_is_left_of_a_run_the_next_one_has_each_row_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, rows: int, most: int
) -> None:
    """Interrupted anywhere, then parts taken away or cut short, and temporary files left behind."""
    folder = tmp_path_factory.mktemp("run")
    path = _manifest(folder, rows)
    texts = [f"row {i}" for i in range(rows)]
    bad = data.draw(st.sets(st.sampled_from(texts)))
    stopped = Fake(path, bad=list(bad), last=data.draw(st.integers(0, rows)))
    try:
        _run(folder, stopped, most)
    except KeyboardInterrupt:
        assert not (folder / "out" / "results.jsonl").exists()
    whole: dict[str, dict[str, object]] = {}
    for part in sorted((folder / "out" / "parts").iterdir()):
        content = part.read_bytes()
        kept = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
        if kept is None or kept == len(content):
            whole |= {row["reference"]: row for row in map(json.loads, content.splitlines())}
        elif data.draw(st.booleans()):
            part.write_bytes(content[:kept])
        else:
            part.rename(part.with_name(f".{part.name}.0a1b2c3d.part"))
    engine = Fake(path)
    found = _run(folder, engine, most)
    assert [row["reference"] for row in found] == [row["text"] for row in found] == texts
    assert sorted(engine.heard) == sorted(
        text for text in texts if text not in whole or "error" in whole[text]
    )  # what failed is tried again, what is done isn't
    assert not list((folder / "out").rglob(".*"))


def test_a_row_that_fails_is_an_error_in_its_place_with_what_is_known_of_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"audio_filepath": f"{i}.wav", "duration": 1, "offset": 2, "text": "", "words": i, "id": i} for i in (0, 1)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    engine = Fake(path, bad=[""])
    assert _run(tmp_path, engine) == [
        {"error": "no such file", "audio_filepath": f"{i}.wav", "offset": 2, "id": i} for i in (0, 1)
    ]
    mended = _run(tmp_path, Fake(path))
    assert [row["audio_filepath"] for row in mended] == ["0.wav", "1.wav"]
    assert not any("error" in row for row in mended)


def test_rows_that_kill_fail_alone_and_what_is_lost_is_done_again(tmp_path: Path) -> None:
    path = _manifest(tmp_path, 9)
    found = _run(tmp_path, Fake(path, deadly=["row 1", "row 5"], lost=2))
    assert [row["reference"] for row in found] == [f"row {i}" for i in range(9)]
    assert [i for i, row in enumerate(found) if "error" in row] == [1, 5]
    assert "takes its worker down" in str(found[1]["error"])


def test_workers_that_are_lost_again_and_again_end_the_run(tmp_path: Path) -> None:
    class Gone(Fake):
        def hear(self, units: Sequence[Unit]) -> Iterator[Answer]:
            del units
            raise LostError("gone")
            yield

    with pytest.raises(LostError):
        _run(tmp_path, Gone(_manifest(tmp_path, 2)))


def test_a_folder_is_kept_for_the_run_that_began_in_it(tmp_path: Path) -> None:
    path = _manifest(tmp_path, 4)
    _run(tmp_path, Fake(path), beam=1)
    kept = (tmp_path / "out" / "results.jsonl").read_bytes()
    with pytest.raises(ConfigError, match=r"holds a run with other settings \(beam\); choose another folder"):
        _run(tmp_path, Fake(path), beam=2)
    _manifest(tmp_path, 5)
    with pytest.raises(ConfigError, match=r"other settings \(manifest\)"):
        _run(tmp_path, Fake(path), beam=1)
    assert (tmp_path / "out" / "results.jsonl").read_bytes() == kept


@pytest.mark.parametrize("name", ["results.jsonl", "transcription.json", "parts"])
def test_what_no_run_has_written_isnt_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(ConfigError, match=f"{name}.*not written by a run.*choose another folder"):
        _run(tmp_path, Fake(_manifest(tmp_path, 1)))
    assert (tmp_path / "out" / name).read_text() == "mine"


def test_two_runs_dont_share_a_folder(tmp_path: Path) -> None:
    """The lock is of the process: the second run is one of its own."""
    path = _manifest(tmp_path, 2)
    second = "import sys; from pathlib import Path; from asr.batch.parts import Folder\n"
    second += "with Folder(Path(sys.argv[1])).held(print): pass"

    class First(Fake):
        def hear(self, units: Sequence[Unit]) -> Iterator[Answer]:
            command = [sys.executable, "-c", second, str(tmp_path / "out")]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            assert "another transcription is writing into it" in ended.stderr
            return super().hear(units)

    assert len(_run(tmp_path, First(path))) == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "holds no utterance"),
        (b"[]", "is one JSON array.*a row per line"),
        (b'{"audio_filepath": "a.wav", "duration": 1, "text": ""}\nnot\n', "line 2: not JSON"),
        (None, "no such manifest"),
    ],
)
def test_manifests_that_cant_be_cut_are_refused(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ManifestError, match=problem):
        _run(tmp_path, Fake(path))
    assert not (tmp_path / "out").exists()


def test_a_manifest_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = _manifest(tmp_path, 4)
    (block,) = cut(path)
    path.write_bytes(path.read_bytes().replace(b"row 2", b"row 7"))
    with pytest.raises(ManifestError, match="has changed"):
        read_block(path, block)
    path.unlink()
    with pytest.raises(ManifestError, match="can't be read"):
        read_block(path, block)


def test_the_disk_that_cant_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(CepstraError, match="out"):
        _run(tmp_path, Fake(_manifest(tmp_path, 1)))


def test_a_line_of_a_result_isnt_taken_for_an_error(tmp_path: Path) -> None:
    """Whatever keys of its own the row has."""
    row = Utterance(tmp_path / "a.wav", 1.0, "a", extra={"error": "mine"})
    line = heard(row, Result(None, 1.0, "a", 1.0, (Word("a", 0.0, 1.0, 1.0),)))
    block = Block(0, 0, 1, 1, 0, 1, "0" * 64)
    folder = Folder(tmp_path)
    folder.parts.mkdir()
    folder.write(block, {0: line})
    assert folder.left(block) == []
