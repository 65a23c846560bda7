"""The recogniser from outside: what it takes, what it answers, and that company changes nothing."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from asr.bundle import write_bundle
from asr.errors import AudioError, ConfigError
from asr.manifest import Utterance, read_manifest
from asr.recognizer import DEFAULT_BUNDLE, GROUP_FILES, Recognizer
from asr.search.backend import Cache, Memory
from asr.timing import CONNECTED, LEAD, TRAIL
from asr.tokenizer import Tokenizer
from audio.errors import AudioWarning
from audio.reading import RawFormat, read_audio
from tests.asr.recognising import RATE, Samples, noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.results import Result
    from asr.source import Source

SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"


shipped = pytest.mark.skipif(
    not DEFAULT_BUNDLE.exists() or not SAMPLES.exists(), reason="no model or no samples ship with this checkout"
)


def assert_alike(one: Result, other: Result) -> None:
    assert (one.text, one.duration) == (other.text, other.duration)
    assert one.confidence == pytest.approx(other.confidence, abs=1e-4)
    assert [(w.word, w.start, w.end) for w in one.words] == [(w.word, w.start, w.end) for w in other.words]
    assert [w.confidence for w in one.words] == pytest.approx([w.confidence for w in other.words], abs=1e-4)
    assert one.segments == other.segments


def assert_sound(result: Result) -> None:
    """What holds for every result."""
    assert 0 <= result.confidence <= 1
    assert " ".join(word.word for word in result.words) == result.text
    assert " ".join(segment.text for segment in result.segments) == result.text
    assert all(0 <= word.start <= word.end <= result.duration for word in result.words)
    assert all(a.end <= b.start + 1e-9 for a, b in pairwise(result.words))
    assert all(0 <= word.confidence <= 1 for word in result.words)


def test_every_kind_of_source_says_the_same(recognizer: Recognizer, tmp_path: Path) -> None:
    samples = noise(1.3)
    path = tmp_path / "lights ü.wav"
    soundfile.write(path, samples, RATE)
    expected = recognizer.transcribe(samples)
    assert expected.audio_filepath is None
    assert expected.duration == 1.3
    assert expected.text
    assert_sound(expected)
    with path.open("rb") as file:
        named: list[tuple[Source, str | None]] = [
            (str(path), str(path)),
            (path, str(path)),
            (path.read_bytes(), None),
            (io.BytesIO(path.read_bytes()), None),
            (file, None),
            (Utterance(path, 1.3, "lights"), str(path)),
            (samples.astype(np.float64), None),
        ]
        for source, name in named:
            result = recognizer.transcribe(source)
            assert result.audio_filepath == name
            assert_alike(result, expected)


def test_a_list_is_answered_as_each_alone(recognizer: Recognizer) -> None:
    clips = [noise(0.3 + 0.37 * (i % 5), i) for i in range(GROUP_FILES + 3)]
    clips[2] = np.zeros(RATE, np.float32)
    clips += [np.zeros(0, np.float32), noise(1)[:1], noise(1)[:399], noise(33, 7)]
    together = recognizer.transcribe(clips)
    assert len(together) == len(clips)
    assert len({result.text for result in together}) > 2
    for clip, result in zip(clips, together, strict=True):
        assert_alike(result, recognizer.transcribe(clip))
        assert_sound(result)
    assert recognizer.transcribe([]) == []


def test_a_list_is_answered_as_each_alone_with_a_beam(bundle: Bundle) -> None:
    recognizer = Recognizer(bundle, speech_detection=False, beam=3)
    clips = [noise(0.4 + 0.3 * i, i) for i in range(3)]
    for clip, result in zip(clips, recognizer.transcribe(clips), strict=True):
        assert_alike(result, recognizer.transcribe(clip))


def test_several_threads_may_use_one(recognizer: Recognizer) -> None:
    clips = [noise(0.4 + 0.2 * i, i) for i in range(8)]
    serial = [recognizer.transcribe(clip) for clip in clips]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            for one, other in zip(pool.map(recognizer.transcribe, clips), serial, strict=True):
                assert_alike(one, other)


@pytest.mark.parametrize("seconds", [1.2, 61.5])
@pytest.mark.parametrize("level", [0.0, 5e-5])
def test_silence_says_nothing(recognizer: Recognizer, seconds: float, level: float) -> None:
    silence = np.full(round(seconds * RATE), level, np.float32)
    silence[::2] *= -1
    result = recognizer.transcribe(silence)
    assert (result.text, result.words, result.segments) == ("", (), ())
    assert result.duration == seconds
    assert result.confidence == 1.0


@pytest.mark.parametrize("count", [0, 1, 399, 400, 401])
def test_clips_shorter_than_a_frame(recognizer: Recognizer, count: int) -> None:
    result = recognizer.transcribe(noise(1)[:count])
    assert result.duration == count / RATE
    assert_sound(result)


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        (np.zeros(400, np.int16), r"int16 of shape \(400,\); .*16-bit integers divided by 32768"),
        (np.zeros((400, 2), np.float32), r"float32 of shape \(400, 2\); give mono samples .* channels averaged"),
        (np.zeros((), np.float32), r"of shape \(\); give mono samples"),
        (np.zeros(400, np.complex64), "complex64"),
        (np.array(["a"]), "<U1 of shape"),
        (np.array([0, np.nan], np.float32), "not finite"),
        (np.array([0, np.inf], np.float32), "not finite"),
        (np.array([0, 1e300]), "not finite"),
    ],
)
def test_arrays_that_are_no_sound_are_refused(recognizer: Recognizer, samples: NDArray[Any], problem: str) -> None:
    with pytest.raises(AudioError, match=problem):
        recognizer.transcribe(samples)


def test_samples_on_another_scale_are_warned_of(recognizer: Recognizer) -> None:
    with pytest.warns(AudioWarning, match=r"3,\d\d\d times full scale.*32768"):
        recognizer.transcribe(noise(0.5) / np.abs(noise(0.5)).max() * 3500)


def test_samples_are_left_as_they_are(recognizer: Recognizer) -> None:
    samples = noise(1)
    samples.flags.writeable = False
    recognizer.transcribe([samples, samples[::2]])


def test_rows_of_a_manifest_are_parts_of_files(recognizer: Recognizer, tmp_path: Path) -> None:
    samples = noise(3)
    soundfile.write(tmp_path / "long.wav", samples, RATE)
    row = Utterance(tmp_path / "long.wav", duration=1.25, text="", offset=0.5)
    result = recognizer.transcribe(row)
    assert_alike(result, recognizer.transcribe(samples[8000:28000]))
    assert result.audio_filepath == str(tmp_path / "long.wav")
    with pytest.raises(AudioError, match=r"long\.wav: .*offset 5\.00 s lies past the end"):
        recognizer.transcribe(Utterance(tmp_path / "long.wav", duration=1, text="", offset=5))
    with pytest.raises(AudioError, match=r"long\.wav: a row of 0 s"):
        recognizer.transcribe(Utterance(tmp_path / "long.wav", duration=0, text=""))


def test_channel_raw_and_longest(bundle: Bundle, tmp_path: Path) -> None:
    left, right = noise(1, 1), noise(1, 2)
    soundfile.write(tmp_path / "two.wav", np.stack([left, right], axis=1), RATE)
    (tmp_path / "one.raw").write_bytes((right * 32768).astype("<i2").tobytes())
    expected = Recognizer(bundle, speech_detection=False).transcribe(right)
    assert_alike(Recognizer(bundle, speech_detection=False, channel=1).transcribe(tmp_path / "two.wav"), expected)
    raw = Recognizer(bundle, speech_detection=False, raw=RawFormat("PCM_16", RATE))
    assert_alike(raw.transcribe(tmp_path / "one.raw"), expected)
    assert_alike(raw.transcribe(Utterance(tmp_path / "one.raw", 1.0, "")), expected)
    with pytest.raises(AudioError, match="no channel 2"):
        Recognizer(bundle, channel=2).transcribe(tmp_path / "two.wav")
    with pytest.raises(AudioError, match=r"two\.wav: 1\.00 s long, above the limit of 0\.5 s"):
        Recognizer(bundle, max_seconds=0.5).transcribe(tmp_path / "two.wav")


def test_settings_out_of_range(bundle: Bundle) -> None:
    for settings in (
        {"threads": 0},
        {"threads": 10**12},
        {"threads": 1.5},
        {"threads": "x"},
        {"beam": 0},
        {"beam": 10**9},
        {"beam": 1.5},
        {"beam": None},
        {"ctc_weight": 1.5},
    ):
        with pytest.raises(ConfigError, match=next(iter(settings))) as caught:
            Recognizer(bundle, **settings)
        assert "\n" not in str(caught.value)


class Listener:
    """A back end that hears in what is played how loud it is: 0.2 is the first word, 0.3 the next …; one per 30 ms.

    It stands for a perfect model, so that what comes out shows only how sound is cut and put together.
    """

    at_once = 4

    def __init__(self, words: list[int], vocabulary: int) -> None:
        self.words, self.vocabulary = words, vocabulary
        self.longest = 0

    def encode(self, samples: Sequence[Samples]) -> Memory:
        self.longest = max(self.longest, *map(len, samples))
        lengths = np.array([len(clip) // 480 for clip in samples])
        ctc = np.full((len(samples), lengths.max(), self.vocabulary), -20.0, np.float32)
        texts = np.full((1, len(samples), 1, lengths.max(), 1), 2)  # 2: the end
        for i, clip in enumerate(samples):
            loudness = np.abs(clip[: lengths[i] * 480]).reshape(-1, 480).max(axis=1)
            heard = np.array([0, *self.words])[np.maximum(0, np.round(loudness * 10).astype(int) - 1)]
            ctc[i, np.arange(lengths[i]), heard] = 0.0
            changes = np.flatnonzero(np.diff(heard, prepend=0))
            said = [token for token in heard[changes] if token]
            texts[0, i, 0, : len(said), 0] = said
        past = np.zeros((1, len(samples), 1, 0, 1), np.float32)
        return Memory(Cache(past, past, texts, texts, lengths), ctc, lengths)

    def step(self, tokens: NDArray[np.int64], cache: Cache) -> tuple[Samples, Cache]:
        rows, count = tokens.shape
        before = cache.past_k.shape[3]
        scores = np.full((rows, count, self.vocabulary), -20.0, np.float32)
        said = cache.memory_k[0, :, 0, before : before + count, 0]
        np.put_along_axis(scores, said[:, :, None], -0.01, axis=2)
        past = np.concatenate([cache.past_k, np.zeros((1, rows, 1, count, 1), np.float32)], axis=3)
        return scores, Cache(past, past, cache.memory_k, cache.memory_v, cache.lengths)


def test_long_sound_is_cut_at_pauses_and_times_stay_right(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    recognizer = Recognizer(bundle, speech_detection=False)
    words = ["north", "south", "east", "west", "up", "down"]
    tokenizer = Tokenizer.train(words * 20, vocab_size=80)  # large enough for a piece per word
    tokens = [tokenizer.encode(word) for word in words]
    assert all(len(token) == 1 for token in tokens)
    listener = Listener([token for (token,) in tokens], tokenizer.vocab_size)
    monkeypatch.setattr(recognizer, "_backend", listener)
    model = replace(bundle.model, halve_after=0)  # 30 ms per position
    monkeypatch.setattr(recognizer, "bundle", replace(bundle, tokenizer=tokenizer, model=model))
    rng = np.random.default_rng(3)
    samples = np.zeros(200 * RATE, np.float32)
    expected: list[tuple[str, float, float]] = []
    at = 0.4
    while at < 198:
        word, length = int(rng.integers(len(words))), float(rng.uniform(0.2, 1.2))
        span = slice(round(at * RATE), round((at + length) * RATE))
        samples[span] = 0.1 * (word + 2) * np.sign(np.sin(np.arange(span.stop - span.start)))
        expected.append((words[word], at, at + length))
        at += length + float(rng.uniform(CONNECTED + 0.1, 1.6))
    result = recognizer.transcribe(samples)
    assert result.duration == 200
    assert listener.longest <= 10 * RATE
    assert [word.word for word in result.words] == [word for word, _, _ in expected]
    for heard, (_, start, end) in zip(result.words, expected, strict=True):
        assert (heard.start + LEAD, heard.end - TRAIL) == pytest.approx((start, end), abs=0.035)
    assert_sound(result)
    assert all(segment.end - segment.start <= 10 for segment in result.segments)


def test_importing_and_transcribing_loads_nothing_of_the_trainers(bundle: Bundle, tmp_path: Path) -> None:
    write_bundle(tmp_path / "toy.cepstra", bundle)
    soundfile.write(tmp_path / "a.flac", noise(0.5), RATE)
    script = """
import json, sys
import asr.cli.commands
from asr.recognizer import Recognizer
Recognizer(sys.argv[1]).transcribe(sys.argv[2])
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
    ran = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "toy.cepstra", tmp_path / "a.flac"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    loaded = set(json.loads(ran.stdout))
    assert "onnxruntime" in loaded
    trainers = {"torch", "torchaudio", "lightning", "librosa", "scipy", "matplotlib", "onnx", "onnxscript", "pandas"}
    assert not loaded & {*trainers, "pydantic", "yaml", "tensorboard", "rich"}


@pytest.mark.parametrize(("name", "rate"), [("a.wav", RATE), ("a.wav", 44100), ("a.flac", RATE)])
def test_a_command_loads_what_its_sound_needs(bundle: Bundle, tmp_path: Path, name: str, rate: int) -> None:
    """Each of them costs megabytes and a moment: on a small board that is what a command waits for."""
    write_bundle(tmp_path / "toy.cepstra", bundle)
    soundfile.write(tmp_path / name, noise(0.5), rate)
    script = """
import sys
from asr.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
    command = ["transcribe", str(tmp_path / name), "--model", str(tmp_path / "toy.cepstra"), "--no-speech-detection"]
    ran = subprocess.run([sys.executable, "-c", script, *command], check=True, capture_output=True, text=True)
    loaded = set(ran.stderr.split())
    assert ("soundfile" in loaded) is name.endswith("flac")
    assert ("soxr" in loaded) is (rate != RATE)
    assert "onnxruntime" in loaded
    assert not loaded & {"concurrent.futures", "numpy.random", "asr.cli.train", "asr.cli.export", "asr.evaluation"}
    assert "_hashlib" not in loaded  # OpenSSL


def test_graphs_are_in_memory_once(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "toy.cepstra"
    write_bundle(path, bundle)
    read = Recognizer(path, speech_detection=False)
    assert read.bundle == replace(bundle, encoder=b"", decoder=b"")
    given = Recognizer(bundle, speech_detection=False)
    assert given.bundle is bundle  # its owner's to keep
    clip = noise(1.0)
    assert read.transcribe(clip) == given.transcribe(clip)


@shipped
def test_the_model_that_ships_hears_words_where_they_are_in_long_sound() -> None:
    recognizer = Recognizer()
    rows = read_manifest(SAMPLES / "samples.jsonl")
    parts: list[Samples] = []
    spans: list[tuple[float, float]] = []
    at = 0.0
    while at < 65:
        clip = read_audio(rows[len(spans) % len(rows)].audio_filepath)
        spans.append((at, at + len(clip) / RATE))
        parts += [clip, np.zeros(RATE, np.float32)]
        at += len(clip) / RATE + 1
    result = recognizer.transcribe(np.concatenate(parts))
    assert result.duration == pytest.approx(at, abs=1e-3)
    assert_sound(result)
    assert len(result.words) > len(spans)
    inside = [any(start - 0.2 <= (w.start + w.end) / 2 <= end + 0.2 for start, end in spans) for w in result.words]
    assert np.mean(inside) > 0.75  # a word that was never said may lie anywhere
    spoken = [any(start < (w.start + w.end) / 2 < end for w in result.words) for start, end in spans]
    assert np.mean(spoken) > 0.75


@shipped
def test_the_model_that_ships_knows_when_words_are_said() -> None:
    rows = read_manifest(SAMPLES / "samples.jsonl")
    late: list[float] = []
    for row, result in zip(rows, Recognizer().transcribe(rows), strict=True):
        assert math.isclose(result.duration, row.duration, abs_tol=0.001)
        if result.text == row.text:  # only then it is known which word is which
            late += [word.start - start for word, (_, start, _) in zip(result.words, row.extra["words"], strict=True)]
    if not late:
        pytest.skip("the model that ships hears none of the samples without a mistake")
    assert np.median(np.abs(late)) < 0.15
