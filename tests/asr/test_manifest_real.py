"""The real corpus, a small part of it: sound material gives no errors, and what is planted in it is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from asr.manifest import Utterance, read_manifest, write_manifest
from asr.manifest.check import check_manifests
from asr.manifest.check_settings import CheckSettings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.real
SETS = ("accents", "books", "digits", "words", "wake_names", "phrases")


def part(corpus: Path, name: str, rows: int = 12) -> list[Utterance]:
    return read_manifest(corpus / f"{name}.jsonl")[:rows]


def test_every_manifest_of_the_corpus_can_be_read(corpus: Path, tmp_path: Path) -> None:
    for path in corpus.glob("*.jsonl"):
        rows = read_manifest(path)
        assert rows
        write_manifest(tmp_path / "copy.jsonl", rows)
        assert read_manifest(tmp_path / "copy.jsonl") == rows


@pytest.mark.parametrize("name", SETS)
def test_recordings_are_without_errors(corpus: Path, tmp_path: Path, name: str) -> None:
    for split in ("train", "test"):
        write_manifest(tmp_path / f"{name}.{split}.jsonl", part(corpus, f"{name}.{split}"))
    report = check_manifests([tmp_path / f"{name}.train.jsonl", tmp_path / f"{name}.test.jsonl"])
    assert [fault for fault in report.faults if fault.severity == "error"] == []
    assert report.rows == 24


def test_one_speaker_in_train_and_test_is_told(corpus: Path) -> None:
    report = check_manifests(
        [corpus / "reading.train.jsonl", corpus / "reading.test.jsonl"], CheckSettings(audio=False)
    )
    assert [fault.code for fault in report.faults if fault.severity == "error"] == ["same-speaker"]


def test_what_is_planted_is_found(corpus: Path, tmp_path: Path) -> None:
    train, test = part(corpus, "accents.train"), part(corpus, "accents.test")
    test[3] = replace(train[5], text=test[3].text)
    train[2] = replace(train[2], duration=train[2].duration + 1)
    train[7] = replace(train[7], text=train[7].text * 20)
    write_manifest(tmp_path / "train.jsonl", train)
    write_manifest(tmp_path / "test.jsonl", test)
    report = check_manifests([tmp_path / "train.jsonl", tmp_path / "test.jsonl"])
    assert [(fault.manifest.stem, fault.line, fault.code) for fault in report.faults if fault.severity == "error"] == [
        ("train", 3, "wrong-duration"),
        ("train", 8, "text-too-long"),
        ("test", 4, "same-audio"),
        ("test", 4, "same-speaker"),
    ]
