"""WAV in every dress, against what libsndfile and sox write and read, and against headers made by hand."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import tracemalloc
import warnings
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st

from audio.errors import AudioError
from audio.reading import AudioWarning, audio_info, read_audio

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

RATE = 16000
SUBTYPES = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"]
STREAMED = [0, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFF000, 0x80000000, 0xFFFFFFFF - 36]


def chunk(name: bytes, body: bytes, *, size: int | None = None, pad: bool = True) -> bytes:
    return name + struct.pack("<I", len(body) if size is None else size) + body + b"\0" * (len(body) % 2 and pad)


def fmt(
    tag: int = 1, *, channels: int = 1, rate: int = RATE, bits: int = 16, extra: bytes = b"", block: int = -1
) -> bytes:
    block = channels * ((bits + 7) // 8) if block < 0 else block
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * block & 0xFFFFFFFF, block, bits) + extra)


def riff(*chunks: bytes, form: bytes = b"RIFF", size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return form + struct.pack("<I", len(body) if size is None else size) + body


def ramp(n: int = 1600) -> tuple[bytes, NDArray[np.float32]]:
    """16-bit samples, and what they are worth."""
    values = (np.arange(n) * 7919 % 65536 - 32768).astype("<i2")
    return values.tobytes(), values.astype(np.float32) / np.float32(32768)


def noise(channels: int = 1, n: int = 2000) -> NDArray[np.float64]:
    values = np.random.default_rng(3).uniform(-1, 1, (n, channels))
    return values[:, 0] if channels == 1 else values


def written(samples: NDArray[Any], subtype: str, container: str = "WAV", endian: str = "FILE") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, subtype=subtype, format=container, endian=endian)
    return file.getvalue()


def libsndfile(data: bytes) -> NDArray[np.float32]:
    samples, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    return np.asarray(samples)


@pytest.mark.parametrize(
    ("container", "subtype"),
    # libsndfile doesn't write 8 bits into RIFX
    [pair for pair in product(["WAV", "WAVEX", "RF64", "RIFX"], SUBTYPES) if pair != ("RIFX", "PCM_U8")],
)
def test_every_encoding_gives_libsndfiles_samples(container: str, subtype: str) -> None:
    big = container == "RIFX"
    data = written(noise(), subtype, "WAV" if big else container, "BIG" if big else "FILE")
    assert data[:4] == {"RF64": b"RF64", "RIFX": b"RIFX"}.get(container, b"RIFF")
    np.testing.assert_array_equal(read_audio(data), libsndfile(data))
    info = audio_info(data)
    assert (info.encoding, info.frames, info.channels, info.sample_rate) == (subtype, 2000, 1, RATE)
    assert info.duration == 2000 / RATE


@pytest.mark.parametrize("subtype", ["ALAW", "ULAW", "PCM_U8"])
def test_every_byte_is_worth_what_libsndfile_says(subtype: str) -> None:
    data = written(noise(n=256), subtype)
    at = data.index(b"data") + 8
    data = data[:at] + bytes(range(256)) + data[at + 256 :]
    np.testing.assert_array_equal(read_audio(data), libsndfile(data))


@pytest.mark.skipif(shutil.which("sox") is None, reason="sox is not installed")
@pytest.mark.parametrize(
    "options",
    [
        "-e unsigned -b 8",
        "-e signed -b 16",
        "-e signed -b 24",
        "-e signed -b 32",
        "-e float -b 32",
        "-e float -b 64",
        "-e a-law",
        "-e mu-law",
        "-e signed -b 16 -B",
        "-e signed -b 24 -B",
        "-c 2",
        "-e ms-adpcm",
        "-e ima-adpcm",
        "-e gsm-full-rate",
    ],
)
def test_what_sox_writes_is_read_as_sox_reads_it(options: str, tmp_path: Path) -> None:
    path = tmp_path / "sox.wav"
    make = [
        "sox",
        "-D",
        "-n",
        "-r",
        "16000",
        *options.split(),
        str(path),
        "synth",
        "0.5",
        "sine",
        "300-3000",
        "gain",
        "-3",
    ]
    subprocess.run(make, check=True)
    command = ["sox", "-D", str(path), "-t", "f64", "-"]
    raw = subprocess.run(command, check=True, capture_output=True).stdout
    channels = audio_info(path).channels
    expected = np.frombuffer(raw, "<f8").reshape(-1, channels).mean(axis=1).astype(np.float32)
    # compressed codecs: libsndfile and sox round differently, and fill the last block differently
    exact = "adpcm" not in options and "gsm" not in options
    samples = read_audio(path)
    if exact:
        assert len(samples) == len(expected)
    n = min(len(samples), len(expected))
    assert n >= 7900
    np.testing.assert_allclose(samples[:n], expected[:n], rtol=0, atol=0 if exact else 1e-3)


@pytest.mark.skipif(shutil.which("sox") is None, reason="sox is not installed")
def test_what_sox_streams_is_read_to_the_end() -> None:
    command = ["sox", "-D", "-n", "-r", "16000", "-b", "16", "-t", "wav", "-", "synth", "0.5", "sine", "440"]
    data = subprocess.run(command, check=True, capture_output=True).stdout
    assert data[40:44] != struct.pack("<I", 16000)  # sox couldn't go back to fill it in
    assert len(read_audio(data)) == 8000


def test_fmt_chunks_of_16_18_and_40_bytes() -> None:
    data, expected = ramp()
    guid = bytes.fromhex("0100000000001000800000aa00389b71")
    extensible = struct.pack("<HHI", 22, 16, 4) + guid
    ambisonic = struct.pack("<HHI", 22, 16, 4) + bytes.fromhex("010000002107d3118644c8c1ca000000")
    for head in [
        fmt(),
        fmt(extra=b"\0\0"),
        fmt(extra=b"\0" * 3),  # an odd fmt chunk
        fmt(0xFFFE, extra=extensible),
        fmt(0xFFFE, extra=ambisonic),
        fmt(0xFFFE, extra=extensible + b"\0" * 20),
    ]:
        np.testing.assert_array_equal(read_audio(riff(head, chunk(b"data", data))), expected)


@pytest.mark.parametrize("pad", [True, False], ids=["padded", "pad byte forgotten"])
@pytest.mark.parametrize("length", [0, 1, 7, 28, 601, 70001])
@pytest.mark.parametrize("name", [b"JUNK", b"LIST", b"bext", b"fact", b"xyz9"])
def test_other_chunks_are_passed_over(name: bytes, length: int, *, pad: bool) -> None:
    data, expected = ramp()
    other = chunk(name, b"x" * length, pad=pad)
    for file in [
        riff(other, fmt(), chunk(b"data", data)),
        riff(fmt(), other, chunk(b"data", data)),
        riff(fmt(), other, other, chunk(b"data", data), other),
    ]:
        np.testing.assert_array_equal(read_audio(file), expected)
        np.testing.assert_array_equal(read_audio(io.BytesIO(file)), expected)


def test_odd_data_and_trailing_garbage_are_no_samples() -> None:
    values = bytes(range(101))
    file = riff(fmt(bits=8), chunk(b"data", values), chunk(b"LIST", b"abc")) + b"garbage" * 50
    np.testing.assert_array_equal(read_audio(file), (np.arange(101, dtype=np.float32) - 128) / 128)


@pytest.mark.parametrize("size", STREAMED, ids=hex)
@pytest.mark.parametrize("form", [b"RIFF", b"RF64"])
def test_streamed_headers_are_read_to_the_end(form: bytes, size: int) -> None:
    data, expected = ramp()
    file = riff(fmt(), chunk(b"data", data, size=size), form=form, size=0xFFFFFFFF)
    np.testing.assert_array_equal(read_audio(file), expected)
    assert audio_info(file).frames == len(expected)


@pytest.mark.parametrize("size", [0, 2**62, 2**64 - 1])
def test_streamed_rf64_is_read_to_the_end(size: int) -> None:
    data, expected = ramp()
    ds64 = chunk(b"ds64", struct.pack("<QQQI", size, size, 0, 0))
    file = riff(ds64, fmt(), chunk(b"data", data, size=0xFFFFFFFF), form=b"RF64", size=0xFFFFFFFF)
    np.testing.assert_array_equal(read_audio(file), expected)


def test_rf64_takes_the_size_from_ds64() -> None:
    data, expected = ramp()
    ds64 = chunk(b"ds64", struct.pack("<QQQI", 0, len(data), 0, 0))
    file = riff(ds64, fmt(), chunk(b"data", data, size=0xFFFFFFFF), chunk(b"LIST", b"abcd"), form=b"RF64")
    np.testing.assert_array_equal(read_audio(file), expected)
    with pytest.warns(AudioWarning, match=r"promises 0\.10 s of sound, 0\.05 s are there"):
        np.testing.assert_array_equal(read_audio(file[: -len(data) // 2 - 12]), expected[:800])


@pytest.mark.parametrize("kept", [2, 1000, 3199])
def test_a_cut_off_file_is_read_as_far_as_it_goes_with_a_warning(kept: int, tmp_path: Path) -> None:
    data, expected = ramp()
    path = tmp_path / "cut.wav"
    path.write_bytes(riff(fmt(), chunk(b"data", data))[: 44 + kept])
    with pytest.warns(AudioWarning, match=r"cut\.wav: its header promises 0\.10 s"):
        np.testing.assert_array_equal(read_audio(path), expected[: kept // 2])
    with pytest.warns(AudioWarning):
        assert audio_info(path).frames == kept // 2


def test_an_empty_data_chunk_among_others_is_empty_and_a_later_one_counts() -> None:
    data, expected = ramp()
    with pytest.raises(AudioError, match="only a header, no samples"):
        read_audio(riff(fmt(), chunk(b"data", b""), chunk(b"LIST", b"abcd")))
    file = riff(fmt(), chunk(b"data", b""), chunk(b"LIST", b"abc"), chunk(b"data", data))
    np.testing.assert_array_equal(read_audio(file), expected)


def test_thousands_of_chunks_are_walked_once() -> None:
    """Whether whole chunks follow an empty data chunk was asked anew at each: a small file took a minute."""

    class Counting(io.BytesIO):
        reads = 0

        def read(self, size: int | None = -1, /) -> bytes:
            Counting.reads += 1
            return super().read(size)

    with pytest.raises(AudioError, match="only a header, no samples"):
        read_audio(Counting(riff(fmt(), *[chunk(b"data", b"")] * 2000)))
    assert Counting.reads < 20 * 2000


def test_12_and_20_bit_samples_fill_the_upper_bits_of_whole_bytes() -> None:
    data, expected = ramp()
    np.testing.assert_array_equal(read_audio(riff(fmt(bits=12), chunk(b"data", data))), expected)
    file = riff(fmt(bits=20), chunk(b"data", bytes(range(1, 241))))
    np.testing.assert_array_equal(read_audio(file), libsndfile(file))


@pytest.mark.parametrize("block", [1, 4, 999])
def test_bits_count_more_than_the_block_size(block: int) -> None:
    data, expected = ramp()
    file = riff(fmt(block=block), chunk(b"data", data))
    with pytest.warns(AudioWarning, match="bytes per frame"):
        np.testing.assert_array_equal(read_audio(file), expected)
    np.testing.assert_array_equal(libsndfile(file), expected)
    np.testing.assert_array_equal(read_audio(riff(fmt(block=0), chunk(b"data", data))), expected)


@pytest.mark.parametrize(
    ("tag", "bits", "said"),
    [
        (0x0055, 0, r"MP3 \(0x0055\)"),
        (0x0161, 16, "Windows Media Audio 2"),
        (0x2000, 16, "AC-3"),
        (0x1234, 16, "0x1234"),
        (1, 64, "64-bit integer"),
        (1, 0, "0-bit integer"),
        (3, 16, "16-bit floating-point"),
    ],
)
def test_unknown_codecs_are_named(tag: int, bits: int, said: str) -> None:
    with pytest.raises(AudioError, match=said + r".*; convert it"):
        read_audio(riff(fmt(tag, bits=bits, block=2), chunk(b"data", b"\1\2" * 500)))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (riff(fmt(), chunk(b"data", b"")), "only a header, no samples"),
        (riff(fmt(), chunk(b"data", b"", size=0xFFFFFFFF)), "only a header, no samples"),
        (riff(fmt(), chunk(b"data", b"", size=3200)), "only a header, no samples"),
        (riff(fmt(), chunk(b"data", b"\1")), "only a header, no samples"),
        (riff(fmt()), "only a header, no samples"),
        (riff(), "damaged"),
        (riff(fmt())[:30], "damaged"),
        (b"RIFF\x10\0", "damaged"),
        (riff(chunk(b"data", b"ab" * 99)), "no fmt chunk before the samples"),
        (riff(chunk(b"fmt ", b"\1\0\1\0"), chunk(b"data", b"ab" * 99)), "a fmt chunk of 4 bytes"),
        (riff(fmt(channels=0), chunk(b"data", b"ab" * 99)), "0 channels"),
        (riff(fmt(rate=0), chunk(b"data", b"ab" * 99)), "sample rate of 0 Hz"),
        (riff(fmt(rate=3999), chunk(b"data", b"ab" * 99)), "sample rate of 3999 Hz"),
        (riff(fmt(rate=2**32 - 1), chunk(b"data", b"ab" * 99)), "sample rate of 4294967295 Hz"),
        (riff(fmt(0xFFFE), chunk(b"data", b"ab" * 99)), "names no codec"),
        (riff(fmt(0xFFFE, extra=bytes(24)), chunk(b"data", b"ab" * 99)), "unknown codec"),
        (riff(fmt(bits=24, block=4), chunk(b"data", b"abcd" * 99)), "24-bit samples in 4 bytes"),
        (riff(chunk(b"LIST", b"abcd", size=2**31), fmt(), chunk(b"data", b"ab" * 99)), "damaged"),
        (riff(fmt(), b"\0" * 10000), "damaged"),
        (riff(fmt(), chunk(b"none", b"") * 10000), "damaged"),
    ],
)
def test_what_is_refused_says_why(file: bytes, said: str) -> None:
    with pytest.raises(AudioError, match=rf"the given bytes: .*{said}.*; \w+") as caught:
        read_audio(file)
    assert "\n" not in str(caught.value)
    with pytest.raises(AudioError):
        audio_info(file)


def test_memory_goes_by_what_is_there() -> None:
    file = riff(fmt(channels=8, rate=48000, bits=32), chunk(b"data", b"\1\2\3\4" * 8 * 4800, size=0xFFFFFF00))
    tracemalloc.start()
    try:
        read_audio(file)
        audio_info(file)
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()


@given(
    changes=st.lists(st.tuples(st.integers(0, 79), st.integers(0, 255)), max_size=6),
    subtype=st.sampled_from([*SUBTYPES, "MS_ADPCM", "IMA_ADPCM", "GSM610"]),
    container=st.sampled_from(["WAV", "WAVEX", "RF64"]),
    length=st.integers(0, 1200),
)
@settings(max_examples=300, derandomize=True, deadline=None)
@example(changes=[(22, 255), (23, 255)], subtype="DOUBLE", container="WAV", length=1200)
def test_a_garbled_header_gives_finite_samples_or_an_audio_error(
    changes: list[tuple[int, int]], subtype: str, container: str, length: int
) -> None:
    container = "WAV" if subtype.endswith(("ADPCM", "GSM610")) else container
    file = bytearray(written(noise(n=500), subtype, container))
    for at, value in changes:
        file[at] = value
    samples = np.zeros(0, np.float32)
    tracemalloc.start()
    try:
        with warnings.catch_warnings(), suppress(AudioError):
            warnings.simplefilter("ignore", AudioWarning)
            samples = read_audio(bytes(file[:length]))
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 16e6
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert np.isfinite(samples).all()
