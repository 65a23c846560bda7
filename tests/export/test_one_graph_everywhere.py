"""The one graph where there is no Cepstra: Python, Node, a browser and C, as docs/onnx.md and its examples say."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort
import pytest
import soundfile
from playwright.sync_api import expect, sync_playwright

from asr.recognizer import DEFAULT_BUNDLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SPOKEN, TEXT = (
    ROOT / "data_manifests" / "samples" / "five_five_two_eight_five.wav",
    "five five two eight five",
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
# Modules that don't exist for what is run: the project itself, and what it needs beyond the three that the page names
ALONE = """
import runpy, sys
for name in ("asr", "audio", "export", "onnx", "torch", "tokenizers", "soxr"):
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in command], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_pages_python_runs_without_cepstra(shipped_graph: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 20
    (tmp_path / "transcribe.py").write_text(block, encoding="utf-8")
    run = _run(sys.executable, "-c", ALONE, "transcribe.py", shipped_graph, SPOKEN, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"{TEXT}\n"
    assert re.fullmatch(r"confidence [01]\.\d\d, score -\d\.\d{3}\n", run.stderr)


@pytest.mark.parametrize("name", ["onnx.md", "examples/browser/README.md"])
def test_the_pages_commands_make_the_graph(name: str, tmp_path: Path) -> None:
    shutil.copy(DEFAULT_BUNDLE, tmp_path / "my.cepstra")
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    commands = re.findall(r"^    cepstra (.*)$", page, re.MULTILINE)
    assert commands
    for command in commands:
        line = f"{sys.executable} -c 'from asr.cli import main; main()' {command}"
        run = _run("bash", "-c", line, folder=tmp_path)
        assert run.returncode == 0, run.stderr
    assert ort.InferenceSession(tmp_path / "model.onnx").get_inputs()[0].name == "samples"


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """node_modules with onnxruntime-web, fetched once for all tests."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("no npm here (Debian: apt-get install nodejs npm)")
    folder = tmp_path_factory.mktemp("npm")
    shutil.copy(EXAMPLES / "browser" / "package.json", folder)
    try:
        run = _run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder)
    except subprocess.TimeoutExpired:
        pytest.skip("npm gave no answer in five minutes")
    if run.returncode:
        pytest.skip(f"npm can't fetch onnxruntime-web: {run.stderr.strip().splitlines()[-1:]}")
    return folder / "node_modules"


def test_node_writes_the_text(shipped_graph: Path, modules: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "node" / "transcribe.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    run = _run("node", "transcribe.mjs", shipped_graph, SPOKEN, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"{TEXT}\n"
    assert re.search(r"\d+ tokens, confidence [01]\.\d\d", run.stderr)


@pytest.mark.parametrize(
    ("rate", "channels", "kind"),
    [(48000, 1, "PCM_16"), (16000, 2, "PCM_16"), (16000, 1, "FLOAT"), (16000, 1, "PCM_24")],
)
def test_node_refuses_sound_that_it_would_misread(  # noqa: PLR0917  what pytest hands over
    shipped_graph: Path, modules: Path, tmp_path: Path, rate: int, channels: int, kind: str
) -> None:
    shutil.copy(EXAMPLES / "node" / "transcribe.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    soundfile.write(tmp_path / "other.wav", np.zeros((rate, channels)), rate, subtype=kind)
    run = _run("node", "transcribe.mjs", shipped_graph, "other.wav", folder=tmp_path)
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.startswith(f"other.wav: {channels} channel(s) of ")
    assert run.stderr.endswith("convert it to 16-bit mono PCM at 16000 Hz\n")


def test_node_says_what_it_wants(shipped_graph: Path, modules: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "node" / "transcribe.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    for arguments, told in (((), "usage: "), ((shipped_graph, "none.wav"), "none.wav: can't be read")):
        run = _run("node", "transcribe.mjs", *arguments, folder=tmp_path)
        assert run.returncode == 1
        assert run.stderr.startswith(told)
        assert run.stderr.count("\n") == 1


@pytest.fixture
def page(shipped_graph: Path, modules: Path, tmp_path: Path) -> Iterator[Page]:
    """The example's page, loaded and then offline, whose microphone hears SPOKEN; nothing may have gone wrong in it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    folder = tmp_path / "browser"
    shutil.copytree(EXAMPLES / "browser", folder, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "node_modules").symlink_to(modules)
    (folder / "model.onnx").symlink_to(shipped_graph)
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    base, faults = f"http://127.0.0.1:{server.server_port}/", []
    arguments = [
        "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={SPOKEN}%noloop",
    ]  # fmt: skip
    try:
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
            context = chromium.new_context()
            context.set_default_timeout(60_000)
            opened = context.new_page()
            opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
            opened.on("pageerror", lambda error: faults.append(str(error)))
            opened.on("request", lambda asked: faults.append(asked.url) if not asked.url.startswith(base) else None)
            opened.goto(base)
            opened.wait_for_selector("body[data-ready]")
            context.set_offline(True)
            yield opened
            chromium.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert [fault for fault in faults if not fault.startswith(("blob:", "data:"))] == []


def test_a_browser_writes_what_a_file_holds(page: Page, tmp_path: Path) -> None:
    page.set_input_files("#file", SPOKEN)
    expect(page.locator("#text")).to_have_text(TEXT, timeout=60_000)
    expect(page.locator("#status")).to_contain_text(re.compile(r"2\.1 s of sound in \d+ ms, confidence [01]\.\d\d"))
    other = tmp_path / "no.wav"
    other.write_bytes(b"RIFF, it says")
    page.set_input_files("#file", other)
    expect(page.locator("#status")).to_contain_text("no sound that this browser can read")


def test_a_browser_writes_what_its_microphone_hears(page: Page) -> None:
    record = page.get_by_role("button", name="Record")
    record.click()
    expect(page.locator("#status")).to_have_text("listening …")
    page.wait_for_timeout(3500)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#text")).to_have_text(TEXT, timeout=60_000)
    expect(page.get_by_role("button", name="Record")).to_be_visible()


@pytest.fixture
def transcribe(tmp_path: Path) -> Path:
    """The C example, compiled against the library of ONNX Runtime's Python package."""
    if COMPILER is None:
        pytest.skip("no C compiler here (Debian: apt-get install gcc)")
    library = next((Path(ort.__file__).parent / "capi").glob("libonnxruntime.so.1*"), None)
    if library is None:
        pytest.skip("this onnxruntime has no shared library of its own")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (tmp_path / name).symlink_to(library)
    run = _run(
        COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I", Path(__file__).parent / "standin",
        EXAMPLES / "c" / "transcribe.c", "-o", "transcribe", "-L.", "-lonnxruntime", f"-Wl,-rpath,{tmp_path}",
        folder=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return tmp_path / "transcribe"


def test_c_writes_the_text(transcribe: Path, shipped_graph: Path, tmp_path: Path) -> None:
    run = _run(transcribe, shipped_graph, SPOKEN, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"{TEXT}\n"
    assert re.fullmatch(r"\d+ tokens, score -\d\.\d{3}\n", run.stderr)


def test_c_says_what_is_wrong(transcribe: Path, shipped_graph: Path, tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound, this")
    cases: tuple[tuple[list[str | Path], str], ...] = (
        ([shipped_graph, "text.wav"], "text.wav: no WAV file"),
        ([shipped_graph, "gone.wav"], "gone.wav: no WAV file"),
        (["gone.onnx", SPOKEN], "onnxruntime: "),
        ([], "usage: "),
    )
    for arguments, told in cases:
        run = _run(transcribe, *arguments, folder=tmp_path)
        assert run.returncode > 0
        assert told in run.stderr
