"""SHA-256 for what every start reads, from Python's own modules: hashlib would load OpenSSL, 3.4 MB of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    class _Hash(Protocol):
        def hexdigest(self) -> str: ...


def _own() -> Callable[[bytes], _Hash]:
    for name in ("_sha2", "_sha256"):  # from Python 3.12 on, and before
        try:
            function: Callable[[bytes], _Hash] = __import__(name).sha256
        except ImportError:  # where Python was built without them
            continue
        return function
    import hashlib  # noqa: PLC0415

    return hashlib.sha256


_sha256 = _own()


def sha256(data: bytes) -> str:
    """The digest of data in hexadecimal (FIPS 180-4)."""
    return _sha256(data).hexdigest()
