"""Reading and writing manifests, with Python's own json as the reference."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asr.errors import AudioError, ManifestError
from asr.manifest import Utterance, read_manifest, write_manifest
from asr.manifest.faults import Fault, FaultyManifestError
from asr.manifest.records import KEYS, MAX_FAULTS, OTHER_NAMES, iter_manifest, meant_key, scan_manifest
from audio.reading import read_audio

ROW = {"audio_filepath": "a.wav", "duration": 1.5, "text": "lights on"}


def manifest(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def raw(folder: Path, content: bytes) -> Path:
    path = folder / "train.jsonl"
    path.write_bytes(content)
    return path


def faults_of(path: Path) -> list[Fault]:
    found: list[Fault] = []
    read_manifest(path, faults=found)
    return found


# --- reading


def test_a_row_becomes_an_utterance(tmp_path: Path) -> None:
    path = manifest(
        tmp_path, {**ROW, "offset": 2, "speaker": "ann", "source": "kitchen", "split": "dev", "domain": "command"}
    )
    assert read_manifest(path) == [
        Utterance(tmp_path / "a.wav", 1.5, "lights on", 2.0, "ann", "kitchen", "dev", 1, {"domain": "command"})
    ]
    assert read_manifest(path)[0].line == 1


def test_byte_order_mark_crlf_blank_lines_and_null(tmp_path: Path) -> None:
    rows = [{**ROW, "offset": None, "speaker": None}, {**ROW, "text": "für Grüße", "speaker": 7}]
    lines = [json.dumps(row, ensure_ascii=False).encode() for row in rows]
    path = raw(tmp_path, b"\xef\xbb\xbf\r\n" + lines[0] + b"\r\n \r\n\r\n" + lines[1])
    first, second = read_manifest(path)
    assert (first.line, first.offset, first.speaker) == (2, 0.0, None)
    assert (second.line, second.text, second.speaker) == (5, "für Grüße", "7")


def test_nemo_names(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("lights\non\n", encoding="utf-8")
    path = manifest(
        tmp_path,
        {"audio_filename": "a.wav", "duration": 1, "normalized_text": "lights on", "lang": "en"},
        {"audio_filepath": "a.wav", "duration": 1, "text_filepath": "words.txt"},
        {"audio_filepath": "a.wav", "duration": 1},
    )
    first, second, third = read_manifest(path)
    assert (first.audio_filepath, first.text, first.extra["lang"]) == (tmp_path / "a.wav", "lights on", "en")
    assert (second.text, third.text) == ("lights on", "")


def test_a_missing_duration_is_measured(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(12000), 8000)
    rows = [{**ROW, "duration": None}, {"audio_filepath": "a.wav", "text": "x", "offset": 0.5}]
    assert [row.duration for row in read_manifest(manifest(tmp_path, *rows))] == [1.5, 1.0]
    (fault,) = faults_of(manifest(tmp_path, {"audio_filepath": "missing.wav", "text": "x"}))
    assert (fault.key, fault.code) == ("duration", "missing-key")


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_is_read_with_the_line_of_each_element(tmp_path: Path, indent: int | None) -> None:
    rows = [ROW, {**ROW, "text": "lights off"}]
    path = raw(tmp_path, json.dumps(rows, indent=indent).encode("utf-8-sig"))
    utterances = read_manifest(path)
    assert [row.text for row in utterances] == ["lights on", "lights off"]
    assert [row.line for row in utterances] == ([1, 1] if indent is None else [2, 7])


def test_paths_resolve_against_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sets ü"
    folder.mkdir()
    names = ["clips/a.wav", "../b.wav", "/data/c.wav", "./d.wav", "~/e.wav"]
    path = manifest(folder, *({**ROW, "audio_filepath": name} for name in names))
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.chdir(tmp_path)
    expected = [folder / "clips/a.wav", tmp_path / "b.wav", Path("/data/c.wav"), folder / "d.wav"]
    for given_path in (path, path.relative_to(tmp_path)):
        found = [row.audio_filepath for row in read_manifest(given_path)]
        assert found == [*expected, Path("/home/ann/e.wav")]


def test_what_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"none\.jsonl: no such manifest"):
        read_manifest(tmp_path / "none.jsonl")
    with pytest.raises(ManifestError, match=r"is a folder.*manifest import"):
        read_manifest(tmp_path)
    with pytest.raises(ManifestError, match=r"UTF-16.*UTF-8"):
        read_manifest(raw(tmp_path, json.dumps(ROW).encode("utf-16")))


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg", "mp3"])
def test_a_recording_is_no_manifest(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"lights.{kind}"
    soundfile.write(path, np.sin(np.arange(8000) / 5), 16000)
    for read in (read_manifest, lambda path: list(iter_manifest(path))):
        with pytest.raises(ManifestError, match=rf"lights\.{kind}: is a recording, not a manifest.*transcribe"):
            read(path)


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert read_manifest(raw(tmp_path, b"")) == []
    assert read_manifest(raw(tmp_path, b"\xef\xbb\xbf[ ]")) == []


# --- faults


@pytest.mark.parametrize(
    ("row", "key", "remedy"),
    [
        ({"audio_file_path": "a.wav", "duration": 1, "text": "x"}, "audio_file_path", "audio_filepath"),
        ({"Audio_Filepath": "a.wav", "duration": 1, "text": "x"}, "Audio_Filepath", "audio_filepath"),
        ({"path": "a.wav", "duration": 1, "text": "x"}, "path", "audio_filepath"),
        ({"duration": 1, "text": "x"}, "audio_filepath", "sound file"),
        ({"audio_filepath": "", "duration": 1, "text": "x"}, "audio_filepath", "sound file"),
        ({"audio_filepath": "a\0.wav", "duration": 1, "text": "x"}, "audio_filepath", "sound file"),
        ({"audio_filepath": ["a.wav", "b.wav"], "duration": 1, "text": "x"}, "audio_filepath", '"text"'),
        ({**ROW, "duration": "1.5"}, "duration", "without quotes"),
        ({**ROW, "duration": True}, "duration", "without quotes"),
        ({**ROW, "duration": -1}, "duration", "0 or more"),
        ({**ROW, "duration": 10**400}, "duration", "0 or more"),
        ({**ROW, "offset": -0.5}, "offset", "0 or more"),
        ({"audio_filepath": "a.wav", "length": 1, "text": "x"}, "length", "duration"),
        ({"audio_filepath": "a.wav", "duration": 1, "transcript": "x"}, "transcript", "text"),
        ({**ROW, "text": 5}, "text", '"text"'),
        ({**ROW, "text": "\ud800"}, "text", "whole character"),
        ({**ROW, "speaker": 1.5}, "speaker", '"text"'),
        ({"audio_filepath": "a.wav", "duration": 1, "text_filepath": "no.txt"}, "text_filepath", "path"),
        ({"audio_filepath": "a.wav", "duration": 1, "text_filepath": "/dev/zero"}, "text_filepath", "path"),
        ({"audio_filepath": "a.wav", "duration": 1, "text_filepath": "pipe"}, "text_filepath", "path"),
        ({"audio_filepath": "a.wav", "duration": 1, "text_filepath": "large"}, "text_filepath", "path"),
        ({"audio_filepath": "a.wav", "duration": 1, "text_filepath": "../loop1"}, "text_filepath", "path"),
    ],
)
def test_a_fault_names_line_key_and_remedy(tmp_path: Path, row: dict[str, Any], key: str, remedy: str) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    os.mkfifo(folder / "pipe")  # nobody writes to it
    (folder / "large").write_bytes(b"on " * (1 << 20))
    (tmp_path / "loop1").symlink_to("loop2")
    (tmp_path / "loop2").symlink_to("loop1")
    path = manifest(folder, ROW, row, ROW)
    (fault,) = faults_of(path)
    assert (fault.line, fault.key, fault.manifest) == (2, key, path)
    assert remedy in fault.remedy
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    assert f"{path}, line 2, {key}: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_links_in_a_circle_are_a_matter_of_the_one_row(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (tmp_path / "loop1").symlink_to("loop2")
    (tmp_path / "loop2").symlink_to("loop1")
    rows = read_manifest(manifest(folder, ROW, {**ROW, "audio_filepath": "../loop1"}, ROW))
    assert [row.audio_filepath.name for row in rows] == ["a.wav", "loop1", "a.wav"]
    with pytest.raises(AudioError, match="loop1"):
        read_audio(rows[1].audio_filepath)


def test_what_has_no_line_ends_is_not_taken_into_memory() -> None:
    with pytest.raises(ManifestError, match="/dev/zero:1: a line of more than 16 MB: not a manifest"):
        read_manifest("/dev/zero")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (b"path,sentence", "not-json", "one JSON object per line"),
        (b'{"audio_filepath": "a.wav", "duration": NaN, "text": ""}', "not-json", "NaN"),
        (b'{"audio_filepath": "a.wav", "audio_filepath": "b.wav", "duration": 1}', "not-json", "twice"),
        (b"4", "not-json", "number"),
        (b'"a.wav"', "not-json", "string"),
        (b"null", "not-json", "null"),
        (b'{"text": "caf\xe9"}', "not-utf8", "0xe9"),
        (b'{"a":' * 100_000, "not-json", "not JSON"),
        (b'{"duration": ' + b"9" * 5000 + b"}", "not-json", "not JSON"),
    ],
)
def test_lines_that_are_no_json_object(tmp_path: Path, line: bytes, code: str, said: str) -> None:
    good = json.dumps(ROW).encode()
    (fault,) = faults_of(raw(tmp_path, good + b"\n" + line + b"\n" + good))
    assert (fault.line, fault.code) == (2, code)
    assert said in str(fault)


@pytest.mark.parametrize(
    "content", [b"[", b"[" * 100_000, b'[{"a": 1}', b'[\n\n{"a": \xff}]', b'[\n{"a": 1}, nonsense]']
)
def test_broken_arrays_are_faults(tmp_path: Path, content: bytes) -> None:
    assert {fault.code for fault in faults_of(raw(tmp_path, content))} & {"not-json", "not-utf8"}


def test_all_faults_of_all_rows_are_collected(tmp_path: Path) -> None:
    path = manifest(tmp_path, {**ROW, "duration": "1", "speaker": []}, ROW, {**ROW, "offset": "x"})
    with pytest.raises(FaultyManifestError) as caught:
        read_manifest(path)
    assert [(fault.line, fault.key) for fault in caught.value.faults] == [
        (1, "duration"),
        (1, "speaker"),
        (3, "offset"),
    ]
    assert pickle.loads(pickle.dumps(caught.value)).faults == caught.value.faults  # noqa: S301  crosses processes
    found: list[Fault] = []
    assert [row.line for row in read_manifest(path, faults=found)] == [2]
    assert len(found) == 3


def test_a_manifest_that_is_wrong_throughout_ends_early_and_says_how_to_see_more(tmp_path: Path) -> None:
    path = manifest(tmp_path, *[{"path": "a.wav"}] * (MAX_FAULTS + 50))
    with pytest.raises(FaultyManifestError, match="97 more: `cepstra manifest check") as caught:
        read_manifest(path)
    assert len(caught.value.faults) == MAX_FAULTS


def test_iterating_is_lazy(tmp_path: Path) -> None:
    rows = iter_manifest(manifest(tmp_path, ROW, ROW, {"path": "a.wav"}))
    assert [next(rows).line, next(rows).line] == [1, 2]
    with pytest.raises(ManifestError, match="line 3, path"):
        next(rows)


def test_every_other_name_is_recognised() -> None:
    assert all(meant_key(name) == key for key, names in OTHER_NAMES.items() for name in names)
    assert all(meant_key(key) is None for key in KEYS)
    assert meant_key("domain") is None


# --- writing


def test_written_paths_are_relative_below_the_manifest_only(tmp_path: Path) -> None:
    rows = [Utterance(tmp_path / "in" / "ü.wav", 1, "a"), Utterance(tmp_path.parent / "out.wav", 1, "b")]
    write_manifest(tmp_path / "train.jsonl", rows)
    written = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["audio_filepath"] for row in written] == ["in/ü.wav", str(tmp_path.parent / "out.wav")]
    assert list(written[0]) == ["audio_filepath", "duration", "text"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = manifest(tmp_path, ROW)
    before = path.read_bytes()
    bad = [Utterance(tmp_path / "a.wav", 1, "x"), Utterance(tmp_path / "a.wav", 1, "x", extra={"when": object()})]
    with pytest.raises(ManifestError, match=r"row 2.*JSON"):
        write_manifest(path, bad)
    with pytest.raises(ManifestError, match=r"row 1.*JSON"):
        write_manifest(path, [Utterance(tmp_path / "a.wav", float("nan"), "x")])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_manifest_can_be_rewritten_while_it_is_read(tmp_path: Path) -> None:
    path = manifest(tmp_path, ROW, ROW)
    assert write_manifest(path, iter_manifest(path)) == 2
    assert len(read_manifest(path)) == 2


def test_folders_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "folder", tmp_path / "absent" / "x.jsonl", "/proc/none/x.jsonl"):
        with pytest.raises(ManifestError, match=str(target)):
            write_manifest(target, [])


_words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_json = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | _words, lambda inner: st.lists(inner, max_size=2))
_name = st.text("aü語. -", min_size=1, max_size=5).filter(lambda name: name not in {".", ".."})
_paths = st.lists(_name, min_size=1, max_size=3).map(lambda parts: Path("/corpus", *parts))


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.builds(
            Utterance,
            audio_filepath=_paths,
            duration=st.floats(0, 1e6),
            text=_words,
            offset=st.floats(0, 1e6),
            speaker=st.none() | _words.filter(bool),
            source=st.none() | _words.filter(bool),
            split=st.none() | st.sampled_from(["train", "test"]),
            extra=st.dictionaries(_words.filter(lambda key: key not in (*KEYS, "audio_filename")), _json, max_size=2),
        ),
        max_size=4,
    )
)
def test_what_is_written_is_read_again(tmp_path: Path, rows: list[Utterance]) -> None:
    path = tmp_path / "x.jsonl"
    assert write_manifest(path, rows) == len(rows)
    assert read_manifest(path) == rows
    assert len(list(map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1]))) == len(rows)


@settings(max_examples=150, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=60) | st.lists(st.sampled_from(list('[]{}",:\n audio_filepath"ü1'))).map("".join).map(str.encode)
)
def test_no_bytes_make_it_fail_otherwise(tmp_path: Path, content: bytes) -> None:
    try:
        rows = list(scan_manifest(raw(tmp_path, content)))
    except ManifestError:
        return
    assert all(isinstance(row, Utterance | Fault) for row in rows)
