"""Multipart forms, byte by byte."""

from __future__ import annotations


def form(*parts: bytes, boundary: str = "b", end: bool = True) -> tuple[bytes, dict[str, str]]:
    """A body of parts as they are, and its header."""
    body = b"".join(b"--" + boundary.encode() + b"\r\n" + part + b"\r\n" for part in parts)
    body += b"--" + boundary.encode() + b"--\r\n" if end else b""
    return body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def part(disposition: str, data: bytes = b"x", more: bytes = b"") -> bytes:
    return b"Content-Disposition: " + disposition.encode() + b"\r\n" + more + b"\r\n" + data
