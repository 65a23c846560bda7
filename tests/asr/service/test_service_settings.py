"""Where settings come from, and what is said of those that don't fit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from asr.cli.commands import app as cli
from asr.errors import ConfigError
from asr.service.app import create_app
from asr.service.settings import Settings, load

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "service.md"
KEY = "0123456789abcdef"


def written(folder: Path, text: str) -> Path:
    file = folder / "serve.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_each_source_overrides_those_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "host: 127.0.0.2\nworkers: 2\nbeam: 2\nmax_seconds: 30\n")
    monkeypatch.setenv("CEPSTRA_SERVE_BEAM", "3")
    monkeypatch.setenv("CEPSTRA_SERVE_WORKERS", "3")
    monkeypatch.setenv("CEPSTRA_SERVE_API_KEYS", f'[{{"name": "a", "key": "{KEY}"}}]')
    settings = load(file, {"workers": 4})
    assert (settings.host, settings.workers, settings.beam, settings.port) == ("127.0.0.2", 4, 3, 8765)
    assert settings.max_seconds == 30
    (key,) = settings.api_keys
    assert (key.name, key.key.get_secret_value(), key.routes) == ("a", KEY, ("/",))
    assert load(None, {}).beam == 3
    monkeypatch.setenv("CEPSTRA_SERVE_WYOMING", "null")
    assert load(None, {}).wyoming is None


@pytest.mark.parametrize("name", ["CEPSTRA_SERVE_WORKRS", "cepstra_serve_workrs", "Cepstra_Serve_Workrs"])
def test_unknown_names_of_the_environment_are_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match=rf"{name}: unknown setting; did you mean workers\?"):
        load(None, {})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("workrs: 1", r"serve\.yaml: unknown setting workrs; did you mean workers\?"),
        ("zzzzzz: 1", r"unknown setting zzzzzz; there are host, port,"),
        ("1: 1", "unknown setting 1"),
        ("port: many", "setting port: 'many' is not a whole number"),
        ("port: 65536", "port: 65536: .*less than or equal to 65535"),
        ("max_seconds: .inf", "max_seconds: inf"),
        ("stop_seconds: .inf", "stop_seconds: inf"),
        ("idle_seconds: .nan", "idle_seconds: nan"),
        ("answer_seconds: 1.0e+300", "answer_seconds: .*less than or equal"),
        ("workers: -1", "workers: -1"),
        ("phrases: 3", "phrases: 3 is not a list"),
        ("log_text: perhaps", "log_text: 'perhaps' is neither true nor false"),
        ("- 1", "holds no settings"),
        ("a: [", "not YAML"),
        ("api_keys: [{name: a, key: short-secret}]", "api_keys.0.key: must have 16 ASCII characters or more"),
        ("api_keys: [{name: a, key: sécret-sécret-sécret}]", "api_keys.0.key: must have 16 ASCII"),
        ("api_keys: secret", "api_keys"),
        ("api_keys: [secret]", r"api_keys\.0"),
        ("api_keys: [{name: a, kay: secret}]", r"api_keys\.0"),
        ("api_keys: [{key: secret-secret-secret}]", r"api_keys\.0\.name"),
        (f"api_keys: [{{name: a, key: {KEY}, routes: [v1/secret]}}]", r"routes\.0: must start with /"),
    ],
)
def test_a_fault_is_one_line_that_names_it_and_shows_no_secret(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault) as caught:
        load(written(tmp_path, text), {})
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("PHRASES", "lights.yaml", r"CEPSTRA_SERVE_PHRASES: not JSON; write a list as"),
        ("API_KEYS", '[{"key": "secret', r"CEPSTRA_SERVE_API_KEYS: not JSON; write a list as"),
        ("API_KEYS", '[{"name": "a", "key": "secret"}]', r"api_keys\.0\.key: must have 16"),
        ("PORT", "many", "port: 'many' is not a whole number"),
    ],
)
def test_so_is_one_of_the_environment(monkeypatch: pytest.MonkeyPatch, name: str, value: str, fault: str) -> None:
    monkeypatch.setenv(f"CEPSTRA_SERVE_{name}", value)
    with pytest.raises(ConfigError, match=fault) as caught:
        load(None, {})
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_no_secret_is_shown() -> None:
    settings = load(None, {"api_keys": [{"name": "a", "key": KEY}]})
    for shown in (settings.shown(), settings, repr(settings), settings.model_dump_json(indent=1)):
        assert KEY not in str(shown)
    assert settings.shown()["api_keys"] == [{"name": "a", "key": "**********", "routes": ["/"]}]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--config", "missing.yaml"], "missing.yaml: can't be read"),
        (["--phrases", "missing.yaml", "--port", "0"], "missing.yaml: can't be read"),
        (["--model", "missing.cepstra", "--port", "0"], "missing.cepstra: can't be read"),
        (["--host", "no.such.host.invalid", "--port", "0"], "no.such.host.invalid:0: can't be listened at"),
        (["--host", "192.0.2.1", "--port", "0"], "192.0.2.1:0: can't be listened at"),
    ],
)
def test_the_command_says_in_one_line_why_it_does_not_start(arguments: list[str], fault: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "asr", "serve", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert fault in last
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("lights on\n(lights off\n", "2:1: '(' is never closed"),
        ("lights on\n光 on\n", "2:1: the model has no letters"),
    ],
    ids=["read", "compiled"],
)
def test_a_faulty_phrase_file_of_the_start_is_named_with_its_place(tmp_path: Path, content: str, fault: str) -> None:
    file = tmp_path / "My lights.txt"
    file.write_text(content, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "asr", "serve", "--port", "0", "--phrases", file],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(f"cepstra: {file}:{fault}")


def test_every_setting_and_its_default_is_documented() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Settings\n")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE))
    assert set(rows) == set(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        assert rows[name] == _shown(field.default), name


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def test_the_help_is_short_and_names_the_rest() -> None:
    shown = CliRunner().invoke(cli, ["serve", "--help"], env={"COLUMNS": "120", "TERM": "dumb"})
    assert shown.exit_code == 0
    assert "docs/service.md" in shown.stdout
    assert len(shown.stdout.splitlines()) < 50


@pytest.mark.parametrize(
    ("route", "hint"), [("/v1/comands", "did you mean /v1/commands"), ("/nothing", "no such route as /nothing")]
)
def test_a_key_that_opens_nothing_is_refused(route: str, hint: str) -> None:
    key = {"name": "kitchen", "key": "0123456789abcdef", "routes": [route]}
    with pytest.raises(ConfigError, match=hint):
        create_app(load(None, {"api_keys": [key]}))


@pytest.mark.parametrize("route", ["/", "/v1", "/v1/phrases", "/v1/phrases/drone", "/v1/stream", "/vosk", "/metrics"])
def test_a_key_may_open_any_route_there_is(route: str) -> None:
    create_app(load(None, {"api_keys": [{"name": "kitchen", "key": "0123456789abcdef", "routes": [route]}]}))


def test_phrases_for_wyoming_want_wyoming() -> None:
    with pytest.raises(ConfigError, match="wyoming_phrases: has no effect without wyoming"):
        load(None, {"wyoming_phrases": "drone"})


def test_a_library_that_repeats_itself_is_written_once_a_second() -> None:
    program = (
        "import logging; from asr.service import logs; logs.install(); asyncio = logging.getLogger('asyncio')\n"
        "for _ in range(1000): asyncio.error('out of descriptors')\n"
        "asyncio.error('something else')"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stderr
    lines = [json.loads(line)["message"] for line in told.splitlines()]
    assert 2 <= len(lines) <= 10
    assert (lines[0], lines[-1]) == ("out of descriptors", "something else")


def test_a_file_that_is_no_yaml_is_told_where(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("host: here: there\n")
    with pytest.raises(ConfigError, match=r"serve\.yaml: not YAML: .* at line 1, column 11"):
        load(file, {})
