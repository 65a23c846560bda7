"""Every fault that `check` knows, made on purpose and found by line and key; sound material is left alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from asr.errors import ManifestError
from asr.manifest.check import Report, check_manifests
from asr.manifest.check_settings import CODES, CheckSettings, SoundLimits
from asr.manifest.check_sound import clipped, loudest

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

RATE = 16000


def speech(seconds: float = 1.0, seed: int = 0, peak: float = 0.5, rate: int = RATE) -> NDArray[np.float64]:
    """Low noise in bursts, each seed another: (N,)."""
    rng = np.random.default_rng(seed)
    n = round(seconds * rate)
    noise = np.convolve(rng.uniform(-1, 1, n), np.ones(8), "same") * np.sin(np.arange(n) / rate * 9) ** 2
    scaled: NDArray[np.float64] = peak * noise / np.abs(noise).max()
    return scaled


class Corpus:
    """A folder in which manifests and sounds are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0

    def sound(self, name: str, samples: NDArray[np.float64] | None = None) -> str:
        self.made += 1
        samples = speech(seed=self.made) if samples is None else samples
        # as 16 bit, since libsndfile rounds differently for WAV and for FLAC
        soundfile.write(self.folder / name, np.int16(np.rint(samples * 32767)), RATE)
        return name

    def row(self, **values: object) -> dict[str, Any]:
        """A faultless row with a sound of its own, changed by what is given."""
        if "audio_filepath" not in values:
            values["audio_filepath"] = self.sound(f"{self.made}.wav")
        return {"duration": 1.0, "text": "lights on"} | values

    def manifest(self, *rows: dict[str, Any], name: str = "set.jsonl") -> Path:
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    def check(self, *rows: dict[str, Any], settings: CheckSettings | None = None) -> list[tuple[int, str, str]]:
        """Line, key and code of the faults of a manifest of these rows."""
        return found(check_manifests([self.manifest(*rows)], settings))


def found(report: Report) -> list[tuple[int, str, str]]:
    return [(fault.line, fault.key, fault.code) for fault in report.faults]


@pytest.fixture
def corpus_of(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path)


def test_a_sound_manifest_has_no_faults(corpus_of: Corpus) -> None:
    rows = [corpus_of.row(text=text) for text in ("lights on", "it's 7:30 p.m.", "Café crème, €5!", "привет", "五")]
    path = corpus_of.manifest(*rows)
    report = check_manifests([path])
    assert report.faults == []
    assert (report.rows, report.files, report.seconds) == (5, 5, 5.0)


# --- rows and files


def test_faults_of_form_stand_beside_those_of_content(corpus_of: Corpus) -> None:
    path = corpus_of.manifest(corpus_of.row(text=""), {"path": "a.wav"}, corpus_of.row())
    with path.open("a") as file:
        file.write("not json\n")
    assert found(check_manifests([path])) == [
        (1, "text", "empty-text"),
        (2, "path", "misnamed-key"),
        (4, "", "not-json"),
    ]


def test_a_manifest_without_rows(corpus_of: Corpus) -> None:
    assert corpus_of.check() == [(0, "", "no-rows")]


def test_keys_that_look_like_ours_are_pointed_out_once(corpus_of: Corpus) -> None:
    rows = [corpus_of.row(start=0.5, domain="command", speaker="ann", spk="ann") for _ in range(3)]
    report = check_manifests([corpus_of.manifest(*rows)])
    (fault,) = report.faults
    assert (fault.line, fault.key, fault.code, fault.severity) == (1, "start", "misnamed-key", "warning")
    assert "3 rows" in fault.problem
    assert "'offset'" in fault.remedy


def test_missing_and_unreadable_sound(corpus_of: Corpus) -> None:
    folder = corpus_of.folder
    (folder / "text.wav").write_text("no sound")
    (folder / "empty.wav").write_bytes(b"")
    whole = (folder / corpus_of.sound("whole.flac")).read_bytes()
    (folder / "cut.wav").write_bytes((folder / corpus_of.sound("long.wav")).read_bytes()[:20044])
    (folder / "header.flac").write_bytes(whole[:30])
    names = ("none.wav", "clips\\none.wav", "text.wav", "empty.wav", "header.flac", "", "cut.wav")
    rows = [corpus_of.row(audio_filepath=name or ".") for name in names]
    rows[-1]["duration"] = 0.625
    report = check_manifests([corpus_of.manifest(*rows)])
    assert found(report) == [
        (1, "audio_filepath", "missing-audio"),
        (2, "audio_filepath", "missing-audio"),
        (3, "audio_filepath", "unreadable-audio"),
        (4, "audio_filepath", "unreadable-audio"),
        (5, "audio_filepath", "unreadable-audio"),
        (6, "audio_filepath", "unreadable-audio"),
        (7, "audio_filepath", "damaged-audio"),
    ]
    assert [fault.severity for fault in report.faults] == ["error"] * 6 + ["warning"]
    assert "none.wav: no such file" in report.faults[0].problem
    assert "not \\" in report.faults[1].remedy
    assert "promises 1.00 s" in report.faults[6].problem


def test_durations_and_offsets(corpus_of: Corpus) -> None:
    two = corpus_of.sound("two.wav", speech(2.0))
    mp3 = corpus_of.sound("a.mp3", speech(1.0, 77))
    rows = [
        corpus_of.row(duration=1.08),  # within the tolerance
        corpus_of.row(duration=1.5),
        corpus_of.row(duration=0.5),
        corpus_of.row(duration=0),
        corpus_of.row(audio_filepath=two, duration=0.9),  # the first of several stretches of one file
        corpus_of.row(audio_filepath=two, offset=0.9, duration=1.1),
        corpus_of.row(audio_filepath=two, offset=1.5, duration=1.0, text="one"),
        corpus_of.row(audio_filepath=two, offset=2.5, duration=1.0, text="two"),
        corpus_of.row(audio_filepath=mp3),
    ]
    expected = [
        (2, "duration", "wrong-duration"),
        (3, "duration", "wrong-duration"),
        (4, "duration", "wrong-duration"),
        (7, "offset", "past-end"),
        (8, "offset", "past-end"),
    ]
    # 0 s also is too short for its text
    assert [fault for fault in corpus_of.check(*rows) if fault[2] != "text-too-long"] == expected
    lenient = corpus_of.check(*rows, settings=CheckSettings(sound=SoundLimits(duration_tolerance=0.6)))
    assert [fault[0] for fault in lenient if fault[2] != "text-too-long"] == [4, 8]


def test_long_files_are_read_in_stretches(corpus_of: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    long = np.concatenate([speech(1.0, 1), np.zeros(2 * RATE), speech(1.0, 2)])
    name = corpus_of.sound("long.wav", long)
    rows = [corpus_of.row(audio_filepath=name, offset=start, duration=1.0, text=f"{start}") for start in range(5)]
    expected = [
        (2, "audio_filepath", "silence"),
        (3, "audio_filepath", "silence"),
        (5, "offset", "past-end"),
    ]
    assert corpus_of.check(*rows) == expected
    monkeypatch.setattr("asr.manifest.check_sound.WHOLE_SECONDS", 1.5)
    assert corpus_of.check(*rows) == expected


# --- sound


def test_silence_near_silence_and_clipping(corpus_of: Corpus) -> None:
    near = speech(peak=0.5) * 10 ** (-60 / 20)
    loud = np.clip(speech() * 8, -1, 1)
    one_side = np.stack([speech(seed=5), np.clip(speech(seed=6) * 8, -1, 1)], axis=1)
    rows = [
        corpus_of.row(audio_filepath=corpus_of.sound("zeros.wav", np.zeros(RATE))),
        corpus_of.row(audio_filepath=corpus_of.sound("near.wav", near)),
        corpus_of.row(audio_filepath=corpus_of.sound("loud.wav", loud)),
        corpus_of.row(audio_filepath=corpus_of.sound("right.wav", one_side)),
        corpus_of.row(audio_filepath=corpus_of.sound("full.wav", speech(peak=1.0, seed=8))),  # loud, not clipped
    ]
    faults = check_manifests([corpus_of.manifest(*rows)]).faults
    assert [(fault.line, fault.code, fault.severity) for fault in faults] == [
        (1, "silence", "error"),
        (2, "near-silence", "warning"),
        (3, "clipping", "warning"),
        (4, "clipping", "warning"),
    ]
    strict = corpus_of.check(*rows, settings=CheckSettings(sound=SoundLimits(clipped_share=1.0, silence_dbfs=-90)))
    assert [code for _, _, code in strict] == ["silence"]


@pytest.mark.parametrize("encoding", ["PCM_U8", "PCM_16", "PCM_24", "FLOAT", "ALAW", "ULAW"])
def test_clipping_is_seen_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    limit = 1.0 if encoding == "FLOAT" else 0.99999
    clean, hard = speech(peak=0.9, rate=8000), np.clip(speech(rate=8000) * 4, -limit, limit)
    for samples, expected in ((clean, False), (hard, True)):
        soundfile.write(tmp_path / "a.wav", samples, 8000, subtype=encoding)
        read, _ = soundfile.read(tmp_path / "a.wav", dtype="float32")
        assert (clipped(read) > 0.005) is expected


def test_clipping_counts_plateaus_and_what_is_beyond_full_scale() -> None:
    samples = np.zeros(100, np.float32)
    samples[[3, 50]] = 1.0  # single peaks
    assert clipped(samples) == 0.0
    samples[10:14] = 1.0
    samples[20:25] = -1.0
    assert clipped(samples) == pytest.approx(0.09)
    samples[30] = 1.5  # now the extreme is beyond the scale, and the plateau below it no longer one
    assert clipped(samples) == pytest.approx(0.06)
    assert clipped(np.full(100, 0.5, np.float32)) == 0.0


def test_loudness_is_that_of_the_loudest_fiftieth() -> None:
    samples = np.zeros(RATE, np.float32)
    samples[4000:4800] = 0.1  # 50 ms
    assert loudest(samples, RATE) == pytest.approx(0.1)
    assert loudest(np.full(10, 0.1, np.float32), RATE) < 0.02  # a click is no speech
    sine = np.sin(np.arange(RATE) * 0.3).astype(np.float32)
    assert loudest(sine, RATE) == pytest.approx(0.5**0.5, rel=1e-2)


# --- text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty-text"),
        (" \t", "empty-text"),
        ("-", "unspeakable-text"),
        ("?!", "unspeakable-text"),
        ("lights on \U0001f600", "unspeakable-characters"),
        ("lights \ufffd on", "unspeakable-characters"),
        ("lights ★ on", "unspeakable-characters"),
    ],
)
def test_text_that_cannot_be_spoken(corpus_of: Corpus, text: str, code: str) -> None:
    assert corpus_of.check(corpus_of.row(text=text)) == [(1, "text", code)]


@pytest.mark.parametrize(
    "text",
    ["don't “stop”", "50% of £3.50", "a-b (c) [d]; e: f…", "naïve", "ﬁne", "10 \u00d7 3", "so\u00adft", "#1 & 2"],
)
def test_text_that_can_be_spoken(corpus_of: Corpus, text: str) -> None:
    row = corpus_of.row(audio_filepath=corpus_of.sound("a.wav", speech(3.0)), text=text, duration=3.0)
    assert corpus_of.check(row) == []


def test_other_languages_keep_digits_which_then_are_pointed_out(corpus_of: Corpus) -> None:
    row = corpus_of.row(text="fünf Äpfel für 5 Leute")
    (fault,) = check_manifests([corpus_of.manifest(row)], CheckSettings(language="de")).faults
    assert fault.code == "unspeakable-characters"
    assert "'5' (digit five)" in fault.problem


def test_text_longer_than_its_frames(corpus_of: Corpus) -> None:
    def of(text: str, seconds: float) -> list[str]:
        name = corpus_of.sound(f"{corpus_of.made}.wav", speech(seconds, corpus_of.made))
        row = corpus_of.row(audio_filepath=name, duration=seconds, text=text)
        return [code for _, _, code in corpus_of.check(row)]

    assert of("ab" * 8, 1.0) == []
    assert of("ab" * 15, 1.0) == ["text-too-fast"]  # 30 characters in 33 positions
    assert of("ab" * 17, 1.0) == ["text-too-long"]
    assert of("aa" * 10, 1.0) == ["text-too-long"]  # 20 characters and 19 repeats
    assert of("a", 0.02) == ["text-too-fast"]  # a clip has one position at least


# --- between rows


def test_the_same_sound_in_two_splits(corpus_of: Corpus) -> None:
    wav = corpus_of.sound("a.wav", speech(seed=99))
    flac = corpus_of.sound("renamed.flac", speech(seed=99))  # the same samples in another container
    train = corpus_of.manifest(corpus_of.row(audio_filepath=wav), corpus_of.row(), name="words.train.jsonl")
    test = corpus_of.manifest(corpus_of.row(), corpus_of.row(audio_filepath=flac), name="words.test.jsonl")
    report = check_manifests([train, test])
    (fault,) = report.faults
    assert (fault.manifest, fault.line, fault.key, fault.code) == (test, 2, "audio_filepath", "same-audio")
    assert f"{train}, line 1" in fault.problem
    without = check_manifests([train, test], CheckSettings(audio=False))
    assert without.faults == []  # other files, so only their content tells


def test_the_same_file_in_two_splits_is_seen_without_opening_it(corpus_of: Corpus) -> None:
    rows = [corpus_of.row(audio_filepath="a.wav", split=split) for split in ("train", "validation", "train")]
    found_codes = corpus_of.check(*rows, settings=CheckSettings(audio=False))
    assert found_codes == [(2, "audio_filepath", "same-audio"), (3, "audio_filepath", "same-audio")]


def test_stretches_that_overlap_across_splits(corpus_of: Corpus) -> None:
    name = corpus_of.sound("a.wav", speech(3.0))
    rows = [
        corpus_of.row(audio_filepath=name, offset=0.0, duration=1.5, split="train", text="one"),
        corpus_of.row(audio_filepath=name, offset=1.0, duration=1.0, split="test", text="two"),
        corpus_of.row(audio_filepath=name, offset=2.0, duration=1.0, split="train", text="three"),
    ]
    assert corpus_of.check(*rows) == [(2, "offset", "same-audio")]


def test_the_same_speaker_in_two_splits(corpus_of: Corpus) -> None:
    def row(speaker: str | None, split: str) -> dict[str, Any]:
        return corpus_of.row(speaker=speaker, split=split)

    rows = [row("ann", "train"), row("bob", "train"), row("ann", "test"), row("ann", "test"), row(None, "test")]
    report = check_manifests([corpus_of.manifest(*rows)])
    (fault,) = report.faults
    assert (fault.line, fault.key, fault.code) == (3, "speaker", "same-speaker")
    assert "'ann' is in 'train' (1 rows" in fault.problem
    assert corpus_of.check(*rows, settings=CheckSettings(ignore=("same-speaker",))) == []


def test_splits_of_files_whose_names_say_nothing(corpus_of: Corpus) -> None:
    one = corpus_of.manifest(corpus_of.row(speaker="ann"), name="mine.jsonl")
    other = corpus_of.manifest(corpus_of.row(speaker="ann"), name="held_out.jsonl")
    assert found(check_manifests([one, other])) == [(1, "speaker", "same-speaker")]
    assert check_manifests([one, one]).faults == []  # named twice is one


def test_duplicates_within_a_split(corpus_of: Corpus) -> None:
    name, other = corpus_of.sound("a.wav", speech()), corpus_of.sound("b.wav", speech())
    rows = [
        corpus_of.row(audio_filepath=name, text="Lights on!"),
        corpus_of.row(audio_filepath=name, text="lights on"),
        corpus_of.row(audio_filepath=other, text="lights off"),
        corpus_of.row(),
    ]
    report = check_manifests([corpus_of.manifest(*rows)])
    assert [(fault.line, fault.code, fault.severity) for fault in report.faults] == [
        (2, "duplicate-row", "warning"),
        (3, "conflicting-text", "error"),
    ]


def test_silent_clips_are_not_the_same_sound(corpus_of: Corpus) -> None:
    rows = [
        corpus_of.row(audio_filepath=corpus_of.sound(f"{n}.wav", np.zeros(RATE)), split=split)
        for n, split in enumerate(("train", "test"))
    ]
    assert [code for _, _, code in corpus_of.check(*rows)] == ["silence", "silence"]


# --- the report


def test_every_code_is_listed_and_unknown_ones_are_refused(corpus_of: Corpus) -> None:
    with pytest.raises(ManifestError, match=r"no-such: no known fault.*near-silence"):
        corpus_of.check(settings=CheckSettings(ignore=("no-such",)))
    assert len(CODES) == len(set(CODES))


def test_the_order_is_that_of_files_and_lines_on_any_number_of_threads(corpus_of: Corpus) -> None:
    rows = [corpus_of.row(text="" if number % 3 else "x", duration=1.0 + number % 2) for number in range(30)]
    paths = [corpus_of.manifest(*rows[:15], name="z.jsonl"), corpus_of.manifest(*rows[15:], name="a.jsonl")]
    done: list[int] = []
    reports = [check_manifests(paths, workers=workers, progress=done.append) for workers in (1, 4)]
    assert reports[0] == reports[1]
    places = [(paths.index(fault.manifest), fault.line) for fault in reports[0].faults]
    assert places == sorted(places)
    assert sum(done) == 60


def test_as_json(corpus_of: Corpus) -> None:
    values = check_manifests([corpus_of.manifest(corpus_of.row(text=""))]).to_dict()
    assert json.loads(json.dumps(values)) == values
    assert (values["errors"], values["warnings"], values["rows"]) == (1, 0, 1)
    assert values["faults"][0]["code"] == "empty-text"
