"""Corpora in the forms in which they are published, built small, become the rows that they mean."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from asr.errors import ManifestError
from asr.manifest import Utterance
from asr.manifest.importers import LAYOUTS, ImportOptions, detect, import_corpus, speaker_pattern

if TYPE_CHECKING:
    from pathlib import Path

    from asr.manifest.faults import Fault


def sound(path: Path, seconds: float = 1.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(str(path)))
    soundfile.write(path, rng.uniform(-0.5, 0.5, round(seconds * 8000)), 8000)
    return path


def lines(path: Path, *rows: str, ending: str = "\n", encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(row + ending for row in rows).encode(encoding))
    return path


def rows_of(path: Path, layout: str | None = None, options: ImportOptions | None = None) -> list[Utterance]:
    rows, faults = import_corpus(path, layout, options)
    assert faults == []
    return rows


def faults_of(path: Path, layout: str | None = None, options: ImportOptions | None = None) -> list[Fault]:
    return import_corpus(path, layout, options)[1]


# --- Common Voice


@pytest.fixture
def common_voice(tmp_path: Path) -> Path:
    header = "client_id\tpath\tsentence_id\tsentence\tup_votes\tgender"
    for number in range(4):
        sound(tmp_path / "clips" / f"cv_{number}.mp3")
    lines(tmp_path / "train.tsv", header, 'aa\tcv_0.mp3\tx\t"Yes," she said.\t2\tfemale', "bb\tcv_1.mp3\tx\tNo.\t2\t")
    lines(tmp_path / "test.tsv", header, "cc\tcv_2.mp3\tx\tMaybe…\t2\tmale")
    lines(tmp_path / "validated.tsv", header, *(f"aa\tcv_{number}.mp3\tx\tText {number}\t2\t" for number in range(4)))
    lines(tmp_path / "reported.tsv", "sentence\treason", "Odd\todd")
    return tmp_path


def test_common_voice(common_voice: Path) -> None:
    assert detect(common_voice) == "common-voice"
    rows = rows_of(common_voice, options=ImportOptions(keep=("gender",), source="cv"))
    assert [(row.text, row.speaker, row.split, row.source) for row in rows] == [
        ('"Yes," she said.', "aa", "train", "cv"),
        ("No.", "bb", "train", "cv"),
        ("Maybe…", "cc", "test", "cv"),
    ]
    assert rows[0].audio_filepath == common_voice / "clips" / "cv_0.mp3"
    assert [dict(row.extra) for row in rows] == [{"gender": "female"}, {}, {"gender": "male"}]
    assert all(row.duration == pytest.approx(1.0, abs=0.15) for row in rows)  # MP3 adds some padding


def test_one_table_of_common_voice(common_voice: Path) -> None:
    assert detect(common_voice / "validated.tsv") == "common-voice"
    rows = rows_of(common_voice / "validated.tsv")
    assert [(row.text, row.split) for row in rows] == [(f"Text {number}", None) for number in range(4)]
    for name in ("train", "test"):
        (common_voice / f"{name}.tsv").unlink()
    assert len(rows_of(common_voice)) == 4


# --- LJSpeech


def test_ljspeech(tmp_path: Path) -> None:
    for name in ("LJ001-0001", "LJ001-0002", "LJ001-0003"):
        sound(tmp_path / "wavs" / f"{name}.wav", 0.5)
    lines(
        tmp_path / "metadata.csv",
        'LJ001-0001|In 1455, he "printed"|In fourteen fifty-five, he "printed"',
        "LJ001-0002|in being comparatively modern.|",
        "LJ001-0003|two fields only",
    )
    assert detect(tmp_path) == detect(tmp_path / "metadata.csv") == "ljspeech"
    rows = rows_of(tmp_path, options=ImportOptions(speaker="linda"))
    assert [row.text for row in rows] == [
        'In fourteen fifty-five, he "printed"',
        "in being comparatively modern.",
        "two fields only",
    ]
    assert {(row.speaker, row.duration) for row in rows} == {("linda", 0.5)}
    assert rows[0].audio_filepath == tmp_path / "wavs" / "LJ001-0001.wav"


def test_a_row_of_ljspeech_with_too_few_fields(tmp_path: Path) -> None:
    lines(tmp_path / "metadata.csv", "LJ001-0001", "a|b|c|d")
    assert [(fault.line, fault.code) for fault in faults_of(tmp_path, "ljspeech")] == [(1, "bad-row"), (2, "bad-row")]


# --- other tables


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_tables_with_a_header(tmp_path: Path, delimiter: str, ending: str) -> None:
    sound(tmp_path / "ü" / "a.wav", 2.0)
    texts = ["plain", "with ünicode"] if delimiter in "\t|" else ["with , and ; and | in it", 'with "quotes"']
    with (tmp_path / "recordings.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator=ending)
        writer.writerow(["speaker", "file_name", "transcription", "split"])
        writer.writerows([["ann", "ü/a.wav", text, "test"] for text in texts])
    rows = rows_of(tmp_path)
    assert [row.text for row in rows] == texts
    assert {(row.speaker, row.split, row.duration) for row in rows} == {("ann", "test", 2.0)}


def test_columns_by_name(tmp_path: Path) -> None:
    sound(tmp_path / "wavs" / "one.wav")
    table = lines(tmp_path / "list.csv", "Clip Name,What,Who", "one,yes,ann")
    named = ImportOptions(audio_column="Clip Name", text_column="What", speaker_column="Who")
    (row,) = rows_of(table, options=named)
    assert (row.audio_filepath, row.text, row.speaker) == (tmp_path / "wavs" / "one.wav", "yes", "ann")
    with pytest.raises(ManifestError, match=r"no column of sound files among Clip Name, What, Who.*--audio-column"):
        import_corpus(table)
    with pytest.raises(ManifestError, match=r"--text-column: no column 'what\?'.*'What'"):
        import_corpus(table, options=ImportOptions(audio_column="Clip Name", text_column="what?"))
    with pytest.raises(ManifestError, match=r"--keep: no column 'Age'"):
        import_corpus(table, options=ImportOptions("Clip Name", "What", keep=("Age",)))


def test_stretches_of_files_from_a_table(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav", 3.0)
    table = lines(tmp_path / "cuts.csv", "path,start,duration,text", "a.wav,0.5,1,one", "a.wav,2,,two", "a.wav,x,1,no")
    rows, faults = import_corpus(table)
    assert [(row.offset, row.duration) for row in rows] == [(0.5, 1.0), (2.0, 1.0)]
    assert [(fault.line, fault.code) for fault in faults] == [(4, "bad-value")]


def test_faulty_rows_of_a_table_are_all_named(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav")
    (tmp_path / "b.wav").write_text("not sound")
    table = lines(tmp_path / "t.csv", "path,text", "a.wav,yes", "none.wav,x", "b.wav,x", "a.wav,", ",x", "a.wav,x,y")
    rows, faults = import_corpus(table)
    assert len(rows) == 1
    assert [(fault.line, fault.code) for fault in faults] == [
        (3, "missing-audio"),
        (4, "unreadable-audio"),
        (5, "empty-text"),
        (6, "missing-key"),
        (7, "bad-row"),
    ]
    assert all(fault.manifest == table for fault in faults)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b'path,text\na.wav,"never closed\n', r"line \d: .*quoting"),
        ("path,text\na.wav,café".encode("latin-1"), "not UTF-8"),
        (b"path,text,text\n", "'text' is there twice"),
    ],
)
def test_broken_tables(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ManifestError, match=said):
        import_corpus(tmp_path / "t.csv")


def test_a_manifest_with_other_keys_is_renamed_and_measured(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav", 1.5)
    rows = [{"path": "a.wav", "sentence": "yes", "domain": "word", "votes": 3}, {"text": "no sound"}]
    lines(tmp_path / "old.jsonl", *map(json.dumps, rows))
    found, faults = import_corpus(tmp_path / "old.jsonl")
    assert found == [Utterance(tmp_path / "a.wav", 1.5, "yes", extra={"domain": "word", "votes": 3})]
    assert [(fault.line, fault.code) for fault in faults] == [(2, "missing-key")]


# --- Kaldi


@pytest.fixture
def kaldi(tmp_path: Path) -> Path:
    sound(tmp_path / "audio" / "rec1.wav", 4.0)
    data = tmp_path / "data" / "train_clean"
    lines(data / "wav.scp", "rec1 audio/rec1.wav", f"rec2 {sound(tmp_path / 'rec2.flac', 2.0)}")
    lines(data / "text", "utt1 YES PLEASE", "utt2 NO", "utt3 MAYBE", ending="\r\n")
    lines(data / "utt2spk", "utt1 ann", "utt2 bob", "utt3 bob")
    lines(data / "segments", "utt1 rec1 0.5 1.5", "utt2 rec1 2.0 4.2", "utt3 rec2 0 -1")
    return data


def test_kaldi_with_segments(kaldi: Path) -> None:
    assert detect(kaldi) == "kaldi"
    rows = rows_of(kaldi)
    assert [(row.text, row.speaker, row.offset, row.duration, row.split) for row in rows] == [
        ("YES PLEASE", "ann", 0.5, 1.0, "train"),
        ("NO", "bob", 2.0, 2.0, "train"),  # 0.2 s beyond the end are cut
        ("MAYBE", "bob", 0.0, 2.0, "train"),
    ]
    assert rows[0].audio_filepath == kaldi.parent.parent / "audio" / "rec1.wav"  # from where a recipe runs


def test_kaldi_without_segments_and_speakers(kaldi: Path) -> None:
    (kaldi / "segments").unlink()
    lines(kaldi / "text", "rec1 YES", "rec2 NO")
    lines(kaldi / "utt2spk", "rec1 rec1", "rec2 rec2")
    assert [(row.text, row.speaker, row.duration) for row in rows_of(kaldi)] == [("YES", None, 4.0), ("NO", None, 2.0)]


def test_commands_and_archives_are_refused_by_name(kaldi: Path) -> None:
    marker = kaldi / "was_run"
    lines(kaldi / "wav.scp", f"rec1 touch {marker} |", "rec2 raw.ark:1234")
    rows, faults = import_corpus(kaldi)
    assert rows == []
    assert not marker.exists()
    assert [(fault.line, fault.key, fault.code) for fault in faults] == [
        (1, "rec1", "command"),
        (1, "rec1", "command"),
        (2, "rec2", "archive"),
    ]
    assert f"'touch {marker} |'" in str(faults[0])


def test_kaldi_faults(kaldi: Path) -> None:
    lines(kaldi / "segments", "utt1 rec1 1.5 0.5", "utt2 rec9 0 1", "utt4 rec1 0 1", "utt5 rec1 zero 1")
    lines(kaldi / "text", "utt1 YES", "utt2 NO", "utt3 MAYBE", "utt5 WHAT")
    assert [(fault.manifest.name, fault.key, fault.code) for fault in faults_of(kaldi)] == [
        ("segments", "utt1", "bad-value"),
        ("wav.scp", "rec9", "missing-recording"),
        ("segments", "utt3", "missing-segment"),
        ("segments", "utt5", "bad-row"),
        ("segments", "utt4", "missing-text"),
    ]
    lines(kaldi / "text", "utt1 YES", "utt1 NO")
    with pytest.raises(ManifestError, match=r"text, line 2, utt1: is there twice"):
        import_corpus(kaldi)
    (kaldi / "text").unlink()
    with pytest.raises(ManifestError, match=r"text: no such file"):
        import_corpus(kaldi)


# --- folders


def test_speech_commands(tmp_path: Path) -> None:
    for word in ("yes", "no", "turn_left"):
        sound(tmp_path / word / "0a7c2a8d_nohash_0.wav")
        sound(tmp_path / word / "0a7c2a8d_nohash_1.wav")
    sound(tmp_path / "yes" / "mine.wav")
    sound(tmp_path / "_background_noise_" / "pink_noise.wav")
    lines(tmp_path / "validation_list.txt", "yes/0a7c2a8d_nohash_1.wav")
    lines(tmp_path / "testing_list.txt", "no/0a7c2a8d_nohash_0.wav")
    (tmp_path / "yes" / "notes.txt").write_text("x")
    assert detect(tmp_path) == "folder-per-word"
    rows = {f"{row.audio_filepath.parent.name}/{row.audio_filepath.name}": row for row in rows_of(tmp_path)}
    assert len(rows) == 7
    assert rows["yes/mine.wav"].speaker is None
    assert {row.speaker for name, row in rows.items() if "nohash" in name} == {"0a7c2a8d"}
    assert {row.text for row in rows.values()} == {"yes", "no", "turn left"}
    assert {name: row.split for name, row in rows.items() if row.split != "train"} == {
        "yes/0a7c2a8d_nohash_1.wav": "dev",
        "no/0a7c2a8d_nohash_0.wav": "test",
    }


@pytest.mark.parametrize(
    ("name", "pattern", "speaker"),
    [
        ("ann_nohash_0.wav", None, "ann"),
        ("0a7c_nohash_12.wav", None, "0a7c"),
        ("mary_lou_nohash_3.wav", None, "mary_lou"),
        ("ann_nohash_x.wav", None, None),
        ("ann-03.wav", None, None),
        ("ann-03.wav", r"/(\w+)-\d+\.", "ann"),
        ("03.wav", r"(?:yes)/(\d)", "0"),
        ("yes.wav", r"^(.+)/", "yes"),  # the folder's name
        ("ann_nohash_0.wav", r"nohash_(\d)", "0"),  # what is asked for goes before what is known
        ("ann_nohash_0.wav", r"bob(\d)", None),
        ("a.wav", r"a()", None),
    ],
)
def test_speakers_in_names(tmp_path: Path, name: str, pattern: str | None, speaker: str | None) -> None:
    sound(tmp_path / "corpus" / "yes" / name)
    compiled = None if pattern is None else speaker_pattern(pattern)
    (row,) = rows_of(tmp_path / "corpus", options=ImportOptions(speaker_pattern=compiled))
    assert row.speaker == speaker
    (row,) = rows_of(tmp_path / "corpus", options=ImportOptions(speaker_pattern=compiled, speaker="all"))
    assert row.speaker == (speaker or "all")


def test_a_table_s_own_speakers_go_before_the_pattern(tmp_path: Path) -> None:
    for name in ("ann-1.wav", "bob-1.wav"):
        sound(tmp_path / name)
    table = lines(tmp_path / "list.csv", "path,text,speaker", "ann-1.wav,yes,carol", "bob-1.wav,yes,")
    rows = rows_of(table, options=ImportOptions(speaker_pattern=speaker_pattern(r"/(\w+)-")))
    assert [row.speaker for row in rows] == ["carol", "bob"]


@pytest.mark.parametrize("pattern", ["(", "none", "(a)(b)", "*"])
def test_patterns_that_find_nobody(pattern: str) -> None:
    with pytest.raises(ManifestError, match=r"is no regular expression|has \d groups"):
        speaker_pattern(pattern)


def test_words_under_splits_and_a_word_that_is_named_like_one(tmp_path: Path) -> None:
    for split in ("train", "validation"):
        sound(tmp_path / "a" / split / "yes" / "1.wav")
    assert [(row.text, row.split) for row in rows_of(tmp_path / "a")] == [("yes", "train"), ("yes", "dev")]
    for word in ("test", "stop"):
        sound(tmp_path / "b" / word / "1.wav")
    assert [(row.text, row.split) for row in rows_of(tmp_path / "b")] == [("stop", None), ("test", None)]


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl"])
def test_audiofolder(tmp_path: Path, name: str) -> None:
    for split in ("train", "test"):
        sound(tmp_path / "data" / split / "a.wav")
        cells = {"file_name": "a.wav", "transcription": f"one, {split}"}
        text = json.dumps(cells) if name.endswith("l") else f'file_name,transcription\na.wav,"one, {split}"'
        lines(tmp_path / "data" / split / name, text)
    assert detect(tmp_path) == "audiofolder"
    assert [(row.text, row.split) for row in rows_of(tmp_path)] == [("one, test", "test"), ("one, train", "train")]


def test_audiofolder_of_classes(tmp_path: Path) -> None:
    sound(tmp_path / "yes" / "1.wav")
    assert [row.text for row in rows_of(tmp_path, "audiofolder")] == ["yes"]


# --- what is nothing of the sort


def test_what_it_is_not(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no such file"):
        import_corpus(tmp_path / "none")
    with pytest.raises(ManifestError, match=r"looks like no known layout.*--layout"):
        import_corpus(tmp_path)
    with pytest.raises(ManifestError, match="no CSV"):
        import_corpus(sound(tmp_path / "a.wav"))
    with pytest.raises(ManifestError, match="unknown layout 'timit'"):
        import_corpus(tmp_path, "timit")
    lines(tmp_path / "one.csv", "path,text")
    lines(tmp_path / "two.csv", "path,text")
    with pytest.raises(ManifestError, match="name the CSV"):
        import_corpus(tmp_path)
    with pytest.raises(ManifestError, match="no recordings found"):
        import_corpus(tmp_path / "one.csv")
    lines(tmp_path / "wav.scp", "a a.wav")
    with pytest.raises(ManifestError, match="name its folder"):
        import_corpus(tmp_path / "wav.scp")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_refuses_an_empty_folder_in_one_line(tmp_path: Path, layout: str) -> None:
    with pytest.raises(ManifestError) as caught:
        import_corpus(tmp_path, layout)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_refuses_a_sound_in_one_line(tmp_path: Path, layout: str) -> None:
    with pytest.raises(ManifestError) as caught:
        import_corpus(sound(tmp_path / "a.wav"), layout)
    assert "a.wav" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_sound_is_imported_with_a_warning(tmp_path: Path) -> None:
    whole = sound(tmp_path / "yes" / "a.wav")
    whole.write_bytes(whole.read_bytes()[:8044])
    (row,), (fault,) = import_corpus(tmp_path)
    assert row.duration == pytest.approx(0.5)
    assert (fault.code, fault.severity) == ("damaged-audio", "warning")
