"""Who is let in, by which name, and what is written down about it."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from prometheus_client.parser import text_string_to_metric_families

from asr.service import logs
from tests.heard import written

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.asr.service.conftest import Bare, Service

SAMPLES = Path(__file__).resolve().parents[3] / "data_manifests" / "samples"
PATH = "/v1/audio/transcriptions"
ALL, SOME, TWICE = "all-0123456789abcdef", "some-0123456789abcdef", "twice-0123456789abcdef"
KEYS = [
    {"name": "all", "key": ALL},
    {"name": "some", "key": SOME, "routes": ["/v1/commands", "/v1/phrases/lights"]},
    {"name": "twice", "key": TWICE, "routes": ["/metrics"]},
    {"name": "again", "key": TWICE, "routes": ["/v1/models"]},
]
ODD = "a\nb\r\u2028\x9b31m\x1b[0m\x7f"
OTHERS = ["/v1/models", "/v1/phrases", "/v1/phrases/a", "/metrics"]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def keyed(bare_with: Callable[..., Bare]) -> Bare:
    return bare_with(api_keys=KEYS)


def test_without_a_key_nothing_but_health_and_the_description_opens(keyed: Bare) -> None:
    for path in ("/health", "/openapi.json"):
        assert keyed.http.get(path).status_code == 200
    for path in (*OTHERS, "/nothing", "/health/", "/healthy", "/docs/x", "/openapi.json/x", "/page"):
        answer = keyed.http.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        error = answer.json()["error"]
        assert (error["code"], error["type"]) == ("invalid_api_key", "invalid_request_error")
    for path in ("//health", "/health/../v1/models", "/page/../v1/models", "/page/%2e%2e/v1/models", "/docs%00"):
        assert keyed.raw("GET", path)[0] in (401, 404), path
    assert keyed.http.post(PATH, files={"file": b"x"}).status_code == 401
    assert keyed.http.put("/v1/phrases/a", content=b"yes").status_code == 401
    assert keyed.http.delete("/v1/phrases/a").status_code == 401
    assert keyed.pool.sounds == []


@pytest.mark.parametrize(
    "value",
    [
        "", "Bearer", "Bearer ", f"Bearer {ALL}x", f"Bearer {ALL[:-1]}", f"Bearer  {ALL}", f"Basic {ALL}", ALL,
        "Bearer \xff", f"Bearer {ALL.upper()}", f"Bearer {ALL} {SOME}", "Bearer **********",
    ],
)  # fmt: skip
def test_wrong_keys_open_nothing(keyed: Bare, value: str) -> None:
    status, _, text = keyed.raw("GET", "/v1/models", Authorization=value)
    assert status == 401
    assert ALL not in text.decode()


def test_a_key_opens_all_or_its_routes_and_what_is_below(keyed: Bare) -> None:
    for path in ("/v1/models", "/v1/phrases", "/metrics"):
        assert keyed.http.get(path, headers=bearer(ALL)).status_code == 200
        assert keyed.http.get(path, headers=bearer(SOME)).status_code == 403
    assert keyed.raw("GET", "/v1/models", Authorization=f"bearer {ALL}")[0] == 200
    assert keyed.http.post("/v1/commands", files={"file": b"x"}, headers=bearer(SOME)).status_code == 400
    assert keyed.http.get("/v1/phrases/lights", headers=bearer(SOME)).status_code == 404
    for path in ("/v1/phrases/lights2", "/v1/phrases/light", "/v1/commandsother", "/v1", "/V1/commands",
                 "/v1/commands/../models", "/v1/commands/%2e%2e/models", "/v1/commands//../models",
                 "/v1/phrases/lights/../kitchen", "/v1/phrases/lights%2f..%2fkitchen"):  # fmt: skip
        status, _, _ = keyed.raw("GET", path, **bearer(SOME))
        assert status in (403, 404), path
    # One key may have several entries
    assert keyed.http.get("/metrics", headers=bearer(TWICE)).status_code == 200
    assert keyed.http.get("/v1/models", headers=bearer(TWICE)).status_code == 200
    assert keyed.http.get("/v1/phrases", headers=bearer(TWICE)).status_code == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "localhost:99", "LOCALHOST", "[::1]", "[::1]:8765", "127.0.0.1:1"]
)
def test_own_names_are_answered(bare: Bare, host: str) -> None:
    assert bare.raw("GET", "/health", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    ["example.com", "", "localhost.example.com", "127.0.0.1.example.com:80", "::1x", "[::2]", "localhost@x", "a:b:c"],
)
def test_other_names_are_not_at_a_loopback_address(bare: Bare, host: str) -> None:
    status, _, text = bare.raw("GET", "/health", Host=host)
    assert status in (400, 403)
    assert status == 400 or json.loads(text)["error"]["code"] == "forbidden"


def test_allowed_hosts_are_those_that_are_allowed(bare_with: Callable[..., Bare]) -> None:
    bare = bare_with(allowed_hosts=["Voice.Example"])
    for host, status in (("voice.example", 200), ("VOICE.example:443", 200), ("127.0.0.1", 200), ("localhost", 403),
                         ("x.voice.example", 403)):  # fmt: skip
        assert bare.raw("GET", "/health", Host=host)[0] == status
    assert bare_with(host="192.0.2.1").raw("GET", "/health", Host="any.example")[0] == 200


def test_pages_of_other_sites_are_refused(bare: Bare) -> None:
    own = bare.url
    for origin, status in ((own, 200), (own.replace("http:", "https:"), 200), ("http://example.com", 403),
                           ("null", 403), ("", 403), (own + "0", 403), ("http://127.0.0.1", 403)):  # fmt: skip
        assert bare.raw("GET", "/health", Origin=origin)[0] == status, origin
    assert bare.http.post(PATH, files={"file": b"x"}, headers={"Origin": "http://example.com"}).status_code == 403
    assert bare.pool.sounds == []


@pytest.mark.parametrize("given", ["a", "0123-abc_DEF.9", "x" * 64])
def test_a_request_id_is_taken_over(bare: Bare, given: str) -> None:
    assert bare.http.get("/health", headers={"X-Request-ID": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "ä", "a;b", "<script>", '"'])
def test_or_one_is_invented(bare: Bare, given: str) -> None:
    found = {bare.raw("GET", "/health", **{"X-Request-ID": given})[1]["x-request-id"] for _ in range(2)}
    assert len(found) == 2
    assert all(re.fullmatch(r"[0-9a-f]{32}", each) for each in found)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200), ("GET", "/nothing", 404), ("DELETE", "/v1/models", 405), ("POST", PATH, 400),
        ("GET", "/v1/models/x", 404), ("PUT", "/v1/phrases/UPPER", 400), ("PATCH", "/v1/phrases/a", 405),
    ],
)  # fmt: skip
def test_every_answer_has_its_headers_and_its_shape(bare: Bare, method: str, path: str, status: int) -> None:
    answer = bare.http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-request-id"]
    assert "server" not in answer.headers or answer.headers["server"] == "uvicorn"  # the one of these tests
    if status >= 400:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_a_fault_of_the_service_is_an_answer_without_details(bare: Bare, caplog: pytest.LogCaptureFixture) -> None:
    bare.pool.refuses_sound = ZeroDivisionError("the secret of /srv/somewhere")
    answer = bare.http.post(PATH, files={"file": b"x"})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "server_error"
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"]
    assert any(record.exc_info and "secret" in str(record.exc_info[1]) for record in caplog.records)
    bare.pool.refuses_sound = OSError(28, "No space left on device", "/srv/somewhere")
    answer = bare.http.post(PATH, files={"file": b"x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk_full")
    assert "/srv" not in answer.text
    assert bare.left == []


def test_no_more_requests_are_received_at_once_than_may_be(bare_with: Callable[..., Bare]) -> None:
    bare = bare_with(max_uploads=1)
    begun, go = threading.Event(), threading.Event()

    def slow() -> Any:
        yield b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
        begun.set()
        go.wait(30)
        yield b"x\r\n--b--\r\n"

    answers: list[int] = []
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    first = threading.Thread(target=lambda: answers.append(bare.raw("POST", PATH, slow(), **headers)[0]))
    first.start()
    begun.wait(30)
    refused = None
    for _ in range(200):
        refused = bare.http.post(PATH, files={"file": b"x"})
        if refused.status_code == 503:
            break
    assert refused is not None
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert bare.http.get("/v1/models").status_code == 200  # what brings no body isn't counted
    go.set()
    first.join()
    assert answers == [200]
    assert bare.http.post(PATH, files={"file": b"x"}).status_code == 200


def test_a_line_of_log_is_a_line_of_json_whatever_a_client_sends() -> None:
    record = logging.makeLogRecord(
        {
            "name": "cepstra.x",
            "levelname": "INFO",
            "msg": ODD,
            "path": "/\ud800\x85é",
            "odd": object(),
        }
    )
    line = logs.JsonLines().format(record)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    fields = json.loads(line)
    assert fields["message"] == ODD
    assert fields["path"] == "/\ud800\x85é"
    assert set(fields) == {"time", "level", "logger", "message", "path", "odd"}


# --- The service itself


def silence(seconds: int) -> bytes:
    data = io.BytesIO()
    soundfile.write(data, np.zeros(16000 * seconds), 16000, format="WAV")
    return data.getvalue()


def figures(text: str) -> dict[tuple[str, ...], float]:
    """Of an exposition: ("name_total", "label=value", …) -> value."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_add_up_and_logs_keep_secrets(service_with: Callable[..., Service], tmp_path: Path) -> None:
    lights = SAMPLES.parent / "phrases" / "lights.yaml"
    service = service_with(api_keys=KEYS, phrases=[str(lights)], state=str(tmp_path / "state"), max_seconds=12)
    http, key = service.http, bearer(ALL)

    def now() -> dict[tuple[str, ...], float]:
        answer = http.get("/metrics", headers=key)
        assert answer.headers["content-type"].startswith("text/plain; version=")
        return figures(answer.text)

    before = now()
    microwave = SAMPLES / "please_turn_off_the_microwave.wav"

    def post(path: str, data: bytes = microwave.read_bytes(), **fields: str) -> dict[str, Any]:
        answer = http.post(path, files={"file": ("private-name.wav", data)}, data=fields, headers=key)
        found: dict[str, Any] = answer.json()
        return found

    assert "microwa" in post(PATH, prompt="marmalade")["text"]
    assert post(PATH)["text"]
    assert post("/v1/commands", threshold="0.9")["rejected"] == "unknown-command"
    assert post(PATH, silence(3))["text"] == ""
    assert post(PATH, b"no sound at all")["error"]["code"] == "invalid_audio"
    long = post(PATH, silence(13))["error"]
    assert long["code"] == "too_large"
    assert long["message"] == "file: 13.00 s long, above the limit of 12 s; send it in parts"
    assert http.get("/v1/models", headers=bearer("wrong-" + ALL)).status_code == 401
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    assert http.post(PATH, content=b"--x damaged", headers=key | kind).status_code == 400
    assert http.get("/secret-path", headers=key).status_code == 404
    after = now()

    def more(*name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    route = f"route={PATH}"
    assert more("cepstra_requests_total", route, "status=200") == 3
    assert more("cepstra_requests_total", route, "status=400") == 2
    assert more("cepstra_requests_total", route, "status=413") == 1
    assert more("cepstra_requests_total", "route=/v1/commands", "status=200") == 1
    assert more("cepstra_requests_total", "route=other", "status=401") == 1
    assert more("cepstra_requests_total", "route=other", "status=404") == 1
    assert more("cepstra_requests_total", "route=/metrics", "status=200") == 1  # the one before
    assert more("cepstra_audio_seconds_total") == pytest.approx(3 * 2.438 + 3.0, abs=0.01)
    assert more("cepstra_rejected_total", "reason=no-speech") == 1
    assert more("cepstra_rejected_total", "reason=unknown-command") == 1
    assert more("cepstra_stage_seconds_count", "stage=request") == 10
    assert more("cepstra_stage_seconds_count", "stage=upload") == 6
    assert more("cepstra_stage_seconds_count", "stage=decode") >= 4
    assert after["cepstra_workers",] == 1
    assert after["cepstra_waiting",] == after["cepstra_working",] == 0
    wrong = {name[1]: count for name, count in after.items() if name[0] == "cepstra_errors_total" and count}
    codes = {"invalid_audio": 1, "too_large": 1, "invalid_api_key": 1, "invalid_request": 1, "not_found": 1}
    assert wrong == {f"code={code}": count for code, count in codes.items()}
    assert service.left == []
    service.stop()
    text = "\n".join(service.lines)
    for secret in (ALL, SOME, written(microwave.stem), "microwa", "marmalade", "private-name", "Traceback"):
        assert secret not in text
    lines = service.log
    shown = lines[0]["settings"]
    assert [entry["name"] for entry in shown["api_keys"]] == ["all", "some", "twice", "again"]
    assert all(set(entry["key"]) == {"*"} for entry in shown["api_keys"])
    answered = [line for line in lines if line["logger"] == "cepstra.access"]
    assert {line["key"] for line in answered if line["status"] != 401} == {"all"}
    assert {line["path"] for line in answered if line["status"] == 200} == {PATH, "/v1/commands", "/metrics"}
    assert len({line["request"] for line in answered}) == len(answered)
    heard = {line["request"] for line in lines if line["message"] == "transcribed"}
    assert heard == {
        line["request"] for line in answered if line["path"] in (PATH, "/v1/commands") and "code" not in line
    }


def test_what_is_said_is_logged_where_that_is_wanted(
    service_with: Callable[..., Service],
) -> None:
    service = service_with(log_text=True, environment={"CEPSTRA_SERVE_MAX_WAITING": "3"})
    file = SAMPLES / "please_turn_off_the_microwave.wav"
    assert service.http.post(PATH, files={"file": file.read_bytes()}).status_code == 200
    service.stop()
    (line,) = [line for line in service.log if line["message"] == "transcribed"]
    assert line["text"] == written(file.stem)
    assert service.log[0]["settings"]["max_waiting"] == 3


def test_two_hosts_are_none(bare: Bare) -> None:
    with socket.create_connection(("127.0.0.1", int(bare.url.rpartition(":")[2])), timeout=20) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: example.com\r\nConnection: close\r\n\r\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 400 ")
