"""`cepstra make`: a phrase file becomes a bundle, with a program that stands in for an engine of speech."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from asr.bundle import read_bundle
from asr.cli.commands import app
from asr.errors import ConfigError, ManifestError
from asr.manifest import Utterance, read_manifest, write_manifest
from asr.phrases import PhraseSet
from asr.recognizer import DEFAULT_BUNDLE, DEFAULT_WEIGHTS, Recognizer
from export.make import MakeSettings, make
from export.make.learning import OWN_SHARE, write_settings
from export.make.settings import Workshop
from export.make.speaking import divide_own, other_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENGINE = Path(__file__).parents[1] / "asr" / "synthesis_engine.py"
TONE = f"cmd: {shlex.quote(sys.executable)} -S {shlex.quote(str(ENGINE))} {{out}} {{text}}"
TONES = (f"{TONE} 1", f"{TONE} 2", f"{TONE} 3")  # one voice each: for training, choosing and measuring
ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data_manifests" / "samples" / "please_save_the_file.wav"
PHRASES = 'intents:\n  boil: "boil [the] water"\n  stop: ["stop boiling", "cancel"]\n'


@pytest.fixture
def phrases(tmp_path: Path) -> Path:
    path = tmp_path / "kettle.yaml"
    path.write_text(PHRASES)
    return path


class Watcher:
    """A display that remembers, and that Ctrl-C may come to at the beginning of a part."""

    def __init__(self, interrupted_at: str = "") -> None:
        self.lines: list[str] = []
        self.interrupted_at = interrupted_at

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def bar(self, title: str) -> Iterator[Callable[[int, int], None]]:
        if title == self.interrupted_at:
            raise KeyboardInterrupt
        yield lambda _done, _total: None


def when_written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.suffix in {".flac", ".ckpt"}}


def test_a_phrase_file_becomes_a_bundle_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, phrases: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = MakeSettings(phrases, count=200, others=200, engines=TONES, steps=1)
    output, work = tmp_path / "kettle.cepstra", tmp_path / "work"
    with pytest.raises(KeyboardInterrupt):
        make(settings, output, work, Watcher("measuring"))
    assert not output.exists()
    said = capfd.readouterr().err  # by the training
    assert "best model: " in said
    assert "next: " not in said
    before = when_written(work)
    assert sum(path.suffix == ".flac" for path in before) > 390  # the engine says some words, such as "loud", badly

    report = tmp_path / "page.html"
    options = [
        "--work",
        str(work),
        "--count",
        "200",
        "--others",
        "200",
        "--steps",
        "1",
        *(f"--engine={tone}" for tone in TONES),
    ]
    ran = CliRunner().invoke(app, ["make", str(phrases), "-o", str(output), *options, "--report", str(report)])
    assert ran.exit_code == 0, ran.output
    assert when_written(work) == before  # nothing was spoken or learnt again
    assert re.findall(r"^\[(\d)/6\]", ran.output, re.MULTILINE) == ["1", "2", "3", "4", "5", "6"]
    assert "24 recordings of commands: " in ran.output
    assert "False accepts against false rejects" in report.read_text()

    bundle = read_bundle(output)
    assert bundle.precision == "int8"
    assert output.stat().st_size < 8e6
    assert bundle.facts["phrases"] == "kettle.yaml"
    assert bundle.facts["training"]["steps"] == 1
    assert set(bundle.facts["commands"]) >= {"bias", "threshold"}
    total = json.loads((work / "report.json").read_text())["after"]["commands"]["total"]
    test = [row for folder in ("speech", "others") for row in read_manifest(work / folder / "test.jsonl")]
    assert total["commands"] == 24
    assert total["others"] == len(test) - 24 > 20
    assert Recognizer(bundle, phrases=phrases).transcribe(test[0]).meaning is not None

    with pytest.raises(ConfigError, match=r"holds a run with other settings \(count\); --restart"):
        make(MakeSettings(phrases, count=201, others=200, engines=TONES, steps=1), output, work, Watcher())
    phrases.write_text(PHRASES + "  more: more water\n")
    with pytest.raises(ConfigError, match=r"other settings \(digests\)"):
        make(settings, output, work, Watcher())


def test_other_sentences_are_none_of_the_phrase_file(tmp_path: Path) -> None:
    path = tmp_path / "phrases.txt"
    path.write_text("lights on\nstop\n[please] go back\nset a timer for {1..60:n} minutes\n")
    everything = other_sentences(PhraseSet.parse("boil the water", "kettle"), "en")
    others = other_sentences(PhraseSet.read(path), "en")
    gone = set(everything) - set(others)
    assert {"stop", "go back", "set a timer for ten minutes"} & gone
    assert all(line.startswith(("set a timer for", "please go back", "go back", "stop", "lights on")) for line in gone)
    assert len(others) > 2000


def own(folder: Path, speakers: int, each: int, **more: Any) -> Path:
    rows = [
        Utterance(folder / f"{s}-{i}.wav", 2.0, "boil the water", speaker=f"speaker {s}", **more)
        for s in range(speakers)
        for i in range(each)
    ]
    path = folder / "own.jsonl"
    write_manifest(path, rows)
    return path


def place(tmp_path: Path) -> Workshop:
    found = Workshop(tmp_path / "work")
    for folder in (found.speech, found.others):
        folder.mkdir(parents=True)
        for split in ("train", "dev", "test"):
            write_manifest(folder / f"{split}.jsonl", [Utterance(folder / f"{n}.flac", 3.0, "text") for n in range(50)])
    return found


def test_own_recordings_are_divided_by_speaker_where_there_are_many(tmp_path: Path, phrases: Path) -> None:
    settings = MakeSettings(phrases, recordings=(own(tmp_path, 20, 3),))
    shop = place(tmp_path)
    assert divide_own(settings, shop) == 60
    parts = {split: {row.speaker for row in read_manifest(shop.own(split))} for split in ("train", "dev", "test")}
    assert sum(map(len, parts.values())) == 20
    assert all(parts.values())


def test_own_recordings_of_one_person_are_divided_by_recording(tmp_path: Path, phrases: Path) -> None:
    shop = place(tmp_path)
    assert divide_own(MakeSettings(phrases, recordings=(own(tmp_path, 1, 30),)), shop) == 30
    files = [row.audio_filepath for split in ("train", "dev", "test") for row in read_manifest(shop.own(split))]
    assert len(files) == len(set(files)) == 30
    assert all(shop.own(split).exists() for split in ("dev", "test"))


def test_a_handful_of_own_recordings_is_learnt_from(tmp_path: Path, phrases: Path) -> None:
    shop = place(tmp_path)
    assert divide_own(MakeSettings(phrases, recordings=(own(tmp_path, 1, 4),)), shop) == 4
    assert len(read_manifest(shop.own("train"))) == 4
    assert not shop.own("test").exists()


@pytest.mark.parametrize("free", [0, 3, 60])
def test_own_recordings_keep_the_split_that_they_state(tmp_path: Path, phrases: Path, free: int) -> None:
    shop = place(tmp_path)
    manifest = own(tmp_path, 5, 1, split="eval")
    rows = [*read_manifest(manifest), *(Utterance(tmp_path / f"free{n}.wav", 2.0, "boil water") for n in range(free))]
    rows += [Utterance(tmp_path / "chosen.wav", 2.0, "boil water", split="validation")]
    write_manifest(manifest, rows)
    divide_own(MakeSettings(phrases, recordings=(manifest,)), shop)
    assert len(read_manifest(shop.own("test"))) == 5
    assert len(read_manifest(shop.own("dev"))) == 1
    assert shop.own("train").exists() == bool(free)


def test_a_folder_in_which_nothing_was_made_is_begun_anew(tmp_path: Path, phrases: Path) -> None:
    shop = Workshop(tmp_path / "work")
    for count in (200, 300):
        with shop.begun(MakeSettings(phrases, count=count), print, restart=False):
            pass
    shop.speech.mkdir()
    with (
        pytest.raises(ConfigError, match=r"other settings \(count\)"),
        shop.begun(MakeSettings(phrases, count=400), print, restart=False),
    ):
        pass
    with shop.begun(MakeSettings(phrases, count=400), print, restart=True):
        assert not shop.speech.exists()


def test_own_recordings_without_words_are_refused(tmp_path: Path, phrases: Path) -> None:
    path = tmp_path / "silent.jsonl"
    write_manifest(path, [Utterance(tmp_path / "a.wav", 1.0, "")])
    with pytest.raises(ManifestError, match="recordings need their words"):
        divide_own(MakeSettings(phrases, recordings=(path,)), place(tmp_path))


def test_own_recordings_count_more_and_base_speech_never_more_than_the_rest(tmp_path: Path, phrases: Path) -> None:
    shop = place(tmp_path)  # 100 recordings to train on, 300 s
    base = tmp_path / "base.jsonl"
    write_manifest(base, [Utterance(tmp_path / f"{n}.wav", 10.0, "text") for n in range(300)])  # 3,000 s
    settings = MakeSettings(phrases, recordings=(own(tmp_path, 2, 5),), base=(base,))  # 20 s
    divide_own(settings, shop)
    write_settings(settings, shop)
    written = yaml.safe_load(shop.training.read_text())
    repeats = {Path(each["manifest"]).name: each.get("repeat", 1) for each in written["data"]["train"]}
    learnt = sum(row.duration for row in read_manifest(shop.own("train")))
    assert repeats["recordings.train.jsonl"] == pytest.approx(OWN_SHARE * 300 / learnt, abs=0.01)
    assert repeats["base.jsonl"] == pytest.approx(0.1)
    assert written["start_from"] == str(DEFAULT_WEIGHTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.yaml"], "none.yaml"),
        (["kettle.yaml", "--count", "3"], "--count"),
        (["kettle.yaml", "--steps", "0"], "--steps"),
        (["kettle.yaml", "-o", "kettle.yaml"], "is read by this command"),
        (["kettle.yaml", "--engine", "mumble"], "--engine"),
        (["kettle.yaml", "--recordings", "gone.jsonl"], "gone.jsonl: no such manifest"),
        (["kettle.yaml", "--start-from", "kettle.yaml"], "--start-from"),
        (["kettle.yaml", "--start-from", str(DEFAULT_BUNDLE)], "is a bundle, which is only for listening"),
        (["kettle.yaml", "--engine", TONE], "too few voices to learn from some and measure with others; add an engine"),
        (["kettle.yaml", "--work", "broken.yaml"], "--work"),
        (["kettle.yaml", "--work", "other", "-o", "other/m.cepstra"], "lies in the folder that is worked in"),
        (["kettle.yaml", "--work", "other"], "holds something else; name another folder"),
        (["kettle.yaml", "--work", "other", "--restart"], "holds something else; name another folder"),
        (["kettle.yaml", "--recordings", "missing.jsonl"], "missing.jsonl:1: "),
        (["kettle.yaml", "--base", "missing.jsonl"], "missing.jsonl:1: "),
        (["kettle.yaml", "--recordings", "chinese.jsonl"], "the model can't write '打开灯'"),
        (["broken.yaml"], "broken.yaml"),
    ],
)
def test_what_stands_against_it_is_said_before_the_long_work(
    arguments: list[str], message: str, phrases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(phrases.parent)
    Path("broken.yaml").write_text("intents: {a: '(b'}\n")
    Path("other").mkdir()
    Path("other/make.json").write_text('{"my": "own"}')
    shutil.copy(SAMPLE, "a.wav")
    write_manifest(Path("missing.jsonl"), [Utterance(Path("gone.wav").absolute(), 1.0, "boil water")])
    write_manifest(Path("chinese.jsonl"), [Utterance(Path("a.wav").absolute(), 1.0, "打开灯")])
    ran = CliRunner().invoke(app, ["make", *arguments])
    assert ran.exit_code != 0
    said = str(ran.exception) + ran.output
    assert message in said
    if arguments[1:2] in (["--engine"], ["--recordings"], ["--base"], ["--start-from"]):
        assert arguments[1] in said
    assert not Path("model.cepstra").exists()
    assert not list(Path().rglob("*.flac"))
    assert Path("other/make.json").read_text() == '{"my": "own"}'


def test_the_page_tells_what_there_is() -> None:
    text = (ROOT / "docs" / "make.md").read_text()
    command = typer.main.get_command(app).get_command(None, "make")  # type: ignore[attr-defined]
    known = {name for parameter in command.params for name in parameter.opts}
    used = set(re.findall(r"--[a-z][a-z-]*[a-z]", text))
    assert used <= known | {"--phrases", "--model"}
    (yaml_text,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert PhraseSet.parse(yaml_text, "kettle.yaml").sentences > 20
    defaults = MakeSettings(ROOT / "README.md")
    assert f"{defaults.count:,} recordings" in text
    assert f"{defaults.steps} steps" in text
