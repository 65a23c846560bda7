"""`cepstra transcribe` into files, and out of a manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from asr.cli.transcribe import Format
from asr.manifest import Utterance, write_manifest
from asr.writers import FORMATS, render

if TYPE_CHECKING:
    from asr.results import Result
    from tests.asr.transcribe.conftest import Run

RATE = 16000


@pytest.mark.parametrize("format_", Format)
def test_output_dir(run: Run, clips: list[Path], results: list[Result], tmp_path: Path, format_: Format) -> None:
    folder = tmp_path / "new" / "folder"
    assert run(*clips, "-f", format_, "--output-dir", folder) == (0, "", "")
    names = {clip.stem + FORMATS[format_].suffix for clip in clips}
    assert {path.name for path in folder.iterdir()} == names
    for clip, result in zip(clips[:3], results[:3], strict=True):
        text = (folder / (clip.stem + FORMATS[format_].suffix)).read_text(encoding="utf-8")
        if format_ is Format.JSON:
            assert json.loads(text)["text"] == result.text
        else:
            assert text == render(result, format_)


def test_output_dir_replaces_what_an_earlier_run_wrote(run: Run, clips: list[Path], tmp_path: Path) -> None:
    old = tmp_path / f"{clips[0].stem}.txt"
    old.write_text("old")
    assert run(clips[0], "-o", tmp_path)[0] == 0
    assert old.read_text() != "old"
    assert list(tmp_path.iterdir()) == [old]


def test_two_transcripts_of_one_name_are_refused_before_any_work(run: Run, clips: list[Path], tmp_path: Path) -> None:
    for folder in ("ann", "bob"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "yes.wav").write_bytes(clips[0].read_bytes())
    code, out, err = run(tmp_path / "ann" / "yes.wav", tmp_path / "bob" / "yes.wav", "-o", tmp_path / "out")
    assert (code, out) == (2, "")
    assert f"{tmp_path}/ann/yes.wav and {tmp_path}/bob/yes.wav would both become {tmp_path}/out/yes.txt" in err
    assert not (tmp_path / "out").exists()


def test_nothing_that_is_read_is_replaced(run: Run, clips: list[Path], tmp_path: Path) -> None:
    manifest = tmp_path / "yes.json"
    write_manifest(manifest, [Utterance(clips[0], 0.4, "yes"), Utterance(tmp_path / "yes.wav", 0.4, "yes")])
    before = manifest.read_bytes()
    code, _, err = run("--manifest", manifest, "-f", "json", "-o", tmp_path)
    assert code == 2
    assert f"{manifest} would replace what is read" in err
    assert manifest.read_bytes() == before


def test_an_output_dir_that_cannot_be(run: Run, clips: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = run(clips[0], "-o", tmp_path / "file")
    assert (code, out) == (1, "")
    problem = "can't be made a folder (there is a file of that name); choose another place"
    assert err == f"cepstra: --output-dir {tmp_path}/file: {problem}\n"


@pytest.mark.parametrize("format_", [Format.SRT, Format.VTT, Format.TSV])
def test_formats_of_one_recording_are_refused_for_several(run: Run, clips: list[Path], format_: Format) -> None:
    code, out, err = run(clips[0], clips[1], "-f", format_)
    assert (code, out) == (2, "")
    assert f"{format_} holds one recording; write each to a file of its own with --output-dir" in err


def test_a_manifest(run: Run, clips: list[Path], tmp_path: Path) -> None:
    manifest = tmp_path / "rows.jsonl"
    rows = [
        Utterance(clips[9], 0.5, "one"),
        Utterance(clips[9], 0.625, "two", offset=0.5),
        Utterance(clips[0], 0.4, "three"),
    ]
    write_manifest(manifest, rows)
    code, out, err = run("--manifest", manifest, "-f", "json")
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["audio_filepath"], line.get("offset"), line["duration"]) for line in lines] == [
        (str(clips[9]), None, 0.5),
        (str(clips[9]), 0.5, 0.625),
        (str(clips[0]), None, 0.4),
    ]
    assert list(lines[1])[:3] == ["audio_filepath", "offset", "duration"]
    texts = [line["text"] for line in lines]

    code, out, _ = run("--manifest", manifest)
    assert out.splitlines() == [
        f"{clips[9]}#t=0,0.5: {texts[0]}".rstrip(),
        f"{clips[9]}#t=0.5,1.125: {texts[1]}".rstrip(),
        f"{clips[0]}: {texts[2]}".rstrip(),
    ]
    assert run("--manifest", manifest, "-o", tmp_path / "out")[0] == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "clip 9.0-0.5.txt", "clip 9.0.5-1.125.txt", "clip 0.txt"
    }  # fmt: skip

    write_manifest(manifest, rows[2:])  # of one row, text has its name all the same: programs read it
    assert run("--manifest", manifest)[1] == f"{clips[0]}: {texts[2]}\n"
    assert run(clips[0], "--manifest", manifest)[1] == 2 * f"{clips[0]}: {texts[2]}\n"
    manifest.write_text("")
    code, _, err = run("--manifest", manifest)
    assert (code, err) == (
        1,
        f"cepstra: --manifest {manifest}: holds no utterance; add rows, or name sound files instead\n",
    )


def test_rows_come_back_as_they_stood(
    run: Run, clips: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sets" / "clips").mkdir(parents=True)
    (tmp_path / "sets" / "clips" / "a.wav").write_bytes(clips[4].read_bytes())
    rows: list[dict[str, object]] = [
        {"audio_filepath": "clips/a.wav", "duration": 0.8, "text": "one", "speaker": "ann",
         "source": "hall", "split": "dev"},
        {"audio_filepath": "../sets/clips/a.wav", "duration": 0.3, "text": "", "offset": 0.5, "room": {"nr": 3}},
        {"audio_filepath": str(clips[0]), "text": "three", "duration": 0.3, "confidence": 1, "words": ["three"]},
    ]  # fmt: skip
    (tmp_path / "sets" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    code, out, err = run("--manifest", "sets/rows.jsonl", "-f", "json")
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    heard = {"duration", "text", "confidence", "words", "segments", "no_speech", "seconds_cut"}
    assert [{key: value for key, value in line.items() if key not in heard} for line in lines] == [
        {"audio_filepath": "clips/a.wav", "reference": "one", "speaker": "ann", "source": "hall", "split": "dev"},
        {"audio_filepath": "../sets/clips/a.wav", "offset": 0.5, "room": {"nr": 3}},
        {"audio_filepath": str(clips[0]), "reference": "three"},
    ]
    assert all(heard <= line.keys() for line in lines)
    assert [type(line["words"][0]) for line in lines if line["words"]] == [dict] * sum(
        bool(line["words"]) for line in lines
    )
    out = run("--manifest", "sets/rows.jsonl")[1]
    names = ["clips/a.wav", "../sets/clips/a.wav#t=0.5,0.8", f"{clips[0]}#t=0,0.3"]
    assert [line.partition(": ")[0] for line in out.splitlines()] == ["clips/a.wav#t=0,0.8", *names[1:]]
    assert run("--manifest", "sets/rows.jsonl", "-o", "out")[0] == 0
    assert {path.name for path in Path("out").iterdir()} == {"a.0-0.8.txt", "a.0.5-0.8.txt", "clip 0.0-0.3.txt"}


def test_a_recording_is_never_replaced(run: Run, clips: list[Path], tmp_path: Path) -> None:
    kept = tmp_path / f"{clips[0].stem}.txt"
    kept.write_bytes(clips[1].read_bytes())
    code, _, err = run(clips[0], "-o", tmp_path)
    assert code == 2
    assert f"--output-dir: {kept}: is a recording, and would be replaced" in err
    assert kept.read_bytes() == clips[1].read_bytes()
