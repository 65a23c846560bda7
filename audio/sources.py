"""Where sound comes from: a path, bytes, an open file or standard input, made into one seekable window.

Nothing here looks at what the bytes mean. A pipe is copied, up to a bound, into memory and beyond that onto disk.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from audio.errors import AudioError, TooLongError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import WriteableBuffer

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO

CONVERT = "convert it: ffmpeg -i FILE -vn -c:a pcm_s16le out.wav"  # the remedy for sound of a kind that can't be read
FIFO_SECONDS = 10.0  # a named pipe that stays silent for so long is given up
_HEAD = 1 << 16  # bytes of a pipe that are read before the bound for the rest is decided
_IN_MEMORY = 1 << 25  # bytes of a pipe that are kept in memory; what comes after goes to a temporary file


def unusable(name: str, fault: str, remedy: str) -> AudioError:
    """The error whose one line names the source, what is wrong with it and what to do."""
    return AudioError(f"{name}: {fault}; {remedy}")


class Window(io.RawIOBase):
    """Bytes start … start+size of a seekable stream, as a stream of their own.

    libsndfile calls it from C, where an exception would be printed and lost: a failing read ends the window instead,
    and `check` raises what went wrong.
    """

    def __init__(self, stream: BinaryIO, start: int, size: int, name: str) -> None:
        super().__init__()
        self.name = name
        self.size = size
        self._stream = stream
        self._start = start
        self._position = 0
        self._failure: str | None = None

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Position in bytes from the window's start."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a byte; positions before the start count as the start."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer as far as the window goes; 0 at its end and after a failure."""
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self.size - self._position)
        if wanted <= 0 or self._failure:
            return 0
        try:
            self._stream.seek(self._start + self._position)
            data = self._stream.read(wanted)
        except (OSError, ValueError) as error:
            self._failure = _reason(error)
            return 0
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def at(self, position: int, count: int) -> bytes:
        """Up to count bytes from a position; fewer only where the window ends."""
        self.seek(position)
        parts: list[bytes] = []
        while count > 0 and (part := self.read(count)):
            parts.append(part)
            count -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def check(self) -> None:
        """Raise AudioError where an earlier read failed."""
        if self._failure:
            raise unusable(self.name, f"can't be read ({self._failure})", "check the disk or whatever delivers it")


@contextmanager
def opened(source: Source, bound: Callable[[bytes, str], int]) -> Iterator[Window]:
    """The source as a window. A caller's own stream is neither closed nor needed afterwards.

    source: a path, the bytes of a file, a binary file object (read from where it stands) or "-", standard input.
    bound: from the first bytes of a pipe and its name, the number of bytes that may come through it; may raise.
    Raises AudioError for whatever can't be opened or is empty.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        yield _whole(io.BytesIO(data), 0, len(data), "the given bytes")
    elif isinstance(source, (str, os.PathLike)) and os.fspath(source) == "-":
        with _stream(_standard_input(), "standard input", bound) as window:
            yield window
    elif isinstance(source, (str, os.PathLike)):
        name = displayed(os.fspath(source))
        with _open(Path(source), os.fspath(source), name) as file:
            if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                with _copied(lambda count: _read_fifo(file, count, name), name, bound) as window:
                    yield window
            else:
                yield _whole(file, 0, os.fstat(file.fileno()).st_size, name)
    elif isinstance(source, io.TextIOBase):
        raise unusable(_name(source), "opened as text", 'open it with mode "rb"')
    elif hasattr(source, "read"):
        with _stream(source, _name(source), bound) as window:
            yield window
    else:
        kind = type(source).__name__
        raise unusable(f"an object of type {kind}", "not a source of sound", "give a path, bytes or a binary file")


def displayed(name: str) -> str:
    """A file name as a message can show it: on one line, and in UTF-8 whatever its bytes are."""
    text = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if text.isprintable() and text else repr(text)


def _open(path: Path, given: str, name: str) -> BinaryIO:
    """The regular file or named pipe at a path; AudioError for anything else. Never waits for the far end of a pipe."""
    try:
        descriptor = os.open(given, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        remedy = "download it first and give the path" if "://" in given else "check the name and the folder"
        raise unusable(name, "no such file", remedy) from None
    except PermissionError:
        raise unusable(name, "no permission to read it", "allow it (chmod u+r)") from None
    except (OSError, ValueError) as error:
        raise unusable(name, f"can't be opened ({_reason(error)})", "check the name") from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
        return os.fdopen(descriptor, "rb", buffering=0 if stat.S_ISFIFO(mode) else -1)
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise unusable(name, "a folder, not a sound file", f"give the files in it, for example {path / '*.wav'}")
    raise unusable(name, "a device, not a sound file", "record into a file or pipe the sound to standard input (-)")


def _standard_input() -> BinaryIO:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or stream.closed:
        raise unusable("standard input", "closed", "pipe a sound file into it")
    if stream.isatty():
        raise unusable("standard input", "a terminal, not sound", "pipe a sound file into it")
    return stream  # type: ignore[no-any-return]  # sys.stdin may be anything; getattr hides its type


@contextmanager
def _stream(stream: BinaryIO, name: str, bound: Callable[[bytes, str], int]) -> Iterator[Window]:
    """A window on a seekable stream from where it stands, or on a copy of what a pipe delivers."""
    try:
        # the least of file objects has read() and nothing else
        start = stream.tell() if hasattr(stream, "seekable") and stream.seekable() else None
        end = 0 if start is None else stream.seek(0, os.SEEK_END)
    except (OSError, ValueError) as error:
        raise unusable(name, f"can't be read ({_reason(error)})", "open it anew") from None
    if start is not None:
        yield _whole(stream, start, end - start, name)
        return
    with _copied(lambda count: _read_stream(stream, count, name), name, bound) as window:
        yield window


@contextmanager
def _copied(read: Callable[[int], bytes], name: str, bound: Callable[[bytes, str], int]) -> Iterator[Window]:
    """A window on a copy of everything that read delivers; AudioError where that is more than the bound."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as copy:
        size, limit = 0, _HEAD
        head: bytes | None = b""
        while chunk := read(_HEAD):
            _keep(copy, chunk, name)
            size += len(chunk)
            if head is not None:
                head += chunk
                if len(head) >= _HEAD:
                    limit, head = bound(head, name), None
            if size > limit and head is None:
                fault = f"longer than the limit: more than {limit / 1e6:,.1f} MB came through it"
                raise TooLongError(f"{name}: {fault}; cut it, or raise max_seconds")
        _keep(copy, b"", name)
        yield _whole(copy, 0, size, name)  # type: ignore[arg-type]  # a BinaryIO in all but name


def _keep(copy: tempfile.SpooledTemporaryFile[bytes], chunk: bytes, name: str) -> None:
    try:
        copy.write(chunk)
        if not chunk:
            copy.flush()
    except OSError as error:
        with suppress(OSError):  # which tries once more to write what it holds
            copy.close()
        where = f"no room for a copy of it in {tempfile.gettempdir()} ({_reason(error)})"
        raise unusable(name, where, "make room there, or set TMPDIR to another folder") from None


def _whole(stream: BinaryIO, start: int, size: int, name: str) -> Window:
    if size <= 0:
        where = " from where it stands on" if start else ""
        remedy = "seek to its start first" if start else "record or copy it again"
        raise unusable(name, f"empty (0 bytes{where})", remedy)
    return Window(stream, start, size, name)


def _read_stream(stream: BinaryIO, count: int, name: str) -> bytes:
    # What is there already, if the stream can: waiting for all of it in one go, it wouldn't notice Ctrl-C
    read = getattr(stream, "read1", stream.read)
    try:
        data = read(count)
    except (OSError, ValueError) as error:
        raise unusable(name, f"can't be read ({_reason(error)})", "check whatever delivers it") from None
    if data is None:
        raise unusable(name, "has no data yet, and doesn't wait for any", "open it in blocking mode")
    if not isinstance(data, bytes):
        raise unusable(name, f"delivers {type(data).__name__} instead of bytes", 'open it with mode "rb"')
    return data


def _read_fifo(file: BinaryIO, count: int, name: str) -> bytes:
    while select.select([file], [], [], FIFO_SECONDS)[0]:
        if (data := file.read(count)) is not None:  # None: somebody else emptied the pipe in between
            return data
    raise unusable(
        name, f"a pipe through which nothing came for {FIFO_SECONDS:g} s", "start its writer, or use standard input (-)"
    )


def _name(stream: object) -> str:
    name = getattr(stream, "name", None)
    return displayed(name) if isinstance(name, str) else "the given file object"


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(reason.split()) or type(error).__name__
