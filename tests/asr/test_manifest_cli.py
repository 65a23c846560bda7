"""`cepstra manifest` as it is typed, with its exit codes, and every command in the documentation."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner, Result

from asr.cli.manifest import Layout, manifest_app
from asr.errors import CepstraError
from asr.manifest import read_manifest
from asr.manifest.check_settings import CODES
from asr.manifest.importers import LAYOUTS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("data_manifests/README.md", "docs/manifests.md")


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(manifest_app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit | CepstraError):
        raise result.exception
    return result


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A folder per word: 3 words by 8 speakers."""
    rng = np.random.default_rng(1)
    for word in ("yes", "no", "stop"):
        (tmp_path / "words" / word).mkdir(parents=True)
        for speaker in range(8):
            name = tmp_path / "words" / word / f"{speaker:08x}_nohash_0.wav"
            soundfile.write(name, rng.uniform(-0.5, 0.5, 8000), 8000)
    return tmp_path / "words"


def test_from_a_folder_to_splits_and_figures(words: Path, tmp_path: Path) -> None:
    manifest = words / "all.jsonl"
    result = run("import", words, "-o", manifest, "--source", "words")
    assert result.exit_code == 0
    assert result.output == f"{manifest}: 24 rows, 0.01 h, 8 speakers, read as folder-per-word\n"
    assert json.loads(manifest.read_text().splitlines()[0]) == {
        "audio_filepath": "no/00000000_nohash_0.wav",
        "duration": 1.0,
        "text": "no",
        "speaker": "00000000",
        "source": "words",
    }
    assert run("check", manifest).output == "24 rows, 0.01 h: no faults\n"

    result = run("split", manifest, "--into", "train=0.6,test=0.4", "--output-dir", tmp_path / "splits")
    assert result.exit_code == 0
    train, test = (tmp_path / "splits" / f"all.{name}.jsonl" for name in ("train", "test"))
    both = [read_manifest(train), read_manifest(test)]
    assert len(both[0]) + len(both[1]) == 24
    assert not {row.speaker for row in both[0]} & {row.speaker for row in both[1]}
    assert all(row.audio_filepath.is_file() for rows in both for row in rows)
    assert run("check", train, test).exit_code == 0

    values = json.loads(run("stats", train, test, "--json", "--plot", tmp_path / "lengths.png").output)
    assert (values["rows"], values["speakers"], values["vocabulary"]) == (24, 8, 3)
    assert values["sources"]["words"]["words"] == 24
    assert (tmp_path / "lengths.png").stat().st_size > 1000
    table = run("stats", train).output
    assert "words/row" in table
    assert "most common words: " in table


def test_faults_are_listed_and_told_by_the_exit_code(words: Path) -> None:
    manifest = words / "all.jsonl"
    run("import", words, "-o", manifest)
    rows = manifest.read_text().splitlines()
    manifest.write_text("\n".join([*rows, rows[0], rows[1].replace('"duration": 1.0', '"duration": 9.0')]))
    result = run("check", manifest)
    assert result.exit_code == 1
    warning, error, *_, summary = result.output.splitlines()
    assert warning.startswith(f"warning: {manifest}, line 25, audio_filepath: ")
    assert warning.endswith("[duplicate-row]")
    assert error.startswith(f"error: {manifest}, line 26, duration: is 9 s, but the file lasts 1.000 s: write 1.000")
    assert summary == "26 rows, 0.01 h: 1 error, 2 warnings"
    assert run("check", manifest, "--ignore", "wrong-duration").exit_code == 0  # warnings are none
    report = json.loads(run("check", manifest, "--json").output)
    assert (report["errors"], report["warnings"]) == (1, 2)
    assert {"manifest", "line", "key", "code", "problem", "remedy", "severity"} == set(report["faults"][0])
    assert json.loads(run("check", manifest, "--json", "--no-audio").output)["errors"] == 0


def test_outputs_are_replaced_without_asking(words: Path, tmp_path: Path) -> None:
    manifest = words / "all.jsonl"
    for _ in range(2):
        assert run("import", words, "-o", manifest).exit_code == 0
        assert run("split", manifest, "--output-dir", tmp_path, "--into", "train=0.5,test=0.5").exit_code == 0
        assert run("split", manifest, "--one-file", tmp_path / "one.jsonl", "--into", "train=1").exit_code == 0
        assert run("stats", manifest, "--plot", tmp_path / "lengths.png").exit_code == 0


def test_what_a_command_reads_is_never_replaced(words: Path, tmp_path: Path) -> None:
    manifest, clip, table = words / "all.jsonl", words / "yes" / "00000000_nohash_0.wav", tmp_path / "table.csv"
    run("import", words, "-o", manifest)
    table.write_text("path,text\nwords/yes/00000000_nohash_0.wav,yes\n")
    (tmp_path / "link.jsonl").symlink_to(manifest)
    attempts: list[tuple[list[str | Path], Path]] = [
        (["import", table, "--output", table], table),
        (["import", tmp_path, "--output", table], table),
        (["import", words, "--output", clip], clip),  # a recording
        (["split", manifest, "--one-file", manifest, "--into", "train=1"], manifest),
        (["split", tmp_path / "link.jsonl", "--one-file", manifest, "--into", "train=1"], manifest),
        (["stats", manifest, "--plot", manifest], manifest),
        (["stats", manifest, "--plot", clip], clip),
    ]
    for command, kept in attempts:
        before = kept.read_bytes()
        result = run(*command)
        assert str(result.exception).startswith(f"{command[2]} {kept}: ")
        assert "would be replaced; write to another file" in str(result.exception)
        assert kept.read_bytes() == before


def test_import_writes_nothing_where_rows_are_faulty_unless_told(words: Path, tmp_path: Path) -> None:
    (words / "yes" / "broken.wav").write_text("no sound")
    result = run("import", words, "-o", tmp_path / "all.jsonl")
    assert result.exit_code == 1
    assert "broken.wav" in result.output
    assert "[unreadable-audio]" in result.output
    assert "1 row can't be used" in str(result.exception)
    assert not (tmp_path / "all.jsonl").exists()
    assert run("import", words, "-o", tmp_path / "all.jsonl", "--skip-faulty").exit_code == 0
    assert len(read_manifest(tmp_path / "all.jsonl")) == 24


def test_one_file_with_splits_as_keys(words: Path, tmp_path: Path) -> None:
    run("import", words, "-o", words / "all.jsonl")
    result = run("split", words / "all.jsonl", "--one-file", tmp_path / "x.jsonl", "--into", "train=0.5,test=0.5")
    assert "x.jsonl, train: " in result.output
    assert {row.split for row in read_manifest(tmp_path / "x.jsonl")} == {"train", "test"}


def test_rows_without_a_speaker_are_mentioned(words: Path, tmp_path: Path) -> None:
    for number, file in enumerate(sorted(words.glob("*/*.wav"))):
        file.rename(file.with_name(f"{number}.wav"))
    run("import", words, "-o", tmp_path / "all.jsonl")
    result = run("split", tmp_path / "all.jsonl", "--into", "train=0.5,test=0.5")
    assert "warning: 24 rows have no speaker" in result.output


def test_rows_that_get_no_speaker_are_counted(words: Path, tmp_path: Path) -> None:
    for number, file in enumerate(sorted(words.glob("yes/*.wav"))):
        file.rename(file.with_name(f"mic1-{'ab'[number % 2]}.wav" if number < 2 else f"{number}.wav"))
    imported: list[str | Path] = ["import", words, "-o", tmp_path / "all.jsonl"]
    result = run(*imported)
    assert result.stdout.endswith("24 rows, 0.01 h, 8 speakers, read as folder-per-word\n")
    assert result.stderr.startswith("warning: 8 rows got no speaker: --speaker-pattern ")
    result = run(*imported, "--speaker-pattern", r"/mic1-(.)|/([0-9]+)\.")
    assert str(result.exception).startswith("--speaker-pattern /mic1-(.)|/([0-9]+)\\.: has 2 groups: put () around")
    result = run(*imported, "--speaker-pattern", r"/(?:mic1-)?([ab]|[0-9a]+)[._]")
    assert result.stdout.endswith("24 rows, 0.01 h, 16 speakers, read as folder-per-word\n")
    assert result.stderr == ""
    assert run(*imported, "--speaker", "ann").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["check", "m.jsonl", "--ignore", "no-sound"],
            "--ignore no-sound: no known fault: the known ones are not-json,",
        ),
        (["split", "m.jsonl", "--into", "train"], "--into: split 'train': write NAME=SHARE"),
        (["split", "m.jsonl", "--into", "a=0.5,b=0.6"], "--into: the shares of the splits sum to 1.1: make it 1"),
        (["import", "m.jsonl", "-o", "x/y.jsonl"], "--output x/y.jsonl: there is no folder x; create it first"),
        (["import", "m.csv", "-o", "y.jsonl", "--text-column", "a"], "m.csv: --text-column: no column 'a'"),
        (
            ["import", "m.csv", "-o", "y.jsonl", "--speaker-pattern", "("],
            "--speaker-pattern (: is no regular expression",
        ),
        (["stats", "m.jsonl", "--plot", "x.gif"], "--plot x.gif: no known kind of picture"),
        (["stats", "m.jsonl", "--plot", "no/x.png"], "--plot no/x.png: there is no folder no"),
    ],
)
def test_messages_name_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.jsonl").write_text('{"audio_filepath": "a.wav", "duration": 1, "text": "yes"}\n')
    Path("m.csv").write_text("path,text\na.wav,yes\n")
    result = run(*arguments)
    assert result.exit_code == 1
    assert str(result.exception).startswith(message)


def test_layouts_are_those_of_the_importers() -> None:
    assert [str(layout) for layout in Layout] == list(LAYOUTS)


def commands(document: Path) -> list[list[str]]:
    """The shell commands in a document's ```sh blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if shlex.split(line, comments=True)]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_of_the_documentation_runs(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "data_manifests" / "example", tmp_path / "data_manifests" / "example")
    monkeypatch.chdir(tmp_path)
    found = commands(ROOT / document)
    assert found
    for program, group, *arguments in found:
        assert (program, group) == ("cepstra", "manifest")
        result = run(*arguments)
        assert (result.exit_code, result.exception) == (0, None), f"{arguments}: {result.output}"


def test_the_rows_that_the_documentation_shows_are_those_of_the_example() -> None:
    shown = re.findall(r"```json\n(.*?)```", (ROOT / DOCUMENTS[0]).read_text(encoding="utf-8"), re.DOTALL)
    example = (ROOT / "data_manifests" / "example" / "commands.jsonl").read_text(encoding="utf-8").splitlines()
    assert shown
    assert all(line in example for block in shown for line in block.splitlines())


def test_the_documentation_lists_every_fault() -> None:
    text = (ROOT / DOCUMENTS[1]).read_text(encoding="utf-8")
    assert set(CODES) <= set(re.findall(r"`([a-z0-9-]+)`", text))


def test_the_python_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / DOCUMENTS[1]).read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "shown.py").write_text(block, encoding="utf-8")
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(tmp_path / "shown.py"))
    assert capsys.readouterr().out.endswith("raise the blinds\n0 []\n")


def test_shares_far_from_what_was_asked_for_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five speakers are few: some seeds give the small share most of the rows."""
    rows = [
        {"audio_filepath": f"{s}{i}.wav", "duration": 1, "text": "yes", "speaker": s} for s in "abcde" for i in range(7)
    ]
    manifest = tmp_path / "few.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told: dict[int, str] = {}
    for seed in range(12):
        folder = tmp_path / str(seed)
        with suppress(CepstraError):  # a split that would stay empty
            result = run(
                "split", manifest, "--into", "train=0.75,dev=0.25", "--seed", str(seed), "--output-dir", folder
            )
            if result.exit_code == 0:
                share = len(read_manifest(folder / "few.train.jsonl")) / 35
                told[seed] = result.output + capsys.readouterr().err
                assert ("the shares are far" in told[seed]) == (abs(share - 0.75) > 0.2)
    warned = [text for text in told.values() if "the shares are far" in text]
    assert 0 < len(warned) < len(told)
    found = re.search(r"--seed (\d+) comes nearer", warned[0])
    assert found
    run("split", manifest, "--into", "train=0.75,dev=0.25", "--seed", found[1], "--output-dir", tmp_path / "near")
    assert abs(len(read_manifest(tmp_path / "near" / "few.train.jsonl")) / 35 - 0.75) < 0.2
