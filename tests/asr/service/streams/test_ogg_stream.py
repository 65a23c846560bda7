"""Opus in Ogg that comes bit by bit is what it is as a file, and what is damaged is said."""

from __future__ import annotations

import io
import re
import struct
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import AudioError
from asr.inflow import OpusInflow
from audio.ogg_opus import OggOpusStream, _checksum
from audio.reading import read_audio

RATES = (8000, 16000, 24000, 48000)


def opus(rate: int = 16000, channels: int = 1, seconds: float = 3.0, codec: str = "OPUS") -> bytes:
    rng = np.random.default_rng(0)
    time = np.arange(round(seconds * rate)) / rate
    sound = 0.3 * np.sin(2 * np.pi * (200 + 300 * time) * time) + rng.normal(0, 0.02, len(time))
    file = io.BytesIO()
    soundfile.write(file, np.column_stack([sound * (1 - 0.3 * i) for i in range(channels)]), rate, codec, format="OGG")
    return file.getvalue()


WHOLE = opus()
SOUND = soundfile.read(io.BytesIO(WHOLE), dtype="float32", always_2d=True)[0]


def pages(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = 27 + data[26] + sum(data[27 : 27 + data[26]])
        found.append(data[:size])
        data = data[size:]
    return found


def page(number: int, packets: list[bytes], granule: int, flags: int = 0, serial: int = 1) -> bytes:
    """A page of whole packets, each shorter than 255 bytes."""
    head = b"OggS\0" + struct.pack("<BqIII", flags, granule, serial, number, 0) + bytes([len(packets)])
    raw = head + bytes(len(packet) for packet in packets) + b"".join(packets)
    return sealed(raw)


def sealed(raw: bytes) -> bytes:
    """With the checksum that belongs to it."""
    return raw[:22] + slow_checksum(raw[:22] + bytes(4) + raw[26:]).to_bytes(4, "little") + raw[26:]


def slow_checksum(raw: bytes) -> int:
    """As RFC 3533 describes it, bit by bit."""
    value = 0
    for byte in raw:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ 0x04C11DB7 if value & 0x80000000 else value << 1) & 0xFFFFFFFF
    return value


def decoded(parts: list[bytes]) -> Any:
    stream = OggOpusStream("it")
    blocks = [block for part in parts for block in stream.feed(part)] + list(stream.finish())
    return np.concatenate(blocks) if blocks else np.zeros((0, 1), np.float32)


def expected(data: bytes) -> Any:
    return soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0]


def taken(stream: OggOpusStream, parts: list[bytes]) -> tuple[list[Any], str | None]:
    """Blocks, and why there are no more of them."""
    blocks: list[Any] = []
    try:
        for part in parts:
            blocks += stream.feed(part)
    except AudioError as error:
        return blocks, str(error)
    return blocks, None


@settings(deadline=None, max_examples=30)
@given(st.binary(max_size=300))
def test_the_checksum_is_that_of_the_standard(raw: bytes) -> None:
    assert _checksum(raw) == slow_checksum(raw)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 4000), min_size=1, max_size=40))
def test_blocks_of_any_size_decode_as_the_file_does(sizes: list[int]) -> None:
    edges = [0, *(edge for edge in accumulate(sizes) if edge < len(WHOLE)), len(WHOLE)]
    parts = [WHOLE[a:z] for a, z in pairwise(edges)]
    assert np.array_equal(decoded(parts), SOUND)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("seconds", [0.01, 0.5, 1.37])
def test_all_rates_and_lengths_decode_as_the_file_does(rate: int, channels: int, seconds: float) -> None:
    data = opus(rate, channels, seconds)
    found = decoded([data[at : at + 100] for at in range(0, len(data), 100)])
    assert np.array_equal(found, expected(data))


def test_pages_of_a_single_packet_are_decoded_as_they_come() -> None:
    """As recorders write them that are in a hurry: twenty milliseconds each."""
    head, tags, *rest = pages(WHOLE)
    packets = []
    for each in rest:
        at, sizes = 27 + each[26], each[27 : 27 + each[26]]
        assert 255 not in sizes
        for size in sizes:
            packets.append(each[at : at + size])
            at += size
    skip = int.from_bytes(head[28 + 10 : 28 + 12], "little")
    serial = int.from_bytes(head[14:18], "little")
    live = [page(i + 2, [packet], 960 * (i + 1), serial=serial) for i, packet in enumerate(packets)]
    stream = OggOpusStream("it")
    assert list(stream.feed(head + tags)) == []
    counts = [sum(len(block) for block in stream.feed(each)) for each in live]
    # 20 ms after the first, of which the codec's skip and a millisecond that waits are missing
    assert counts[0] == 320 - skip // 3 - 16
    assert set(counts[1:-1]) == {320}
    before = sum(counts[:-1])  # the last page of the file says where in its packet the sound ends
    assert np.array_equal(decoded([head, tags, *live])[:before], SOUND[:before])


def test_samples_are_what_the_file_holds() -> None:
    data = opus(48000, 2)
    inflow = OpusInflow("it")
    found = np.concatenate([*(b for at in range(0, len(data), 500) for b in inflow.feed(data[at : at + 500])),
                            *inflow.finish()])  # fmt: skip
    whole = read_audio(data)
    assert len(found) == pytest.approx(len(whole), abs=2)
    count = min(len(found), len(whole))
    assert np.abs(found[:count] - whole[:count]).max() < 1e-4


def test_a_stream_that_stops_anywhere_gives_what_came() -> None:
    for size in (0, 20, 60, 1000, len(WHOLE) // 2, len(WHOLE) - 1):
        found = decoded([WHOLE[:size]])
        assert np.array_equal(found, SOUND[: len(found)])


@settings(deadline=None, max_examples=40)
@given(at=st.integers(0, len(WHOLE) - 1), bit=st.integers(0, 7))
def test_a_wrong_bit_is_said_and_what_came_before_is_there(at: int, bit: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= 1 << bit
    stream = OggOpusStream("it")
    blocks, said = taken(stream, [bytes(damaged[start : start + 997]) for start in range(0, len(damaged), 997)])
    assert said is None or re.match("it: .+; ", said)
    if said is None:  # the length of a page became larger: the rest of it never comes
        assert stream._rest
    blocks += stream.finish()
    if blocks:
        found = np.concatenate(blocks)
        assert np.array_equal(found, SOUND[: len(found)])


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=2000), st.integers(0, 4))
def test_garbage_is_refused_or_waits(data: bytes, good: int) -> None:
    stream = OggOpusStream("it")
    list(stream.feed(b"".join(pages(WHOLE)[:good])))
    _, said = taken(stream, [data])
    assert said is None or re.match("it: .+; ", said)
    if said is None:
        assert b"OggS"[: len(data)] == data[:4]
    list(stream.finish())


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([b"RIFF0000WAVE"], "not Ogg"),
        ([opus(codec="VORBIS")], "not of Opus"),
        (pages(WHOLE)[:3] + pages(WHOLE)[4:], "page 3 is missing"),
        (pages(WHOLE)[:3] + pages(WHOLE)[2:3], "page 3 is missing"),
        (pages(WHOLE)[2:], "not of Opus"),
        ([WHOLE, WHOLE], "another recording follows"),
        ([pages(WHOLE)[0], pages(WHOLE)[0]], "another recording follows"),
        ([*pages(WHOLE)[:3], b"x" * 100], "no Ogg page where one should begin"),
    ],
)
def test_what_does_not_belong_is_named(parts: list[bytes], said: str) -> None:
    with pytest.raises(AudioError, match=f"^it: .*{said}.*;"):
        decoded(parts)


def test_headers_without_end_are_refused() -> None:
    head = pages(WHOLE)[0]
    serial = int.from_bytes(head[14:18], "little")
    endless = [sealed(b"OggS\0" + struct.pack("<BqIII", 0, -1, serial, number, 0) + b"\xff" * 256 + bytes(255 * 255))
               for number in range(1, 6)]  # fmt: skip
    with pytest.raises(AudioError, match="no sound in its first 256 KiB"):
        decoded([head, *endless])


def test_packets_that_are_no_opus_are_refused() -> None:
    head, tags, *_ = pages(WHOLE)
    serial = int.from_bytes(head[14:18], "little")
    wrong = page(2, [b"\x07\x00\xff"] * 3, 960, serial=serial)  # says that it holds no frames
    fine = page(3, [b"\x08"] * 50, 49000, serial=serial)
    with pytest.raises(AudioError, match=r"^it: "):
        decoded([head, tags, fine[:18] + b"\2\0\0\0" + fine[22:], wrong, fine])


def test_little_that_holds_much_is_decoded_bit_by_bit() -> None:
    """A packet of a byte may last 120 ms: what a page holds must not all lie in memory at once."""
    head, tags, *_ = pages(WHOLE)
    serial = int.from_bytes(head[14:18], "little")
    quiet = bytes([0b00011_0_11, 2])  # two frames of 60 ms, without any bytes
    long = [page(2 + i, [quiet] * 200, 200 * 5760 * (i + 1), serial=serial) for i in range(5)]
    stream = OggOpusStream("it")
    sizes = [len(block) for block in stream.feed(b"".join([head, tags, *long]))]
    assert sum(sizes) > 10 * max(sizes)


def test_what_was_decoded_is_forgotten() -> None:
    stream = OggOpusStream("it")
    for at in range(0, len(WHOLE), 200):
        list(stream.feed(WHOLE[at : at + 200]))
        assert len(stream._file) + len(stream._rest) < 20_000
