"""Whether a file that libsndfile reads is cut short, where its container tells; libsndfile says nothing of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from audio.sources import Window

_PAGE: Final = 1 << 16  # bytes; no page of Ogg is longer
_LAST: Final = 4  # the flag of a stream's last page
_UNKNOWN: Final = 0x7FFFFF00  # sizes from here on, and 0, are those of recorders that couldn't go back to write them
_PADDING: Final = 8  # bytes that writers may leave out at the end, though they count them
_SAMPLE_COUNT: Final = re.compile(rb"sample_count -i (\d{1,18})\b")


def cut_short(window: Window, container: str, frames: int | None) -> str | None:
    """A warning, where the file ends before its container says; None where it doesn't, or nothing tells.

    container: libsndfile's name of it. frames: that it found.
    """
    if container == "OGG":
        return None if _ends_with_a_last_page(window) else (
            "it ends without the page that is marked as the last, so it was cut short; read what is there"
        )  # fmt: skip
    head = window.at(0, 1024)
    promised = 0
    if container == "AIFF":
        promised = 8 + _whole(int.from_bytes(head[4:8], "big"))
    elif container == "AU":
        promised = int.from_bytes(head[4:8], "big") + _whole(int.from_bytes(head[8:12], "big"))
    elif container == "W64":
        promised = _whole(int.from_bytes(head[16:24], "little"), 1 << 62)
    elif container == "NIST" and (found := _SAMPLE_COUNT.search(head)) and frames is not None:
        count = int(found[1])
        return None if count <= frames else (
            f"its header promises {count} samples, {frames} are there; read what is there"
        )  # fmt: skip
    if promised - window.size > _PADDING:
        return f"its header promises {promised} bytes, {window.size} are there; read what is there"
    return None


def _whole(size: int, unknown: int = _UNKNOWN) -> int:
    """A size that a header states; 0 where it is none."""
    return 0 if size >= unknown else size


def _ends_with_a_last_page(window: Window) -> bool:
    """Whether the last whole page of Ogg ends a stream (RFC 3533); what lies behind it is no page."""
    tail = window.at(max(0, window.size - _PAGE), _PAGE)
    at = tail.rfind(b"OggS\0")
    while at >= 0:
        table = tail[at + 27 : at + 27 + tail[at + 26]] if at + 27 <= len(tail) else b""
        if table and len(table) == tail[at + 26] and at + 27 + len(table) + sum(table) <= len(tail):
            return bool(tail[at + 5] & _LAST)
        at = tail.rfind(b"OggS\0", 0, at)
    return False
