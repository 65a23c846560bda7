"""What comes in: as much as allowed, under any name; nothing of it stays."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
import soundfile

from asr.recognizer import DEFAULT_BUNDLE
from asr.service.errors import BusyError, TooLargeError
from asr.service.uploads import FIELD_BYTES, FORM_BYTES, MOST_FIELDS
from asr.service.work import Manner, Open, Setup, Transcribe
from asr.service.worker import Worker
from audio.errors import TooLongError
from audio.reading import read_audio
from tests.asr.service.forms import form, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.asr.service.conftest import Bare

PATH = "/v1/audio/transcriptions"
CAP = 100_000  # bytes, of `bare`


def sound(seconds: float) -> bytes:
    data = io.BytesIO()
    soundfile.write(data, np.zeros(round(16000 * seconds)), 16000, format="WAV")
    return data.getvalue()


def fault(answer: httpx.Response, status: int) -> str:
    """What is wrong, in OpenAI's shape."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == ("invalid_request_error" if status < 500 else "server_error")
    message: str = error["message"]
    assert "\n" not in message
    return message


FILE = part('form-data; name="file"; filename="a.wav"', b"sound")


def test_a_recording_as_large_as_allowed_is_taken_and_a_larger_one_is_not(bare: Bare) -> None:
    for size in (CAP - 1, CAP):
        assert bare.http.post(PATH, files={"file": b"x" * size}).status_code == 200
        assert bare.pool.sounds.pop() == b"x" * size
    assert "0.1 MB" in fault(bare.http.post(PATH, files={"file": b"x" * (CAP + 1)}), 413)
    assert bare.pool.sounds == []
    assert bare.left == []


@pytest.mark.parametrize("size", [CAP + 1, CAP + FORM_BYTES + 1000, 20 * CAP])
def test_the_cap_holds_without_a_length_too(bare: Bare, size: int) -> None:
    body, headers = form(part('form-data; name="file"; filename="a.wav"', b"x" * size))

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    def answer(*, raw: bool, content: Any) -> int:
        """413 too where the connection was closed over a client that doesn't listen before it has said all."""
        with suppress(httpx.TransportError, ConnectionError):
            if raw:
                return bare.raw("POST", PATH, content, **headers)[0]
            return bare.http.post(PATH, content=content, headers=headers).status_code
        return 413

    counted = bare.state.metrics.requests.labels(PATH, "413")._value
    before = counted.get()
    assert answer(raw=False, content=chunks()) == 413
    assert answer(raw=False, content=body) == 413
    assert answer(raw=True, content=chunks()) == 413  # Transfer-Encoding: chunked
    until(lambda: counted.get() == before + 3)
    assert bare.pool.sounds == []
    assert bare.left == []


def test_a_stated_length_above_the_cap_is_refused_before_it_comes(bare: Bare) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b", "Content-Length": str(10**12)}
    assert bare.raw("POST", PATH, None, **headers)[0] == 413


def test_chunked_transfer_by_curl(bare: Bare, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"x" * 5000)
    command = ["curl", "-sS", f"{bare.url}{PATH}", "-H", "Transfer-Encoding: chunked", "-F", f"file=@{tmp_path}/a.wav"]
    said = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
    assert json.loads(said)["text"] == "yes"
    assert bare.pool.sounds == [b"x" * 5000]


def test_the_body_of_other_requests_has_caps_as_well(bare: Bare) -> None:
    assert "larger" in fault(bare.http.put("/v1/phrases/a", content=b"x" * (1 << 20) + b"x"), 413)
    assert bare.http.put("/v1/phrases/a", content=b"yes\n" + b"#" * ((1 << 20) - 4)).status_code == 201


@pytest.fixture(scope="module")
def worker() -> Worker:
    return Worker(Setup(DEFAULT_BUNDLE, 1, 1, max_seconds=5))


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
@pytest.mark.parametrize("task", ["short", "long"])
def test_what_lasts_too_long_is_413_and_no_path(worker: Worker, tmp_path: Path, kind: str, task: str) -> None:
    file = tmp_path / "private.upload"
    for seconds, fits in ((5, True), (6, False), (11, False)):
        soundfile.write(file, np.zeros(16000 * seconds), 16000, format=kind)
        asked = Transcribe((file,), Manner()) if task == "short" else Open(file, tmp_path / "samples")
        answer = worker.answer(asked).answer
        answer = answer[0] if isinstance(answer, list) else answer
        assert isinstance(answer, TooLargeError) != fits, answer
        if not fits:
            assert (answer.status, answer.param) == (413, "file")
            assert "private" not in str(answer)


def test_so_is_what_only_decoding_shows(worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header may state less than there is, or nothing."""
    monkeypatch.setattr(worker, "_duration", lambda _sound: 1.0)
    file = tmp_path / "private.upload"
    file.write_bytes(sound(6))
    answer = worker.answer(Open(file, tmp_path / "samples")).answer
    assert isinstance(answer, TooLargeError)
    assert "private" not in str(answer)
    with pytest.raises(TooLongError, match="above the limit of 5 s"):
        read_audio(file, max_seconds=5)


@pytest.mark.parametrize("path", [PATH, "/v1/commands"])
def test_full_is_503_before_anything_is_received(bare: Bare, path: str) -> None:
    bare.pool.refuses = BusyError("too many requests wait; try again later", retry_after=7)
    answer = bare.http.post(path, files={"file": b"x"})
    assert "try again" in fault(answer, 503)
    assert answer.headers["retry-after"] == "7"


def test_fields(bare: Bare) -> None:
    def ask(*parts: bytes) -> httpx.Response:
        body, headers = form(*parts)
        return bare.http.post(PATH, content=body, headers=headers)

    def field(name: str, value: bytes) -> bytes:
        return part(f'form-data; name="{name}"', value)

    assert "file: is missing" in fault(ask(), 400)
    assert "file: is missing" in fault(ask(field("model", b"cepstra")), 400)
    assert "twice" in fault(ask(FILE, FILE), 400)
    assert "no field for a file" in fault(ask(FILE, part('form-data; name="other"; filename="b.wav"')), 400)
    assert "has no name" in fault(ask(part("form-data"), FILE), 400)
    assert "has no name" in fault(ask(part('attachment; name="file"'), FILE), 400)
    assert "has no name" in fault(ask(b"X-Other: 1\r\n\r\nx", FILE), 400)
    assert "more than 64" in fault(ask(FILE, *itertools.repeat(field("a", b"b"), MOST_FIELDS)), 400)
    assert ask(FILE, *itertools.repeat(field("a", b"b"), MOST_FIELDS - 1)).status_code == 200
    assert "64 KB" in fault(ask(field("prompt", b"x" * (FIELD_BYTES + 1)), FILE), 413)
    # The last of a field counts, what isn't known doesn't, bytes that are no text do no harm
    assert ask(FILE, field("model", b"gpt-17"), field("model", b"cepstra")).status_code == 200
    assert "'gpt-17'" in fault(ask(FILE, field("model", b"cepstra"), field("model", b"gpt-17")), 404)
    assert ask(field("x\xff", b"\xff\x00"), FILE, field("prompt", b"\xff\x00\xfe")).status_code == 200
    assert ask(part('form-data; name="file"', b"without a file name")).status_code == 200
    assert bare.pool.sounds[-1] == b"without a file name"
    assert bare.left == []


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        "",
        "a\\b.wav",
        "C:\\x.wav",
        "ä€𝄞.wav",
        "%2e%2e%2f",
        "x" * 3000,
        " ",
        "-rf",
    ],
)
def test_a_files_name_is_nothing_on_disk(bare: Bare, name: str) -> None:
    seen: list[list[str]] = []
    bare.pool.before = lambda: seen.append(bare.left)
    answer = bare.http.post(PATH, files={"file": (name, b"sound")})
    assert answer.status_code == 200
    ((only,),) = seen
    assert only.endswith(".upload")
    assert len(only) == len(".upload") + 32
    assert bare.left == []


@pytest.mark.parametrize("name", ["a\x00b", "a\rb", 'a"b', "x" * 10_000])
def test_odd_names_are_taken_or_refused_and_never_a_fault(bare: Bare, name: str) -> None:
    body, headers = form(part(f'form-data; name="file"; filename="{name}"', b"sound"))
    answer = bare.http.post(PATH, content=body, headers=headers)
    if answer.status_code != 200:
        fault(answer, 400)
    assert bare.left == []


@pytest.mark.parametrize(
    "kind",
    [
        None, "", "multipart/form-data", "multipart/form-data; boundary=", "application/json", "audio/wav",
        "multipart/mixed; boundary=b", "application/x-www-form-urlencoded", "text/plain; boundary=b",
        "multipart/form-data; boundary=" + "x" * 5000, "\xff",
    ],
)  # fmt: skip
def test_what_is_no_form_is_refused(bare: Bare, kind: str | None) -> None:
    body, _ = form(FILE)
    headers = {} if kind is None else {"Content-Type": kind}
    status, _, text = bare.raw("POST", PATH, body, **headers)
    assert status == 400
    assert "form" in json.loads(text)["error"]["message"]
    assert bare.left == []


@pytest.mark.parametrize(
    "body",
    [
        b"", b"--b", b"--b\r\n", b"--c\r\n" + FILE + b"\r\n--c--\r\n", form(FILE, end=False)[0],
        form(FILE)[0][:-4] + b"xx", b"\x00" * 1000, b"--b--\r\n"[:-4], b"--b\r\nno header\r\n\r\n\r\n--b--",
        b"\r\n" * 500, form(FILE)[0][:40],
    ],
)  # fmt: skip
def test_damaged_forms_are_refused(bare: Bare, body: bytes) -> None:
    _, headers = form()
    fault(bare.http.post(PATH, content=body, headers=headers), 400)
    assert bare.left == []


@pytest.mark.parametrize("count", [1, 50, 2000])
def test_the_headers_of_a_part_have_a_bound(bare: Bare, count: int) -> None:
    more = b"".join(b"X-%d: %s\r\n" % (number, b"y" * (10_000 // count)) for number in range(count))
    body, headers = form(part('form-data; name="file"; filename="a.wav"', more=more))
    fault(bare.http.post(PATH, content=body, headers=headers), 400)
    assert bare.left == []


@pytest.mark.parametrize(
    "data",
    [b"\r\n--b", b"--b--", b"\r\n--bb\r\n", b"\r\n--", b"\r", b"\n--b\r\n", b"\r\n\r\n--b--x"[:8], b"--b\r\n" * 3],
)
def test_sound_may_hold_what_looks_like_a_boundary(bare: Bare, data: bytes) -> None:
    body, headers = form(part('form-data; name="file"; filename="a"', data), boundary="b" * 60)
    assert bare.http.post(PATH, content=body, headers=headers).status_code == 200
    assert bare.pool.sounds == [data]


def test_an_empty_file_is_bad_sound_rather_than_no_file(bare: Bare) -> None:
    assert bare.http.post(PATH, files={"file": ("a.wav", b"")}).status_code == 200  # the stand-in takes anything
    assert bare.pool.sounds == [b""]
    assert bare.left == []


def test_a_client_that_goes_while_it_sends_leaves_nothing(bare: Bare) -> None:
    def broken() -> Iterator[bytes]:
        yield form(FILE, end=False)[0] * 2
        yield b"x" * 1000
        raise RuntimeError("the client is gone")

    body = part('form-data; name="file"; filename="a.wav"', b"x" * 1000)
    with pytest.raises(RuntimeError, match="gone"):
        bare.http.post(PATH, content=itertools.chain([b"--b\r\n" + body], broken()), headers=form()[1])
    until(lambda: not bare.left)
    assert bare.pool.sounds == []


def test_a_request_that_stops_coming_is_ended(bare_with: Callable[..., Bare]) -> None:
    bare = bare_with(idle_seconds=0.2)
    release: list[None] = []

    def slow() -> Iterator[bytes]:
        yield b"--b\r\n" + FILE
        until(lambda: bool(release) or statuses() == ["408"])
        yield b"\r\n--b--\r\n"

    def statuses() -> list[str]:
        found = bare.state.metrics.requests.collect()
        return [
            sample.labels["status"] for metric in found for sample in metric.samples if sample.name.endswith("_total")
        ]

    assert "too slowly" in fault(bare.http.post(PATH, content=slow(), headers=form()[1]), 408)
    assert bare.left == []


def until(condition: Callable[[], bool]) -> None:
    """Wait for what must become true."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
