"""The packed corpus: every row its own sound, nothing left out in silence, nothing decoded twice."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile as sf

from asr.errors import ConfigError, ManifestError, TrainingError
from asr.manifest import Utterance
from asr.tokenizer import Tokenizer
from asr.training import corpus
from asr.training.config import DataConfig, Source
from asr.training.corpus import Packed, load, shared, usable

if TYPE_CHECKING:
    from collections.abc import Iterable


def ramp(seconds: float, start: float = 0.0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Sound of which every stretch differs from every other, exact in 16 bits."""
    return ((np.arange(round(seconds * 16000)) + round(start * 16000)) % 30000 / 32768).astype(np.float32)


def manifest(folder: Path, rows: Iterable[dict[str, Any]], name: str = "train.jsonl") -> Source:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Source(str(path))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_rows_get_their_own_stretch_of_the_sound(tmp_path: Path, cache: Path) -> None:
    sf.write(tmp_path / "a.wav", ramp(1.5), 16000)
    sf.write(tmp_path / "b.wav", ramp(0.5, 0.2), 16000)
    rows = [
        {"audio_filepath": "a.wav", "offset": 1.0, "duration": 0.25, "text": "Two!"},
        {"audio_filepath": "b.wav", "duration": 0.5, "text": "other"},
        {"audio_filepath": "a.wav", "duration": 1.0, "text": "one"},
        {"audio_filepath": "a.wav", "offset": 1.25, "duration": 9, "text": "to the end"},
    ]
    data = load((manifest(tmp_path, rows),), cache, "en", "training")
    assert data.texts == ("two", "other", "one", "to the end")
    for i, (start, seconds) in enumerate([(1.0, 0.25), (0.2, 0.5), (0.0, 1.0), (1.25, 0.25)]):
        np.testing.assert_array_equal(data.samples(i), ramp(seconds, start))
    np.testing.assert_allclose(data.seconds(), [0.25, 0.5, 1.0, 0.25])
    # Both recordings lie in one file, once each, however many rows they have
    (packed,) = cache.glob("*.i16")
    assert packed.stat().st_size == 2 * 16000 * 2


def test_other_rates_and_channels_become_16_khz_mono(tmp_path: Path, cache: Path) -> None:
    sf.write(tmp_path / "a.wav", np.full((8000, 2), [0.5, 0.25]), 8000)
    rows = [{"audio_filepath": "a.wav", "duration": 1, "text": "x"}]
    data = load((manifest(tmp_path, rows),), cache, "en", "training")
    assert len(data.samples(0)) == 16000
    assert np.median(data.samples(0)) == pytest.approx(0.375, abs=1e-3)


def test_sources_are_chosen_and_repeated(tmp_path: Path, cache: Path) -> None:
    sf.write(tmp_path / "a.wav", ramp(1), 16000)
    rows = [{"audio_filepath": "a.wav", "duration": 1, "text": t, "source": s} for t, s in (("x", "p"), ("y", "q"))]
    path = manifest(tmp_path, rows).manifest
    data = load((Source(path, 2.5, ("q",)), Source(path, 0.5)), cache, "en", "training")
    assert data.texts == ("y", "x", "y")
    assert data.repeats.tolist() == [2.5, 0.5, 0.5]
    with pytest.raises(ManifestError, match="holds no row to use for training"):
        load((Source(path, 1.0, ("r",)),), cache, "en", "training")


def test_a_bad_recording_is_named_counted_and_left_out(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sf.write(tmp_path / "good.wav", ramp(1), 16000)
    (tmp_path / "text.wav").write_text("no sound at all")
    names = ("good.wav", "text.wav", "gone.wav")
    source = manifest(tmp_path, [{"audio_filepath": n, "duration": 1, "text": "x"} for n in names])
    for _ in range(2):  # also when it comes from the cache
        data = load((source,), cache, "en", "training")
        assert [u.audio_filepath.name for u in data.utterances] == ["good.wav"]
        told = capsys.readouterr().err
        assert f"{tmp_path / 'text.wav'}: " in told
        assert f"{tmp_path / 'gone.wav'}: " in told
        assert f"{source.manifest}: 2 of 3 recordings can't be read and are left out" in told


def test_rows_beyond_the_end_are_counted(tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sf.write(tmp_path / "a.wav", ramp(1), 16000)
    rows = [{"audio_filepath": "a.wav", "offset": o, "duration": 0.5, "text": "x"} for o in (0, 1, 7)]
    source = manifest(tmp_path, rows)
    assert len(load((source,), cache, "en", "training")) == 1
    assert f"{source.manifest}: 2 rows hold no sound and are left out, the first in line 2" in capsys.readouterr().err


def test_a_cut_off_recording_is_used_and_said(tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sf.write(tmp_path / "a.wav", ramp(1), 16000)
    (tmp_path / "a.wav").write_bytes((tmp_path / "a.wav").read_bytes()[:-16000])
    data = load(
        (manifest(tmp_path, [{"audio_filepath": "a.wav", "duration": 1, "text": "x"}]),), cache, "en", "training"
    )
    assert len(data.samples(0)) == 8000
    assert "a.wav" in capsys.readouterr().err


def test_nothing_readable_is_an_error(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"")
    with pytest.raises(ManifestError, match=r"none of its recordings can be used for training; see `cepstra manifest"):
        load((manifest(tmp_path, [{"audio_filepath": "a.wav", "duration": 1, "text": "x"}]),), cache, "en", "training")


def test_an_empty_manifest_is_an_error(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ManifestError, match=r"train\.jsonl"):
        load((manifest(tmp_path, []),), cache, "en", "training")


def test_the_cache_is_used_again_until_a_file_changes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sf.write(tmp_path / "a.wav", ramp(1), 16000)
    sf.write(tmp_path / "b.wav", ramp(1), 16000)
    rows = [{"audio_filepath": name, "duration": 1, "text": "x"} for name in ("a.wav", "b.wav")]
    source = manifest(tmp_path, rows)
    load((source,), cache, "en", "training")
    with monkeypatch.context() as patched:
        patched.setattr(corpus, "_decode", None)  # would fail
        again = load((source,), cache, "en", "training")
        other = load((manifest(tmp_path, [{**row, "text": "y"} for row in rows], "other.jsonl"),), cache, "en", "it")
    np.testing.assert_array_equal(again.samples(1), ramp(1))
    assert other.files == again.files  # manifests of the same recordings share one
    before = (tmp_path / "b.wav").stat()
    sf.write(tmp_path / "b.wav", -ramp(1), 16000)  # as long as before
    os.utime(tmp_path / "b.wav", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    np.testing.assert_array_equal(load((source,), cache, "en", "training").samples(1), -ramp(1))
    assert not [path for path in cache.iterdir() if path.name.startswith(".")]  # no half-written files


def test_sound_is_mapped_and_not_kept(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sf.write(tmp_path / "a.wav", ramp(60), 16000)
    rows = [{"audio_filepath": "a.wav", "offset": o, "duration": 1, "text": "x"} for o in range(60)]
    data = load((manifest(tmp_path, rows),), cache, "en", "training")
    mapped: list[tuple[int, tuple[int, ...]]] = []
    memmap = np.memmap

    def spy(*args: Any, **kwargs: Any) -> Any:
        mapped.append((kwargs["offset"], kwargs["shape"]))
        return memmap(*args, **kwargs)

    monkeypatch.setattr(np, "memmap", spy)
    data.samples(30)
    assert mapped == [(2 * 30 * 16000, (16000,))]  # of what was asked for, and of nothing else
    held = sum(v.nbytes for v in vars(data).values() if isinstance(v, np.ndarray))
    assert held < 60 * 100


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    sf.write(tmp_path / "a.wav", ramp(1), 16000)
    (tmp_path / "cache").write_text("a file")
    source = manifest(tmp_path, [{"audio_filepath": "a.wav", "duration": 1, "text": "x"}])
    with pytest.raises(ConfigError, match=r"setting data\.cache: .* can't be written"):
        load((source,), tmp_path / "cache", "en", "training")


def made_up(texts: list[str], seconds: list[float]) -> Packed:
    """Utterances without sound."""
    n = len(texts)
    where = np.array([(0, 0, round(s * 16000)) for s in seconds], np.int64)
    rows = tuple(Utterance(Path(f"/{i}.wav"), s, t) for i, (t, s) in enumerate(zip(texts, seconds, strict=True)))
    return Packed(rows, tuple(texts), np.ones(n), (), where)


def test_what_cannot_be_learnt_from_is_counted_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = Tokenizer.train(["abc"], 40)  # every letter a token, and "▁"
    data = made_up(["abc", "", "abc", "abc", "abc abc", "aab", "abc"], [1, 1, 0.05, 30, 1, 1, 1])

    def positions(samples: int) -> int:
        assert samples == 16000
        return 4

    # "▁ a b c" has four; with a doubled letter one more is needed, to part the two
    kept = usable(data, tokenizer, DataConfig(), positions, "training", remedy="write less")
    assert kept.texts == ("abc", "abc")
    assert kept.utterances == (data.utterances[0], data.utterances[6])
    told = capsys.readouterr().err
    assert "training: left out of 7 utterances: 1 without text, 1 too short, 1 too long, 2 with more text than" in told
    assert told.endswith("training: with more text than their frames can carry: write less\n")
    usable(kept, tokenizer, DataConfig(), positions, "training")
    assert not capsys.readouterr().err  # nothing to say


def test_silences_are_what_has_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    data = made_up(["", "a", "", ""], [1, 1, 0.01, 2])
    kept = usable(data, Tokenizer.train(["a"], 40), DataConfig(), lambda _: 0, "silences", silent=True)
    assert kept.utterances == (data.utterances[0], data.utterances[3])
    assert "silences: left out of 4 utterances: 1 with text, 1 too short" in capsys.readouterr().err


def test_two_sets_side_by_side_keep_their_sound(tmp_path: Path, cache: Path) -> None:
    for name, start in (("a", 0.0), ("b", 0.5)):
        sf.write(tmp_path / f"{name}.wav", ramp(0.2, start), 16000)
    rows = [{"audio_filepath": f"{name}.wav", "duration": 0.2, "text": name} for name in "ab"]
    first, second = (
        load((replace(manifest(tmp_path, rows[i : i + 1], f"{i}.jsonl"), repeat=i + 2),), cache, "en", "training")
        for i in (0, 1)
    )
    both = first.with_more(second)
    assert (both.texts, both.repeats.tolist()) == (("a", "b"), [2, 3])
    for i, alone in enumerate((first, second)):
        np.testing.assert_array_equal(both.samples(i), alone.samples(0))
    assert not np.array_equal(both.samples(0), both.samples(1))


def test_nothing_usable_is_an_error() -> None:
    data = made_up(["", "a"], [1, 0.01])
    with pytest.raises(TrainingError, match=r"validation: no utterance can be used \(1 without text, 1 too short\)"):
        usable(data, Tokenizer.train(["a"], 40), DataConfig(), lambda _: 9, "validation")


def test_sound_in_both_sets_is_found_by_its_stretch() -> None:
    def row(name: str, offset: float, duration: float) -> Utterance:
        return Utterance(Path(name), duration, "x", offset)

    def packed(*rows: Utterance) -> Packed:
        return Packed(rows, ("x",) * len(rows), np.ones(len(rows)), (), np.zeros((len(rows), 3), np.int64))

    training = packed(row("/a", 0, 1), row("/a", 3, 1), row("/b", 0, 5))
    apart = [row("/a", 1, 2), row("/c", 0, 5), row("/a", 4, 9)]
    within = [row("/a", 0.5, 0.1), row("/a", 2, 1.1), row("/b", 4, 9)]
    assert shared(training, packed(*apart)) == []
    assert shared(training, packed(*apart, *within)) == within
