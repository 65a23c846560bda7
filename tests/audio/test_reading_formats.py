"""Other formats than WAV, parts of files, resampling, channels and limits, against libsndfile, soxr and arithmetic."""

from __future__ import annotations

import io
import json
import warnings
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
import soundfile
import soxr

from audio.errors import AudioError
from audio.reading import AudioWarning, RawFormat, audio_info, read_audio

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from audio.pcm import Encoding

RATE = 16000
FORMATS = [  # container, subtype
    ("FLAC", "PCM_16"),
    ("FLAC", "PCM_24"),
    ("OGG", "VORBIS"),
    ("OGG", "OPUS"),
    ("MP3", "MPEG_LAYER_III"),
    ("AIFF", "PCM_16"),
    ("AIFF", "FLOAT"),
    ("AU", "ULAW"),
    ("CAF", "ALAC_16"),
    ("W64", "PCM_24"),
    ("NIST", "PCM_16"),
    ("VOC", "PCM_16"),
]


def sweep(seconds: float = 3.0, rate: int = RATE) -> NDArray[np.float64]:
    """A rising tone with a little noise, so that every moment is unlike every other."""
    t = np.arange(round(seconds * rate)) / rate
    samples = 0.5 * np.sin(2 * np.pi * (200 + 150 * t) * t) + 0.01 * np.random.default_rng(1).standard_normal(len(t))
    return np.asarray(samples)


def written(samples: NDArray[np.float64], container: str, subtype: str, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, subtype=subtype)
    return file.getvalue()


def libsndfile(data: bytes) -> NDArray[np.float32]:
    samples, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    return np.asarray(samples)


def with_unstated_length(flac: bytes) -> bytes:
    """FLAC as it is streamed: the 36 bits of STREAMINFO that hold the number of samples are 0 (RFC 9639, 8.2)."""
    changed = bytearray(flac)
    changed[21] &= 0xF0
    changed[22:26] = bytes(4)
    return bytes(changed)


class Counting(io.BytesIO):
    """Counts the bytes read from it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


@pytest.mark.parametrize(("container", "subtype"), FORMATS)
def test_libsndfiles_samples(container: str, subtype: str, tmp_path: Path) -> None:
    data = written(sweep(), container, subtype)
    expected = libsndfile(data)
    path = tmp_path / "no suffix tells"
    path.write_bytes(data)
    for source in (data, path):
        samples = read_audio(source)
        assert samples.dtype == np.float32
        np.testing.assert_allclose(samples, expected, rtol=0, atol=1e-6)
    info = audio_info(path)
    assert (info.sample_rate, info.channels, info.encoding, info.container) == (RATE, 1, subtype, container)
    assert info.duration == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_flac_is_sample_exact(subtype: str) -> None:
    full_scale = {"PCM_16": 2**15, "PCM_24": 2**23}[subtype]
    values = np.round(sweep() * full_scale)
    expected = (values / full_scale).astype(np.float32)
    np.testing.assert_array_equal(read_audio(written(values / full_scale, "FLAC", subtype)), expected)


@pytest.mark.parametrize(("container", "subtype"), [*FORMATS, ("WAV", "PCM_16"), ("RF64", "ULAW")])
@pytest.mark.parametrize(("offset", "duration"), [(0.0, 0.5), (0.7123, 0.5), (2.9, None), (2.9, 99.0), (1.0, 1e-9)])
def test_a_part_is_a_slice_of_the_whole(container: str, subtype: str, offset: float, duration: float | None) -> None:
    data = written(sweep(), container, subtype)
    start = round(offset * RATE)
    count = None if duration is None else max(1, round(duration * RATE))
    expected = read_audio(data)[start:][:count]
    part = read_audio(data, offset=offset, duration=duration)
    assert len(part) == len(expected)
    np.testing.assert_allclose(part, expected, rtol=0, atol=5e-3 if container == "OGG" else 1e-6)


@pytest.mark.parametrize(("container", "subtype"), [("WAV", "PCM_16"), ("FLAC", "PCM_16")])
def test_a_part_takes_only_its_share_of_the_file(container: str, subtype: str) -> None:
    data = written(np.tile(sweep(), 20), container, subtype)
    file = Counting(data)
    assert len(read_audio(file, offset=40.0, duration=0.5)) == RATE // 2
    assert file.taken < len(data) / 4
    file = Counting(data)
    assert audio_info(file).duration == pytest.approx(60)
    assert file.taken < len(data) / 4


def test_flac_of_unstated_length_is_read_to_its_end() -> None:
    data = written(sweep(), "FLAC", "PCM_16")
    streamed = with_unstated_length(data)
    np.testing.assert_array_equal(read_audio(streamed), read_audio(data))
    np.testing.assert_array_equal(read_audio(streamed, offset=2.5), read_audio(data)[40000:])
    assert len(read_audio(streamed, offset=2.5, duration=99)) == 8000
    assert audio_info(streamed).frames == 48000
    with pytest.raises(AudioError, match=r"more than 2 s long, above the limit"):
        read_audio(streamed, max_seconds=2)
    with pytest.raises(AudioError, match=r"can't be read from 7\.00 s on .*; give a smaller offset"):
        read_audio(streamed, offset=7)


@pytest.mark.parametrize(
    ("container", "subtype", "told"),
    [
        ("FLAC", "PCM_16", r"damaged at \d\.\d\d s .*; read up to there"),
        ("AIFF", "PCM_16", r"its header promises 384054 bytes, 192027 are there; read what is there"),
    ],
)
def test_what_is_cut_off_is_read_with_a_warning(container: str, subtype: str, told: str) -> None:
    data = written(np.tile(sweep(), 4), container, subtype)
    cut = data[: len(data) // 2]
    with pytest.warns(AudioWarning, match=told):
        samples = read_audio(cut)
    assert 4 * RATE < len(samples) < 8 * RATE
    np.testing.assert_array_equal(samples, read_audio(data)[: len(samples)])


@pytest.mark.parametrize(("container", "subtype"), [("OGG", "OPUS"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")])
def test_a_second_recording_in_a_file_is_not_left_out_in_silence(container: str, subtype: str) -> None:
    data = written(sweep(), container, subtype)
    with pytest.warns(AudioWarning, match="another recording follows the first in it and is left out; split"):
        assert len(read_audio(data + data)) == 3 * RATE
    assert len(read_audio(data + data, duration=1.0)) == RATE


@pytest.mark.parametrize(("container", "subtype"), [("OGG", "OPUS"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")])
@pytest.mark.parametrize("share", [0.2, 0.3, 0.5, 0.8])
def test_what_is_cut_short_is_no_second_recording(container: str, subtype: str, share: float) -> None:
    data = written(np.random.default_rng(0).normal(scale=0.1, size=10 * RATE), container, subtype)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        read_audio(data[: round(share * len(data))])
    assert not [each for each in told if "another recording" in str(each.message)]


@pytest.mark.parametrize("count", [1, 10, 100, 1000])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_very_short_mp3_is_one_recording(count: int, channels: int) -> None:
    assert len(read_audio(written(np.full((count, channels), 0.1), "MP3", "MPEG_LAYER_III"))) >= count


@pytest.mark.parametrize("container", ["FLAC", "OGG", "AIFF", "CAF"])
def test_a_header_alone_is_refused(container: str) -> None:
    subtype = "VORBIS" if container == "OGG" else "PCM_16"
    with pytest.raises(AudioError, match=r"the given bytes: .*; \w"):
        read_audio(written(np.zeros(0), container, subtype)[:60])
    if container != "FLAC":  # of which libsndfile writes nothing at all
        with pytest.raises(AudioError, match="no samples"):
            read_audio(written(np.zeros(0), container, subtype))


@pytest.mark.parametrize("rate", [4000, 8000, 11025, 16000, 22050, 44100, 48000, 96000, 192000])
def test_any_rate_becomes_the_one_asked_for(rate: int) -> None:
    t = np.arange(2 * rate) / rate
    tone = 0.5 * np.sin(2 * np.pi * 1000 * t)
    data = written(tone, "WAV", "FLOAT", rate)
    samples = read_audio(data)
    assert len(samples) == 2 * RATE
    expected = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(2 * RATE) / RATE)
    middle = slice(RATE // 2, -RATE // 2)
    np.testing.assert_allclose(samples[middle], expected[middle], atol=2e-4)
    whole = tone.astype(np.float32) if rate == RATE else soxr.resample(tone.astype(np.float32), rate, RATE)
    np.testing.assert_allclose(samples, whole, atol=1e-6)
    assert len(read_audio(data, sample_rate=8000)) == 16000


def test_block_by_block_is_as_all_at_once() -> None:
    values = sweep(40.0, 44100)
    samples = read_audio(written(values, "WAV", "FLOAT", 44100))
    whole = soxr.resample(values.astype(np.float32), 44100, RATE)
    assert len(samples) == len(whole)
    np.testing.assert_allclose(samples, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("channels", [2, 3, 6, 300])
@pytest.mark.parametrize("container", ["WAV", "AIFF"])
def test_channels_are_mixed_or_chosen(container: str, channels: int) -> None:
    values = np.round(np.random.default_rng(2).uniform(-1, 1, (500, channels)) * 32767) / 32768
    data = written(values, container, "PCM_16")
    np.testing.assert_allclose(read_audio(data), values.mean(axis=1), atol=1e-6)
    for channel in (0, channels - 1):
        np.testing.assert_array_equal(read_audio(data, channel=channel), values[:, channel].astype(np.float32))
    assert audio_info(data).channels == channels
    for channel in (-1, channels):
        with pytest.raises(AudioError, match=f"no channel {channel}: it has {channels}"):
            read_audio(data, channel=channel)


@pytest.mark.parametrize("endianness", ["little", "big"])
@pytest.mark.parametrize(
    "encoding", ["PCM_U8", "PCM_S8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"]
)
def test_raw_samples_are_what_they_are_stated_to_be(encoding: Encoding, endianness: Literal["little", "big"]) -> None:
    file = io.BytesIO()
    values = np.random.default_rng(4).uniform(-1, 1, (700, 2))
    options = {"subtype": encoding, "endian": endianness.upper(), "format": "RAW"}
    soundfile.write(file, values, 8000, **options)
    expected, _ = soundfile.read(
        io.BytesIO(file.getvalue()),
        dtype="float32",
        samplerate=8000,
        channels=2,
        format="RAW",
        **_without_format(options),
    )
    raw = RawFormat(encoding, 8000, channels=2, endianness=endianness)
    np.testing.assert_array_equal(
        read_audio(file.getvalue(), sample_rate=8000, raw=raw, channel=1), np.asarray(expected)[:, 1]
    )
    info = audio_info(file.getvalue(), raw=raw)
    assert (info.frames, info.channels, info.sample_rate, info.encoding) == (700, 2, 8000, encoding)


def _without_format(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != "format"}


def test_raw_samples_that_end_within_a_frame() -> None:
    raw = RawFormat("PCM_16", RATE, channels=2)
    with pytest.warns(AudioWarning, match="left out the last 3 of 403 bytes"):
        assert len(read_audio(b"\1" * 403, raw=raw)) == 100
    with pytest.raises(AudioError, match="no samples"):
        read_audio(b"\1\2\3", raw=raw)


def test_a_header_is_not_heard_as_raw_samples() -> None:
    with pytest.raises(AudioError, match="leave the raw format out"):
        read_audio(written(sweep(), "WAV", "PCM_16"), raw=RawFormat("PCM_16", RATE))


@pytest.mark.parametrize(
    "wrong",
    [
        {"encoding": "MP3", "sample_rate": RATE},
        {"encoding": "PCM_16", "sample_rate": 0},
        {"encoding": "PCM_16", "sample_rate": RATE, "channels": 0},
        {"encoding": "PCM_16", "sample_rate": RATE, "endianness": "middle"},
    ],
)
def test_raw_formats_that_do_not_exist(wrong: dict[str, str | int]) -> None:
    with pytest.raises(AudioError, match=r"raw format: .*; use"):
        RawFormat(**wrong)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(("container", "subtype"), [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS")])
def test_too_long_is_refused_before_it_is_decoded(container: str, subtype: str) -> None:
    data = written(np.tile(sweep(), 10), container, subtype)
    file = Counting(data)
    with pytest.raises(AudioError, match=r"30\.00 s long, above the limit of 20 s; .*max_seconds"):
        read_audio(file, max_seconds=20)
    if container != "OGG":  # of which the ends are read to find its length, and this file isn't much longer
        assert file.taken < len(data) / 2
    assert len(read_audio(data, max_seconds=20, offset=5, duration=20)) == 20 * RATE
    assert len(read_audio(data, max_seconds=20, offset=10)) == 20 * RATE
    assert len(read_audio(data, max_seconds=30)) == 30 * RATE
    with pytest.raises(AudioError, match="above the limit"):
        read_audio(data, max_seconds=20, duration=25)


def test_the_default_limit_is_an_hour() -> None:
    second = written(np.zeros(4000), "WAV", "PCM_U8", 4000)
    hour = second[:44] + b"\x80" * 4000 * 3600
    streamed = hour[:40] + b"\xff" * 4 + hour[44:]
    assert len(read_audio(streamed, sample_rate=4000)) == 4000 * 3600
    with pytest.raises(AudioError, match=r"3,600\.25 s long, above the limit of 3,600 s"):
        read_audio(streamed + b"\x80" * 1000)


@pytest.mark.real
def test_recordings_read_as_libsndfile_reads_them(corpus: Path) -> None:
    for manifest in sorted(corpus.glob("*.jsonl")):
        for line in manifest.read_text("utf-8").splitlines()[:300:100]:
            row = json.loads(line)
            path = corpus / row["audio_filepath"]
            expected, rate = soundfile.read(path, dtype="float32", always_2d=True)
            samples = read_audio(path, sample_rate=rate)
            np.testing.assert_allclose(samples, np.asarray(expected).mean(axis=1), atol=1e-6)
            assert audio_info(path).duration == pytest.approx(len(samples) / rate)
