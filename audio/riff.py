"""The chunks of a WAV file (RIFF, big-endian RIFX, RF64, BW64), walked by what is there rather than by what is claimed.

Layout after the multimedia programming interface of 1991, WAVEFORMATEXTENSIBLE, and EBU Tech 3306 for RF64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from audio.pcm import HIGHEST_RATE, LOWEST_RATE, Encoding, Extent, RawFormat
from audio.sources import CONVERT, unusable

if TYPE_CHECKING:
    from audio.sources import Window

CONTAINERS = {b"RIFF": "WAV", b"RIFX": "WAV (RIFX)", b"RF64": "RF64", b"BW64": "BW64"}

# A recorder that can't come back to fill the size in leaves 0, 2 GiB or 4 GiB, less some header bytes (sox: 0x7FFFF000)
_STREAMED = 0x7FFFF000
_STREAMED_64 = 1 << 62
_MOST_CHUNKS = 4096  # no file has as many; without a bound a gigabyte of zeros would be walked in steps of 8 bytes
_NAMES = b"fmt dataLISTfactJUNKjunkPAD FLLRbextcue smplinstds64iXMLid3 ID3 PEAKplstcartaxmlchna"
_KNOWN = frozenset(_NAMES[at : at + 4] for at in range(0, len(_NAMES), 4))  # tell a forgotten pad byte
_CODECS = {  # wFormatTag, for messages
    0x0002: "Microsoft ADPCM",
    0x0011: "IMA ADPCM",
    0x0022: "TrueSpeech",
    0x0031: "GSM 6.10",
    0x0040: "G.721 ADPCM",
    0x0042: "G.723.1",
    0x0045: "G.726 ADPCM",
    0x0050: "MPEG layer 1 or 2",
    0x0055: "MP3",
    0x0064: "G.726 ADPCM",
    0x0083: "G.729",
    0x00FF: "AAC",
    0x0130: "Sipro ACELP",
    0x0160: "Windows Media Audio 1",
    0x0161: "Windows Media Audio 2",
    0x0162: "Windows Media Audio 9",
    0x0270: "ATRAC3",
    0x1610: "HE-AAC",
    0x2000: "AC-3",
    0x2001: "DTS",
    0x566F: "Vorbis",
    0x674F: "Vorbis",
    0x704F: "Opus",
    0xA109: "Speex",
    0xF1AC: "FLAC",
}
_LIBSNDFILE = frozenset([0x0002, 0x0011, 0x0031])  # codecs that libsndfile decodes within a WAV file
_PCM, _FLOAT, _ALAW, _ULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_SUBFORMATS = (  # a sub-format GUID after its first two bytes, a wFormatTag: Microsoft's and Ambisonic B-format's
    bytes.fromhex("000000001000800000aa00389b71"),
    bytes.fromhex("00002107d3118644c8c1ca000000"),
)


@dataclass(frozen=True)
class _Format:
    """What a fmt chunk says."""

    raw: RawFormat | None  # None: a codec that libsndfile knows
    warnings: tuple[str, ...] = ()


def wave_extent(window: Window) -> Extent | None:
    """Where the samples of a WAV file lie; None where they are compressed by a codec that libsndfile knows.

    Unknown chunks are passed over, odd ones with or without their pad byte. The data chunk ends where the file ends if
    its size is one of those that streaming recorders leave, or promises more than is there (which is a warning).
    Raises AudioError for damaged headers, unknown codecs, and files without samples.
    """
    name, size = window.name, window.size
    container = window.at(0, 4)
    order: Literal["little", "big"] = "big" if container == b"RIFX" else "little"
    form: _Format | None = None
    large: int | None = None  # size of the data chunk from ds64
    position = 12
    whole = False  # from here on there are whole chunks only: where that holds of one chunk, it does of all behind it
    for _ in range(_MOST_CHUNKS):
        head = window.at(position, 8)
        if len(head) < 8 or not _is_name(head[:4]):
            break
        claimed, body = int.from_bytes(head[4:], order), position + 8
        if head[:4] == b"ds64" and container in (b"RF64", b"BW64") and claimed >= 16:
            large = int.from_bytes(window.at(body + 8, 8), order)
        elif head[:4] == b"fmt " and form is None:
            form = _format(window.at(body, min(claimed, 40)), order, name)
        elif head[:4] == b"data":
            if form is None:
                raise unusable(name, "damaged: no fmt chunk before the samples", "record or convert it again")
            if claimed == 0xFFFFFFFF and large is not None:
                claimed = large if 0 < large < _STREAMED_64 else 0
            whole = whole or (claimed == 0 and _chunks_follow(window, body, order))
            if claimed or not whole:
                return _extent(form, body, claimed, window, CONTAINERS[container])
        position = _next(window, body, claimed, order)
    window.check()
    if form is not None and 0 <= position - size <= 1:  # 1: a pad byte that isn't there
        raise unusable(name, "only a header, no samples", "record it again")
    raise unusable(name, "damaged: cut off or garbled within its header", "record or copy it again")


def _extent(form: _Format, start: int, claimed: int, window: Window, container: str) -> Extent | None:
    there = window.size - start
    if form.raw is None:
        return None
    streamed = claimed == 0 or (claimed >= _STREAMED and claimed > there)
    size = there if streamed else min(claimed, there)
    if size < form.raw.block:
        raise unusable(window.name, "only a header, no samples", "record it again")
    warnings = form.warnings
    if not streamed and claimed > there:
        rate = form.raw.block * form.raw.sample_rate
        promise = f"its header promises {claimed / rate:.2f} s of sound, {there / rate:.2f} s are there"
        warnings += (f"{promise}; read what is there",)
    return Extent(form.raw, start, size, container, warnings)


def _format(chunk: bytes, order: Literal["little", "big"], name: str) -> _Format:
    """The fmt chunk (16, 18, 40 or more bytes) understood; AudioError where it can't be."""
    if len(chunk) < 16:
        raise unusable(name, f"damaged: a fmt chunk of {len(chunk)} bytes", "record or convert it again")
    tag, channels, block, bits = (int.from_bytes(chunk[at : at + 2], order) for at in (0, 2, 12, 14))
    sample_rate = int.from_bytes(chunk[4:8], order)
    if tag == _EXTENSIBLE:
        if len(chunk) < 40:
            raise unusable(name, "damaged: an extensible fmt chunk that names no codec", "convert it again")
        if chunk[26:40] not in _SUBFORMATS:
            raise unusable(name, f"compressed by an unknown codec within WAV: {chunk[24:40].hex()}", CONVERT)
        tag = int.from_bytes(chunk[24:26], order)
    if not channels:
        raise unusable(name, "damaged: a header of 0 channels", "record or convert it again")
    if not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
        fault = f"a sample rate of {sample_rate} Hz, outside {LOWEST_RATE} to {HIGHEST_RATE} Hz"
        raise unusable(name, fault, "record it again, or resample it")
    if tag in _LIBSNDFILE:
        return _Format(None)
    encoding, width = _encoding(tag, bits, name)
    warnings: tuple[str, ...] = ()
    if block not in (0, channels * width):
        if encoding == "PCM_24" and block == channels * 4:
            fault = "24-bit samples in 4 bytes each, which the header doesn't explain"
            raise unusable(name, fault, CONVERT)
        warnings = (f"its header gives {block} bytes per frame instead of {channels * width}; went by the bits",)
    return _Format(RawFormat(encoding, sample_rate, channels, order), warnings)


def _encoding(tag: int, bits: int, name: str) -> tuple[Encoding, int]:
    """The encoding and its bytes per sample, from the format tag and the bits per sample."""
    if tag == _PCM and 1 <= bits <= 32:  # odd numbers of bits fill the upper bits of whole bytes
        by_width: tuple[Encoding, ...] = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32")
        return by_width[(bits - 1) // 8], (bits + 7) // 8
    if tag == _FLOAT and bits in (32, 64):
        return ("FLOAT", 4) if bits == 32 else ("DOUBLE", 8)
    if tag in (_ALAW, _ULAW):  # always 8 bits, whatever the header says
        return ("ALAW", 1) if tag == _ALAW else ("ULAW", 1)
    if tag in (_PCM, _FLOAT):
        kind = "integer" if tag == _PCM else "floating-point"
        raise unusable(name, f"{bits}-bit {kind} samples, which no known WAV file has", CONVERT)
    codec = f"{_CODECS[tag]} (0x{tag:04X})" if tag in _CODECS else f"0x{tag:04X}"
    raise unusable(name, f"compressed by a codec within WAV that can't be read here: {codec}", CONVERT)


def _next(window: Window, body: int, claimed: int, order: Literal["little", "big"]) -> int:
    """Where the next chunk begins: after the pad byte of an odd chunk, unless its writer forgot that."""
    end = body + claimed
    if claimed % 2 == 0:
        return end
    return end if _is_chunk(window, end, order) and not _is_chunk(window, end + 1, order) else end + 1


def _is_chunk(window: Window, position: int, order: Literal["little", "big"]) -> bool:
    """Whether what is there looks like the head of a chunk: a common name, or any with a size that fits."""
    head = window.at(position, 8)
    if head[:4] in _KNOWN:
        return True
    return len(head) == 8 and _is_name(head[:4]) and position + 8 + int.from_bytes(head[4:], order) <= window.size


def _chunks_follow(window: Window, position: int, order: Literal["little", "big"]) -> bool:
    """Whether only whole chunks lie between a position and the end: then an empty data chunk means what it says."""
    for _ in range(_MOST_CHUNKS):
        head = window.at(position, 8)
        if not head:
            return True
        if len(head) < 8 or not _is_name(head[:4]):
            return False
        body, claimed = position + 8, int.from_bytes(head[4:], order)
        if body + claimed > window.size:
            return False
        position = min(_next(window, body, claimed, order), window.size)
    return False


def _is_name(name: bytes) -> bool:
    """Chunk names are four printable ASCII characters."""
    return all(0x20 <= byte < 0x7F for byte in name)
