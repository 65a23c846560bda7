"""`cepstra evaluate` with a recogniser made of a table, from manifest to exit code."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
import typer
from rich.console import Console
from typer.testing import CliRunner

from asr.cli.commands import app
from asr.cli.evaluate import Asked, By, evaluate, evaluate_with
from asr.errors import AudioError, CepstraError, ManifestError
from asr.evaluation import Transcriber, transcribe_all
from asr.manifest import Utterance
from asr.results import Result


class Heard:
    """Hears what a table says for a file name, and can't read files that aren't in it."""

    def __init__(self, table: dict[str, str]) -> None:
        self.table = table
        self.batches: list[list[str]] = []

    def transcribe(self, sources: list[Utterance], /) -> list[Result]:
        names = [utterance.audio_filepath.name for utterance in sources]
        self.batches.append(names)
        for name in names:
            if name not in self.table:
                raise AudioError(f"{name}: is not sound; convert it first")
        return [Result(name, 1.0, self.table[name], 1.0) for name in names]


def utterance(name: str, seconds: float) -> Utterance:
    return Utterance(audio_filepath=Path("/clips") / name, duration=seconds, text="x")


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "commands.jsonl"
    rows = [
        {"audio_filepath": "a.wav", "duration": 3.0, "text": "Light on.", "source": "home", "speaker": "ann"},
        {"audio_filepath": "b.wav", "duration": 1.0, "text": "five", "source": "digits", "speaker": "bob"},
        {"audio_filepath": "c.wav", "duration": 2.0, "text": "stop", "offset": 1.5, "speaker": "ann"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(
    transcriber: Transcriber,
    manifests: list[Path],
    *,
    report: Path | None = None,
    json: Path | None = None,
    limit: int | None = None,
    by: By = By.SOURCE,
) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    consoles = Console(file=out, width=100), Console(file=err, width=100)
    asked = Asked(manifests, "toy.cepstra", {"beam": 1, "threads": 2}, report, json, limit, by, *consoles)
    code = evaluate_with(lambda: transcriber, asked)
    return code, out.getvalue(), err.getvalue()


def test_summary_by_source(manifest: Path) -> None:
    code, out, err = run(Heard({"a.wav": "light on", "b.wav": "nine", "c.wav": "stop"}), [manifest])
    assert (code, err) == (0, "")
    assert "Model: toy.cepstra (beam 1, threads 2)" in out
    assert "Sound: 3.0 s, transcribed in" in out
    assert "real-time factor" in out
    rows = {cells[0]: cells[1:] for line in out.splitlines() if len(cells := line.split()) == 10}
    assert rows["digits"] == ["1", "1", "100.0", "-", "1", "0", "0", "50.0", "100.0"]
    assert rows["home"] == ["1", "2", "0.0", "-", "0", "0", "0", "0.0", "0.0"]
    assert rows["commands"][:3] == ["1", "1", "0.0"]  # no source stated: the manifest's name
    assert rows["total"][:3] == ["3", "4", "25.0"]
    assert "five → nine (1)" in out


def test_by_speaker(manifest: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    run(Heard({"a.wav": "light", "b.wav": "five", "c.wav": "stop"}), [manifest], json=figures, by=By.SPEAKER)
    groups = json.loads(figures.read_text(encoding="utf-8"))["groups"]
    assert [(group["name"], group["utterances"], group["wer"]) for group in groups] == [
        ("ann", 2, 0.333333),
        ("bob", 1, 0.0),
    ]


def test_a_bad_file_is_reported_and_the_rest_goes_on(manifest: Path, tmp_path: Path) -> None:
    figures, report = tmp_path / "figures.json", tmp_path / "report.html"
    code, out, err = run(Heard({"a.wav": "light on", "c.wav": "stop"}), [manifest], json=figures, report=report)
    assert code == 1
    assert err == f"{manifest}:2: b.wav: is not sound; convert it first\n"
    assert "Not transcribed, and in no figure: 1" in out
    page = json.loads(figures.read_text(encoding="utf-8"))
    assert page["run"]["failures"] == [{"name": "b.wav", "message": "b.wav: is not sound; convert it first"}]
    assert page["total"]["utterances"] == 2
    assert page["total"]["wer"] == 0.0
    assert [each["name"] for each in page["utterances"]] == [
        "a.wav",
        "c.wav#t=1.5,3.5",
    ]
    assert page["run"]["audio_seconds"] == 2.0
    assert page["run"]["manifests"] == [str(manifest)]
    assert "b.wav: is not sound" in report.read_text(encoding="utf-8")


def test_nothing_can_be_read(manifest: Path) -> None:
    code, out, _ = run(Heard({}), [manifest])
    assert code == 1
    assert "Not transcribed, and in no figure: 3" in out


def test_limit_takes_utterances_from_all_over_each_manifest(tmp_path: Path) -> None:
    paths = []
    for part in "xy":
        path = tmp_path / f"{part}.jsonl"
        rows = [{"audio_filepath": f"{part}{number}.wav", "duration": 1, "text": "a"} for number in range(9)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        paths.append(path)
    heard = Heard({f"{part}{number}.wav": "a" for part in "xy" for number in range(9)})
    run(heard, paths, limit=3)
    assert [name for batch in heard.batches for name in batch] == [
        f"{part}{number}.wav" for part in "xy" for number in (0, 3, 6)
    ]


def test_faults_are_found_before_the_model_is_loaded(manifest: Path, tmp_path: Path) -> None:
    def never() -> Transcriber:
        raise RuntimeError("the model was loaded")

    def attempt(manifests: list[Path], report: Path | None) -> Callable[[], int]:
        console = Console(file=io.StringIO())
        return lambda: evaluate_with(
            never, Asked(manifests, "toy", {}, report, None, None, By.SOURCE, console, console)
        )

    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(ManifestError, match=r"empty\.jsonl: holds no utterance"):
        attempt([manifest, empty], None)()
    with pytest.raises(ManifestError, match="absent"):
        attempt([tmp_path / "absent.jsonl"], None)()
    with pytest.raises(CepstraError, match="there is no folder"):
        attempt([manifest], tmp_path / "absent" / "report.html")()


def test_the_command_line_understands_its_options(manifest: Path) -> None:
    app = typer.Typer()
    app.command()(evaluate)
    runner = CliRunner()
    wanted = runner.invoke(app, ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert wanted.exit_code == 0
    for option in ("--model", "--beam", "--report", "--json", "--threads", "--limit", "--by"):
        assert option in wanted.output
    for wrong in (["--beam", "0"], ["--limit", "0"], ["--by", "mood"], ["--threads", "many"]):
        assert runner.invoke(app, [str(manifest), *wrong]).exit_code == 2
    absent = runner.invoke(app, [str(manifest.parent / "absent.jsonl"), "--by", "speaker"])
    assert isinstance(absent.exception, ManifestError)


def test_batches_are_of_about_equal_length_and_answers_in_order() -> None:
    utterances = [utterance(f"{length}.wav", length) for length in (5, 1, 4, 2, 3)]
    heard = Heard({each.audio_filepath.name: f"text {each.duration}" for each in utterances})
    seen: list[float] = []
    transcripts = transcribe_all(heard, utterances, batch=2, done=lambda each, _: seen.append(each.duration))
    assert heard.batches == [["1.wav", "2.wav"], ["3.wav", "4.wav"], ["5.wav"]]
    assert seen == [1, 2, 3, 4, 5]
    assert [answer.text for answer in transcripts.answers if isinstance(answer, Result)] == [
        f"text {length}" for length in (5, 1, 4, 2, 3)
    ]
    assert transcripts.wall_seconds >= 0


def test_a_bad_file_takes_no_good_one_with_it() -> None:
    utterances = [utterance(name, 1.0) for name in ("a.wav", "bad.wav", "c.wav")]
    heard = Heard({"a.wav": "a", "c.wav": "c"})
    answers = transcribe_all(heard, utterances).answers
    assert heard.batches == [["a.wav", "bad.wav", "c.wav"], ["a.wav"], ["bad.wav"], ["c.wav"]]
    assert [type(answer) for answer in answers] == [Result, AudioError, Result]


def test_outputs_are_replaced_but_nothing_that_is_read(manifest: Path, tmp_path: Path) -> None:
    heard = Heard({"a.wav": "light on", "b.wav": "five", "c.wav": "stop"})
    page, figures, sound = tmp_path / "page.html", tmp_path / "figures.json", tmp_path / "a.wav"
    page.write_text("old")
    assert run(heard, [manifest], report=page, json=figures)[0] == 0
    assert run(heard, [manifest], report=page, json=figures)[0] == 0
    assert page.read_text() != "old"
    soundfile.write(sound, [0.0] * 10, 8000)
    before, batches = manifest.read_bytes(), len(heard.batches)
    attempts: list[tuple[dict[str, Path], str]] = [
        ({"json": manifest}, f"--json {manifest}: is read by this command, and would be replaced"),
        ({"report": sound}, f"--report {sound}: is a recording, and would be replaced"),
        ({"report": page, "json": page}, f"--json {page}: --report goes to the same file"),
        ({"report": tmp_path / "no" / "x.html"}, f"--report {tmp_path}/no/x.html: there is no folder"),
    ]
    for outputs, message in attempts:
        with pytest.raises(CepstraError) as caught:
            run(heard, [manifest], report=outputs.get("report"), json=outputs.get("json"))
        assert str(caught.value).startswith(message)
    assert (manifest.read_bytes(), len(heard.batches)) == (before, batches)


def test_parts_of_one_file_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    rows = [{"audio_filepath": "talk.wav", "duration": 1.5, "text": "a", "offset": at} for at in (0, 1234.5678)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(Heard({"talk.wav": "a"}), [path], json=tmp_path / "figures.json")
    names = {each["name"] for each in json.loads((tmp_path / "figures.json").read_text())["utterances"]}
    assert names == {"talk.wav#t=0,1.5", "talk.wav#t=1234.5678,1236.0678"}


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_the_model_that_ships_is_read_and_not_written(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    shipped = tmp_path / "shipped.cepstra"
    shipped.write_bytes(b"all there is")
    monkeypatch.setattr("asr.recognizer.DEFAULT_BUNDLE", shipped)
    with pytest.raises(CepstraError, match=rf"{option} .*shipped\.cepstra"):
        app_of(evaluate, str(manifest), option, str(shipped))
    assert shipped.read_bytes() == b"all there is"


def app_of(command: Callable[..., None], *arguments: str) -> None:
    app = typer.Typer()
    app.command()(command)
    CliRunner().invoke(app, arguments, catch_exceptions=False)


class Unread:
    """Can't open anything, and says so with the path."""

    def transcribe(self, sources: list[Utterance], /) -> list[Result]:
        raise AudioError(f"{sources[0].audio_filepath}: no such file; check the name and the folder")


def written(folder: Path, names: list[str]) -> Path:
    folder.mkdir()
    rows = [{"audio_filepath": name, "duration": 1.0, "text": "stop"} for name in names]
    path = folder / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_clips_are_called_what_their_manifest_calls_them(tmp_path: Path) -> None:
    """Reports are shown to others, who have the manifest elsewhere: nothing tells where it lay."""
    manifest = written(
        tmp_path / "one", ["clips/a.wav", "../b.wav", str(tmp_path / "one" / "clips" / "c.wav"), "/d.wav"]
    )
    figures, report = tmp_path / "figures.json", tmp_path / "report.html"
    run(Heard(dict.fromkeys(("a.wav", "b.wav", "c.wav", "d.wav"), "go")), [manifest], json=figures, report=report)
    names = [each["name"] for each in json.loads(figures.read_text())["utterances"]]
    assert names == ["clips/a.wav", "../b.wav", "clips/c.wav", "/d.wav"]
    run(Unread(), [manifest], json=figures, report=report)
    failures = json.loads(figures.read_text())["run"]["failures"]
    assert failures[0] == {"name": "clips/a.wav", "message": "clips/a.wav: no such file; check the name and the folder"}
    assert str(tmp_path / "one" / "clips") not in figures.read_text() + report.read_text()


def test_names_that_two_manifests_share_are_in_full(tmp_path: Path) -> None:
    manifests = [written(tmp_path / name, ["same.wav", f"{name}.wav"]) for name in ("one", "two")]
    figures = tmp_path / "figures.json"
    run(Heard(dict.fromkeys(("same.wav", "one.wav", "two.wav"), "stop")), manifests, json=figures)
    names = [each["name"] for each in json.loads(figures.read_text())["utterances"]]
    assert names == [str(tmp_path / "one/same.wav"), "one.wav", str(tmp_path / "two/same.wav"), "two.wav"]


@pytest.mark.parametrize(("option", "detects"), [((), True), (("--no-speech-detection",), False)])
def test_speech_detection_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, manifest: Path, tmp_path: Path, option: tuple[str, ...], detects: bool
) -> None:
    given = {}

    def recognizer(_bundle: object, **options: object) -> Heard:
        given.update(options)
        return Heard(dict.fromkeys(("a.wav", "b.wav", "c.wav"), "stop"))

    monkeypatch.setattr("asr.recognizer.Recognizer", recognizer)
    figures = tmp_path / "figures.json"
    ended = CliRunner().invoke(app, ["evaluate", str(manifest), "--json", str(figures), *option])
    assert ended.exit_code == 0, ended.output
    assert given["speech_detection"] is detects
    settings = json.loads(figures.read_text())["run"]["settings"]
    assert settings == {"beam": 1, "threads": 2} | ({} if detects else {"speech_detection": False})
