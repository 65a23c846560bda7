"""Several phrase files at once: as one set, or refused; and no option of which one value is dropped in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from asr.cli.commands import app
from asr.errors import CepstraError, PhrasesError
from asr.phrases import PhraseSet, merged
from asr.recognizer import DEFAULT_BUNDLE, Recognizer

if TYPE_CHECKING:
    from typer.testing import Result

SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
LAMP = "intents: {lamp: 'turn on the {what}'}\nlists: {what: [lamp, light]}"
SOUND = "intents: {louder: '<go> the {what} up', quieter: '<go> the {what} down'}\nlists: {what: [speaker]}\n"
SOUND += "rules: {go: turn}"
ships = pytest.mark.skipif(not DEFAULT_BUNDLE.exists(), reason="no model ships with this checkout")


def cepstra(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_merged_set_has_what_each_file_has() -> None:
    both = merged([PhraseSet.parse(LAMP, "lamp.yaml"), PhraseSet.parse(SOUND, "sound.yaml"), PhraseSet.parse("stop")])
    assert both.intents == ("lamp", "louder", "quieter", "stop")
    assert both.sentences == 2 + 2 + 1
    said = ("turn on the light", "turn the speaker down", "stop")
    understood = [both.command(sentence) for sentence in said]
    assert [(c.intent, c.slots) for c in understood if c] == [
        ("lamp", {"what": "light"}), ("quieter", {"what": "speaker"}), ("stop", {}),
    ]  # fmt: skip
    assert both.command("turn on the speaker") is None  # a list stays that of its file
    alone = PhraseSet.parse(LAMP, "lamp.yaml")
    assert merged([alone]) is alone


def test_of_a_sentence_in_two_files_the_first_intent_is_meant() -> None:
    one, other = (PhraseSet.parse(f"intents: {{{name}: stop}}", f"{name}.yaml") for name in ("halt", "end"))
    for sets in ([one, other], [other, one]):
        command = merged(sets).command("stop")
        assert command is not None
        assert command.intent == sets[0].intents[0]
        assert merged(sets).sentences == 1


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"a.yaml": LAMP, "b.yaml": LAMP}, r"b\.yaml: intent 'lamp': a\.yaml has it too; rename it, or take one"),
        ({"a.txt": "go\nstop", "b.txt": "stop"}, r"b\.txt: intent 'stop': a\.txt has it too"),
        ({"a.yaml": LAMP, "b.yaml": "language: de\n" + SOUND}, r"b\.yaml: its language is 'de', that of a\.yaml 'en'"),
    ],
)
def test_what_clashes_is_refused(texts: dict[str, str], message: str) -> None:
    sets = [PhraseSet.parse(text, name) for name, text in texts.items()]
    with pytest.raises(PhrasesError, match=message):
        merged(sets)


@ships
def test_a_fault_found_later_names_its_own_file() -> None:
    tokenizer = Recognizer().bundle.tokenizer
    hard = PhraseSet.parse("intents: {odd: 'say 漢字'}", "odd.yaml")
    with pytest.raises(PhrasesError, match=r"^odd\.yaml:1:\d+: the model has no letters"):
        merged([PhraseSet.parse(LAMP, "lamp.yaml"), hard]).compile(tokenizer)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / f"{name}.yaml" for name in ("lamp", "sound")}
    found["lamp"].write_text(LAMP)
    found["sound"].write_text(SOUND)
    return found


@ships
@pytest.mark.parametrize("order", [("lamp", "sound"), ("sound", "lamp")])
def test_transcribe_and_listen_take_the_commands_of_every_file(files: dict[str, Path], order: tuple[str, str]) -> None:
    options: list[str | Path] = [part for name in order for part in ("--phrases", files[name])]
    sound = SAMPLES / "turn_the_speaker_down.wav"
    row = json.loads(cepstra("transcribe", sound, *options, "-f", "json").stdout)
    assert row["command"] == {"intent": "quieter", "slots": {"what": "speaker"}, "sentence": "turn the speaker down"}
    assert {other["intent"] for other in row["alternatives"]} >= {"quieter", "louder"}
    (line,) = cepstra("listen", "--input", sound, *options, "--json").stdout.splitlines()
    assert json.loads(line)["command"] == row["command"]


@ships
def test_evaluate_takes_the_commands_of_every_file(files: dict[str, Path], tmp_path: Path) -> None:
    texts = {"turn_the_speaker_down": "turn the speaker down", "please_save_the_file": "please save the file"}
    rows = [{"audio_filepath": str(SAMPLES / f"{name}.wav"), "text": text} for name, text in texts.items()]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options: list[str | Path] = ["--phrases", files["lamp"], "--phrases", files["sound"]]
    ended = cepstra("evaluate", tmp_path / "a.jsonl", *options, "--json", tmp_path / "out.json")
    assert ended.exit_code == 0, ended.output
    figures = json.loads((tmp_path / "out.json").read_text())
    assert (figures["total"]["commands"], figures["total"]["others"]) == (1, 1)
    assert figures["run"]["settings"]["phrases"] == f"{files['lamp']}, {files['sound']}"
    for read in files.values():  # neither may be written over
        refused = cepstra("evaluate", tmp_path / "a.jsonl", *options, "--json", read)
        assert isinstance(refused.exception, CepstraError)
        assert "is read by this command" in str(refused.exception)


def test_the_same_file_twice_is_refused(files: dict[str, Path]) -> None:
    lamp = files["lamp"]
    for command in (["transcribe", "x.wav"], ["listen", "--input", "x.wav"], ["evaluate", "x.jsonl"]):
        refused = cepstra(*command, "--phrases", lamp, "--phrases", lamp)
        assert str(refused.exception).startswith(f"--phrases {lamp}: intent 'lamp': the file is given twice")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("transcribe x.wav --beam 2 --beam 3", "--beam"),
        ("transcribe x.wav -o a --output-dir b", "--output-dir"),
        ("listen --lm a --input x --lm a", "--lm"),
        ("evaluate x.jsonl --json a --json b", "--json"),
        ("phrases check x.yaml --seed 1 --seed 1", "--seed"),
        ("bundle describe x --name a --name b", "--name"),
        ("manifest split x --seed 1 --seed 2", "--seed"),
        ("serve --port 1 --port 2", "--port"),
        ("export --graph streaming --graph all-in-one", "--graph"),
    ],
)
def test_an_option_of_one_value_given_twice_is_refused(arguments: str, option: str) -> None:
    ended = cepstra(*arguments.split())
    assert ended.exit_code == 2
    assert f"Error: {option} is given 2 times; give it once" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("transcribe x.wav --threshold nan", "--threshold"),
        ("transcribe x.wav --lm a --lm-weight NaN", "--lm-weight"),
        ("transcribe x.wav --max-seconds nan", "--max-seconds"),
        ("export x.ckpt --max-wer-loss nan", "--max-wer-loss"),
        ("manifest check x.jsonl --tolerance nan", "--tolerance"),
    ],
)
def test_nan_is_no_number_of_any_option(arguments: str, option: str) -> None:
    ended = cepstra(*arguments.split())
    assert ended.exit_code == 2
    assert f"Error: {option}: nan is not a number" in ended.stderr


def test_options_of_many_values_and_switches_may_be_repeated(tmp_path: Path) -> None:
    missing = tmp_path / "x.yaml"
    ended = cepstra("transcribe", "x.wav", "--no-speech-detection", "--no-speech-detection", "--phrases", missing)
    assert ended.exit_code == 1  # the file, and not the usage
    assert "can't be read" in str(ended.exception)
