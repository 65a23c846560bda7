"""Opus in Ogg that comes bit by bit, as from a browser's recorder: decoded by libsndfile as the pages get complete.

libsndfile reads files, and where one ends it has ended. So it's given an Ogg file that never does: what has come is at
its beginning, a page that states an endless length is at its end, and it's asked for just those frames that the pages
hold which are there. What it decodes is what it would decode of the whole file.
"""

from __future__ import annotations

import io
import os
import zlib
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from audio.libsndfile import Sequential
from audio.sources import unusable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer
    from numpy.typing import NDArray

LARGEST_HEADERS = 1 << 18  # bytes of pages before the first sound: more is a picture, or no speech
_OPUS_RATE = 48_000  # Hz, in which Opus counts
_SPARE = 16  # frames that are asked for a page later, since the skip at the beginning may be rounded
_HEADER = 27  # bytes of a page before its table of segments
_CONTINUED, _FIRST, _LAST = 1, 2, 4  # a page's flags
_SILK, _HYBRID, _CELT = (480, 960, 1920, 2880), (480, 960), (120, 240, 480, 960)  # frames' lengths at 48 kHz
_END = 1 << 40  # byte at which the file seems to end
_FRAMES = 1 << 12  # decoded at a time
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_REMEDY = "send Opus in Ogg from its first page on, each page once and whole"


class OggOpusStream:
    """Decodes blocks of bytes of any size."""

    def __init__(self, name: str) -> None:
        """name: of the sound, in messages."""
        self.sample_rate = _OPUS_RATE  # Hz, of the frames
        self._name = name
        self._rest = b""
        self._file = _Growing()
        self._decoder: soundfile.SoundFile | None = None
        self._serial = b""
        self._number = 0  # of the next page
        self._headers = 0  # packets that came which are no sound: two, who it is and a comment
        self._packet = b""  # the first bytes of a packet that goes on in the next page
        self._length = 0  # of the packets that came, at 48 kHz
        self._skip = 0  # of it, that are left out at the beginning
        self._read = 0  # frames
        self._ended = False

    def feed(self, data: bytes) -> Iterator[NDArray[np.float32]]:
        """Frames of the pages that these bytes complete, in blocks (n, channels), full scale ±1.

        A block is decoded when it's asked for. Raises AudioError for what is no Opus, and for a page that is damaged,
        missing or of another recording.
        """
        self._rest += data
        at = 0
        while (size := self._page_size(at)) is not None and at + size <= len(self._rest):
            self._take(self._rest[at : at + size])
            at += size
        self._rest = self._rest[at:]
        yield from self._decoded()

    def finish(self) -> Iterator[NDArray[np.float32]]:
        """The last frames; a page of which a part is missing is left out."""
        self._ended = True
        yield from self._decoded()

    def _page_size(self, at: int) -> int | None:
        """Of the page that starts there; None where too little of it has come."""
        if self._ended and len(self._rest) > at:
            raise unusable(self._name, "another recording follows the first in it", "send each on its own")
        head = self._rest[at : at + _HEADER]
        if head[:5] != b"OggS\0"[: len(head)]:
            fault = "not Ogg" if not self._number else "damaged: no Ogg page where one should begin"
            raise unusable(self._name, fault, _REMEDY)
        if len(head) < _HEADER or len(self._rest) < at + _HEADER + head[26]:
            return None
        table = self._rest[at + _HEADER : at + _HEADER + head[26]]
        return _HEADER + len(table) + sum(table)

    def _take(self, page: bytes) -> None:
        table, body = page[_HEADER : _HEADER + page[26]], page[_HEADER + page[26] :]
        if _checksum(page[:22] + bytes(4) + page[26:]) != int.from_bytes(page[22:26], "little"):
            raise unusable(self._name, f"page {self._number} is damaged: its checksum is wrong", _REMEDY)
        if not self._number:
            if not body.startswith(b"OpusHead") or len(body) < 19:
                raise unusable(self._name, "Ogg, but not of Opus", _REMEDY)
            self._serial = page[14:18]
            self._skip = int.from_bytes(body[10:12], "little")
            self._file.end = _last_page(self._serial)
        elif page[14:18] != self._serial or page[5] & _FIRST:
            raise unusable(self._name, "another recording follows the first in it", "send each on its own")
        if int.from_bytes(page[18:22], "little") != self._number:
            raise unusable(self._name, f"page {self._number} is missing", _REMEDY)
        self._number += 1
        self._ended = bool(page[5] & _LAST)
        self._file.add(page)
        self._count(table, body)
        if self._decoder is None and len(self._file) > LARGEST_HEADERS:
            raise unusable(self._name, f"no sound in its first {LARGEST_HEADERS >> 10} KiB", _REMEDY)

    def _count(self, table: bytes, body: bytes) -> None:
        """Add up what the packets that end in a page last."""
        at = 0
        for size in table:
            self._packet = (self._packet + body[at : at + min(size, 2)])[:2]
            at += size
            if size < 255:  # it ends here
                if self._headers < 2:
                    self._headers += 1
                else:
                    self._length += _length(self._packet)
                self._packet = b""

    def _decoded(self) -> Iterator[NDArray[np.float32]]:
        if self._decoder is None and self._length:
            self._decoder = self._opened()
        if (decoder := self._decoder) is None:
            return
        wanted = (self._length - self._skip) * decoder.samplerate // _OPUS_RATE - self._read
        wanted += _SPARE if self._ended else -_SPARE
        while wanted > 0:
            block = np.empty((min(wanted, _FRAMES), decoder.channels), np.float32)
            try:
                found = decoder.read(out=block)
            except soundfile.LibsndfileError:
                raise unusable(self._name, f"damaged before page {self._number}", _REMEDY) from None
            wanted -= len(found)
            self._read += len(found)
            yield found
            if len(found) < len(block):
                if not self._ended:
                    raise unusable(self._name, f"damaged before page {self._number}", _REMEDY)
                break

    def _opened(self) -> soundfile.SoundFile:
        try:
            decoder = Sequential(self._file)
        except soundfile.LibsndfileError:
            raise unusable(self._name, "Opus that can't be decoded", _REMEDY) from None
        self.sample_rate = int(decoder.samplerate)
        self._file.forgets = True
        return decoder


class _Growing(io.RawIOBase):
    """A file of which the beginning and the end are there; libsndfile looks nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.end = b""
        self.forgets = False  # whether nobody goes back any more
        self._data = bytearray()
        self._first = 0  # byte of the file that the data start with
        self._position = 0

    def __len__(self) -> int:
        return len(self._data)

    def add(self, data: bytes) -> None:
        """More of the beginning."""
        self._data += data

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Position in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a byte."""
        self._position = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: _END}[whence] + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """As much as there is in a row from the position on; zeros lie before the end."""
        view = memoryview(buffer).cast("B")
        if self._position >= _END >> 1:
            missing = max(0, _END - len(self.end) - self._position)
            data = bytes(min(missing, len(view))) or self.end[self._position - _END + len(self.end) :]
        else:
            at = self._position - self._first
            data = bytes(self._data[at : at + len(view)])
        data = data[: len(view)]
        view[: len(data)] = data
        self._position += len(data)
        if self.forgets:
            del self._data[: self._position - self._first]
            self._first = self._position
        return len(data)


def _length(packet: bytes) -> int:
    """What a packet lasts, at 48 kHz, after its first two bytes (RFC 6716, section 3.1)."""
    if not packet:
        return 0
    kind, code = packet[0] >> 3, packet[0] & 3
    frame = _SILK[kind & 3] if kind < 12 else _HYBRID[kind & 1] if kind < 16 else _CELT[kind & 3]
    return frame * (1 if not code else 2 if code < 3 else packet[1] & 63 if len(packet) > 1 else 0)


def _last_page(serial: bytes) -> bytes:
    """The last page of a recording of ten years."""
    length = 10 * 365 * 86_400 * _OPUS_RATE
    head = b"OggS\0" + bytes([_LAST]) + length.to_bytes(8, "little") + serial + b"\xff\xff\xff\x7f"
    body = b"\1\0"  # a single segment, without a byte
    return head + _checksum(head + bytes(4) + body).to_bytes(4, "little") + body


def _checksum(page: bytes) -> int:
    """Ogg's: that of zlib, but from the highest bit to the lowest, and without its inversions."""
    reflected = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
