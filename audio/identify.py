"""What a file is, from its first bytes, whatever its name says: only what is known to be sound goes to a decoder."""

from __future__ import annotations

from typing import NoReturn

from audio.sources import CONVERT, unusable

_SOUND = (  # (offset, bytes there): what libsndfile reads
    (0, b"fLaC"),
    (0, b"OggS"),
    (0, b"ID3"),
    (8, b"AIFF"),
    (8, b"AIFC"),
    (8, b"8SVX"),
    (8, b"16SV"),
    (0, b".snd"),
    (0, b"caff"),
    (0, b"riff\x2e\x91\xcf\x11"),  # Wave64
    (0, b"NIST_1A"),
    (0, b"Creative Voice File"),
)
_OTHER_SOUND = (  # containers and codecs that libsndfile doesn't read
    (0, b"#!AMR", "AMR sound"),
    (0, b"wvpk", "WavPack sound"),
    (0, b"MAC ", "Monkey's Audio sound"),
    (0, b"TTA1", "True Audio sound"),
    (0, b"DSD ", "DSD sound"),
    (0, b"\x0b\x77", "AC-3 sound"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "a Windows Media file (WMA, WMV)"),
    (4, b"ftypM4A", "an MPEG-4 sound file (M4A)"),
    (4, b"ftypM4B", "an MPEG-4 sound file (M4B)"),
    (4, b"ftyp", "an MPEG-4 or QuickTime file (video, or AAC sound)"),
    (4, b"moov", "a QuickTime file (video, or AAC sound)"),
    (0, b"\x1a\x45\xdf\xa3", "a Matroska or WebM file (usually video)"),
    (8, b"AVI ", "an AVI video"),
    (0, b"FLV\x01", "a Flash video"),
    (0, b"\x00\x00\x01\xba", "an MPEG video"),
    (0, b"\x00\x00\x01\xb3", "an MPEG video"),
)
_NO_SOUND = (
    (0, b"\x89PNG", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
    (0, b"GIF8", "a GIF picture"),
    (8, b"WEBP", "a WebP picture"),
    (0, b"II*\x00", "a TIFF picture"),
    (0, b"MM\x00*", "a TIFF picture"),
    (0, b"%PDF", "a PDF document"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ", "an xz archive"),
    (0, b"7z\xbc\xaf", "a 7z archive"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x7fELF", "a program"),
    (0, b"MThd", "MIDI notes, which hold no sound"),
    (0, b"\x93NUMPY", "a numpy array"),
    (0, b"SQLite format 3", "a database"),
)


def is_wave(head: bytes) -> bool:
    """Whether a file begins as WAV does, in any of its containers."""
    return head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64") and head[8:12] == b"WAVE"


def is_other_sound(head: bytes) -> bool:
    """Whether a file begins as one of the other formats do that can be read."""
    return any(head.startswith(magic, at) for at, magic in _SOUND) or _is_mpeg_frame(head)


def refuse(head: bytes, name: str) -> NoReturn:
    """Raise the AudioError that says what the file is instead of a sound file."""
    for at, magic, what in _OTHER_SOUND:
        if head.startswith(magic, at):
            raise unusable(name, f"{what}, which can't be read here", CONVERT)
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        raise unusable(name, "AAC sound, which can't be read here", CONVERT)
    if head.startswith(b"version https://git-lfs"):
        raise unusable(name, "not the sound itself but a Git LFS pointer to it", "fetch it: git lfs pull")
    for at, magic, what in _NO_SOUND:
        if head.startswith(magic, at):
            raise unusable(name, f"not sound but {what}", "give a sound file")
    if len(head) < 12 and head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64", b"FORM"):
        raise unusable(name, "damaged: cut off within its header", "record or copy it again")
    text = _text(head)
    if text:
        raise unusable(name, f"not sound but {text}", "give a sound file")
    fault = "not a sound file, or of an unknown kind" if any(head) else "not a sound file: it begins with zeros"
    raise unusable(name, fault, "give WAV, FLAC, Ogg or MP3; samples without a header need their format stated")


def _is_mpeg_frame(head: bytes) -> bool:
    """Whether a file begins with an MPEG layer 2 or 3 frame header (ISO 11172-3) whose fields are all valid."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    version, layer, bit_rate, sample_rate = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 4, head[2] >> 2 & 3
    return version != 1 and layer in (1, 2) and 0 < bit_rate < 15 and sample_rate != 3


def _text(head: bytes) -> str | None:
    """What kind of text this is, if it is text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text (UTF-16)"
    try:
        text = head[: len(head) - 3].decode() + head[len(head) - 3 :].decode(errors="ignore")  # a letter may be cut
    except UnicodeDecodeError:
        return None
    if not text or any(not (letter.isprintable() or letter in "\t\r\n\f\ufeff") for letter in text):
        return None
    start = text.lstrip("\ufeff \t\r\n").lower()
    if start.startswith(("<!doctype html", "<html")):
        return "an HTML page (a download that failed?)"
    if start.startswith(("<?xml", "<svg")):
        return "XML text"
    return "text"
