"""From texts to a model that guides: `cepstra lm`, --lm and --boost, their errors, and what they change."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from asr.cli import main
from asr.cli.commands import app
from asr.errors import CepstraError, ConfigError, GuidanceError
from asr.lm import NGram, read_lm
from asr.lm.texts import read_sentences
from asr.lm.training import perplexity, train_lm
from asr.recognizer import Recognizer
from asr.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("clips")
    rng = np.random.default_rng(0)
    paths = [folder / f"{i}.wav" for i in range(4)]
    for i, path in enumerate(paths):
        soundfile.write(path, 0.1 * rng.normal(size=8000 + 3000 * i), 16000)
    (folder / "all.jsonl").write_text(
        "".join(json.dumps({"audio_filepath": str(p), "duration": 0.5, "text": "play the music"}) + "\n" for p in paths)
    )
    return paths


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """A command in this process and a folder of its own: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cepstra", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return (end.value.code if isinstance(end.value.code, int) else int(end.value.code is not None)), out, err

    return call


@pytest.fixture
def trained(run: Run, model: Path) -> Path:
    Path("texts.txt").write_text("Play the music!\nturn on the lights\n\n" * 10)
    assert run("lm", "train", "texts.txt", "-o", "my.lm", "--model", model)[0] == 0
    return Path("my.lm").absolute()


def test_sentences_come_from_lines_phrases_and_manifests(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfLights ON!\r\n\r\n...\r\nfive 5")
    (tmp_path / "b.yaml").write_text("intents: {light: '(turn|switch) on [the] light'}")
    (tmp_path / "c.jsonl").write_text('{"audio_filepath": "x.wav", "duration": 1, "text": "Play it"}\n')
    found = read_sentences([tmp_path / name for name in ("a.txt", "b.yaml", "c.jsonl")])
    assert found[:2] == ["lights on", "five five"]
    assert sorted(found[2:6]) == ["switch on light", "switch on the light", "turn on light", "turn on the light"]
    assert found[6:] == ["play it"]


def test_a_large_phrase_file_gives_a_bounded_draw_that_is_always_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asr.lm.texts.DRAWN", 50)
    (tmp_path / "b.yaml").write_text("intents: {n: 'set {0..1000:x} to {0..1000:y}'}")
    found = read_sentences([tmp_path / "b.yaml"])
    assert len(set(found)) == len(found) == 50
    assert found == read_sentences([tmp_path / "b.yaml"])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("missing.txt", None, "missing.txt: can't be read"),
        ("a.txt", b"on\xff", r"a.txt: not UTF-8 text \(byte 2\)"),
        ("a.yaml", b"intents: {a: '(on'}", r"a.yaml:1:\d+: "),
        ("a.jsonl", b'{"text": "on"}', "a.jsonl.*audio_filepath"),
    ],
)
def test_texts_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CepstraError, match=reason):
        read_sentences([tmp_path / name])


def test_perplexity_by_hand() -> None:
    """Unigrams of two sentences "a": a and the end once in a while each, and little is left for others."""
    tokenizer = Tokenizer.train(["a"] * 3, vocab_size=40)
    (a,) = tokenizer.encode("a")
    lm = NGram.train([[a]] * 2, tokenizer.vocab_size, 1)
    p = math.exp(lm.scores(())[a]), math.exp(lm.scores(())[2])
    found = perplexity(lm, ["a", "a a"], tokenizer)
    assert found.per_token == pytest.approx((p[0] ** 3 * p[1] ** 2) ** (-1 / 5), rel=1e-5)
    assert found.per_word == pytest.approx(found.per_token)
    with pytest.raises(GuidanceError, match="no sentence to measure"):
        perplexity(lm, [], tokenizer)


def test_every_tenth_sentence_is_foretold_by_a_model_of_the_others(toy: tuple[Trained, Bundle]) -> None:
    tokenizer = toy[1].tokenizer
    sentences = [*["play the music"] * 9, "lights", *["turn on the lights"] * 9, "off"]
    facts = train_lm(sentences, tokenizer, order=2).facts
    rest = NGram.train([tokenizer.encode(s) for s in sentences if " " in s], tokenizer.vocab_size, 2)
    expected = perplexity(rest, ["lights", "off"], tokenizer)
    assert facts["perplexity"] == pytest.approx(expected.per_token, abs=1e-3)
    assert facts["held_out_sentences"] == 2
    assert (facts["sentences"], facts["tokens"]) == (20, sum(len(tokenizer.encode(s)) for s in sentences))
    assert "perplexity" not in train_lm(sentences[:9], tokenizer).facts


def test_settings_out_of_range_are_refused(toy: tuple[Trained, Bundle]) -> None:
    for order in (0, 6):
        with pytest.raises(ConfigError, match=f"order={order} must be"):
            train_lm(["on"], toy[1].tokenizer, order=order)
    with pytest.raises(GuidanceError, match="no sentence to learn from"):
        train_lm([], toy[1].tokenizer)


def test_train_reports_and_show_repeats_it(run: Run, trained: Path, model: Path) -> None:
    code, out, err = run("lm", "train", "texts.txt", "-o", trained, "--order", 2, "--model", model)
    assert (code, err) == (0, "")
    assert out.startswith(f"{trained}: 20 sentences, ")
    assert "on 2 sentences held out" in out
    code, shown, _ = run("lm", "show", trained)
    assert code == 0
    assert shown.startswith(f"{trained}: n-grams of order 2, 20 sentences, ")
    Path("other.txt").write_text("play\nplay\nplay\n")
    assert (
        "on 3 sentences held out"
        in run(
            "lm", "train", "texts.txt", "-o", trained, "--held-out", "other.txt", "--kind", "skips", "--model", model
        )[1]
    )
    assert "pairs with skips" in run("lm", "show", trained)[1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["texts.txt", "-o", "texts.txt"], "--output texts.txt: is read by this command"),
        (["texts.txt", "-o", "missing/my.lm"], "--output missing/my.lm: there is no folder"),
        (["missing.txt", "-o", "new.lm"], "missing.txt: can't be read"),
        (["empty.txt", "-o", "new.lm"], "empty.txt: no sentence to learn from; give sentences"),
        (
            ["cyrillic.txt", "empty.txt", "-o", "new.lm"],
            "cyrillic.txt, empty.txt: no sentence to learn from (the model",
        ),
        (["texts.txt", "-o", "new.lm", "--held-out", "missing.txt"], "--held-out missing.txt: can't be read"),
        (["texts.txt", "-o", "new.lm", "--held-out", "empty.txt"], "--held-out empty.txt: no sentence to measure with"),
        (
            ["texts.txt", "-o", "new.lm", "--held-out", "cyrillic.txt"],
            "--held-out cyrillic.txt: no sentence to measure with (the model has no letters for any of 2); give",
        ),
        (["texts.txt", "-o", "new.lm", "--model", "texts.txt"], "--model texts.txt: not a bundle"),
    ],
)
def test_train_says_in_one_line_what_is_wrong(run: Run, trained: Path, arguments: list[str], reason: str) -> None:
    del trained  # but not the file beside it
    Path("empty.txt").write_text("\n...\n")
    Path("cyrillic.txt").write_text("включи свет\nвключи the music\n", encoding="utf-8")
    code, out, err = run("lm", "train", *arguments)
    assert (code, out) == (1, "")
    assert err.startswith(f"cepstra: {reason}")
    assert err.count("\n") == 1
    assert not Path("new.lm").exists()


def test_sentences_in_other_letters_are_left_out_and_counted(run: Run, trained: Path, model: Path) -> None:
    Path("mixed.txt").write_text("включи свет\n" * 3 + Path("texts.txt").read_text(), encoding="utf-8")
    arguments = ("lm", "train", "--model", model)
    code, out, _ = run(*arguments, "mixed.txt", "-o", "mixed.lm", "--held-out", "mixed.txt")
    assert code == 0
    assert ": 20 sentences, " in out
    assert "tokens (3 left out: they have letters that the model hasn't); perplexity" in out
    assert "on 20 sentences held out (3 left out: they have" in out
    assert "tokens (3 left out" in run("lm", "show", "mixed.lm")[1]
    mixed, without = read_lm("mixed.lm"), read_lm(trained)
    np.testing.assert_array_equal(mixed.lm.scores(mixed.lm.start()), without.lm.scores(without.lm.start()))
    run(*arguments, "mixed.txt", "-o", "mixed.lm")
    assert {**without.facts, "left_out": 3} == read_lm("mixed.lm").facts


def test_training_ends_with_how_to_use_it(run: Run, trained: Path, model: Path) -> None:
    last = run("lm", "train", "texts.txt", "-o", trained, "--model", model)[1].splitlines()[-1]
    assert last.startswith(f"Use it with --beam 4 --lm {trained}: greedy search")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"lm": 5}, "lm=5: give the path of a file, or what asr.lm.read_lm returns"),
        ({"lm": {}}, "lm={}: give the path"),
        ({"lm": b"my.lm"}, "lm=b'my.lm': give the path"),
        ({"lm": ["x" * 9999]}, "lm=['xxx"),
        ({"boost": 5}, "boost=5: give the path of a file, or phrases with weights"),
        ({"boost": ["a"]}, "boost=['a']: give the path"),
        ({"boost": {"music": "2"}}, "boost: 'music': weight '2' is no number; write"),
        ({"lm": "my.lm", "lm_weight": "1"}, "lm_weight='1': must be from 0 to 10;"),
        ({"lm": "my.lm", "lm_weight": True}, "lm_weight=True: must be"),
        ({"lm": "my.lm", "lm_weight": 10**400}, "lm_weight=1000"),
        ({"lm": "my.lm", "lm_weight": [1]}, "lm_weight=[1]: must be"),
        ({"lm_weight": "1"}, "lm_weight='1': there is no lm to weigh; give both"),
    ],
)
def test_arguments_of_other_types_are_refused_by_name(
    trained: Path, model: Path, arguments: dict[str, Any], reason: str
) -> None:
    del trained  # but not the file
    with pytest.raises((ConfigError, GuidanceError)) as caught:
        Recognizer(model, **arguments)
    assert str(caught.value).startswith(reason)
    assert len(str(caught.value)) < 200


def test_guides_change_what_is_heard(run: Run, trained: Path, model: Path, clips: list[Path]) -> None:
    arguments = ("transcribe", *clips, "--model", model, "--no-speech-detection")  # nobody speaks in noise
    plain = run(*arguments)[1]
    assert run(*arguments, "--lm", trained, "--lm-weight", 0)[1] == plain
    guided = run(*arguments, "--lm", trained, "--lm-weight", 5)[1]
    assert guided != plain
    expected = Recognizer(model, lm=trained, lm_weight=5, speech_detection=False).transcribe(
        [str(clip) for clip in clips]
    )
    assert guided == "".join(f"{clip}: {result.text}\n" for clip, result in zip(clips, expected, strict=True))
    Path("boost.txt").write_text("music * 20\n")
    boosted = run(*arguments, "--boost", "boost.txt")[1]
    assert boosted.count("music") > plain.count("music")
    expected = Recognizer(model, boost={"Music": 20}, speech_detection=False).transcribe([str(clip) for clip in clips])
    assert boosted == "".join(f"{clip}: {result.text}\n" for clip, result in zip(clips, expected, strict=True))


def test_evaluate_has_the_same_guides_and_says_so(run: Run, trained: Path, model: Path, clips: list[Path]) -> None:
    Path("boost.txt").write_text("music * 20\n")
    manifest = clips[0].with_name("all.jsonl")
    arguments = ("evaluate", manifest, "--model", model, "--json", "figures.json")
    assert run(*arguments, "--lm", trained, "--lm-weight", 0.5, "--boost", "boost.txt")[0] == 0
    figures = json.loads(Path("figures.json").read_text())
    assert figures["run"]["settings"] == {
        "beam": 1, "threads": 2, "lm": str(trained), "lm_weight": 0.5, "boost": "boost.txt",
    }  # fmt: skip
    recognizer = Recognizer(model, lm=trained, lm_weight=0.5, boost="boost.txt")
    heard = recognizer.transcribe([str(clip) for clip in clips])
    assert [each["hypothesis"] for each in figures["utterances"]] == [result.text for result in heard]
    assert run(*arguments)[0] == 0
    assert json.loads(Path("figures.json").read_text())["run"]["settings"] == {"beam": 1, "threads": 2}


def test_confidence_is_the_models_own(trained: Path, model: Path, clips: list[Path]) -> None:
    """Whatever the guide's weight, the same text is as sure; one that the sound doesn't say is less so."""
    source = str(clips[0])
    plain = Recognizer(model, speech_detection=False).transcribe(source)
    assert plain.text
    word = plain.words[0].word
    helped = Recognizer(model, boost={word: 0.001}, speech_detection=False).transcribe(source)
    assert helped == plain
    forced = Recognizer(model, lm=read_lm(trained), lm_weight=10, speech_detection=False).transcribe(source)
    assert forced.text != plain.text
    assert forced.confidence < plain.confidence


@pytest.mark.parametrize("command", ["transcribe", "evaluate"])
@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--lm", "missing.lm"], 1, "cepstra: --lm missing.lm: no such file"),
        (["--lm", "texts.txt"], 1, "cepstra: --lm texts.txt: not a language model, or damaged"),
        (["--lm", "other.lm"], 1, "cepstra: --lm other.lm: was made for another model's tokens"),
        (["--boost", "faulty.txt"], 1, "cepstra: --boost faulty.txt:2:10: 'x' is no weight"),
        (["--boost", "missing.txt"], 1, "cepstra: --boost missing.txt: can't be read"),
        (["--lm-weight", "0.3"], 2, "there is no --lm to weigh"),
        (["--lm", "my.lm", "--lm-weight", "11"], 2, "'--lm-weight'"),
    ],
)
def test_guides_that_cannot_be_used(  # noqa: PLR0917
    run: Run, trained: Path, model: Path, clips: list[Path], command: str, arguments: list[str], code: int, reason: str
) -> None:
    del trained  # but not the files beside it
    Path("faulty.txt").write_text("on\nlights * x\n")
    tokenizer = Tokenizer.train(["play the music"] * 2, vocab_size=40)
    from asr.lm import write_lm  # noqa: PLC0415

    write_lm("other.lm", train_lm(["play"], tokenizer))
    source = clips[0] if command == "transcribe" else clips[0].with_name("all.jsonl")
    found, out, err = run(command, source, "--model", model, *arguments)
    assert (found, out) == (code, "")
    assert reason in err
    assert code == 2 or err.count("\n") == 1


def test_guides_are_not_overwritten(run: Run, trained: Path, model: Path, clips: list[Path]) -> None:
    manifest = clips[0].with_name("all.jsonl")
    code, _, err = run("evaluate", manifest, "--model", model, "--lm", trained, "--json", trained)
    assert code == 1
    assert "is read by this command" in err
    assert read_lm(trained)


def test_phrases_leave_no_room_for_guides(run: Run, trained: Path, model: Path, clips: list[Path]) -> None:
    Path("lights.txt").write_text("lights on\n")
    for guide in (["--lm", trained], ["--boost", "lights.txt"]):
        for command, source in (("transcribe", clips[0]), ("evaluate", clips[0].with_name("all.jsonl"))):
            code, _, err = run(command, source, "--model", model, "--phrases", "lights.txt", *guide)
            assert code == 2
            assert "--phrases" in err
            assert "leaves no free text" in err
    with pytest.raises(ConfigError, match="lm and boost guide free text"):
        Recognizer(model, phrases="lights.txt", boost={"on": 1.0})
    boost = {"music": 20.0}
    both = Recognizer(model, phrases={"lights": "lights.txt"}, boost=boost, speech_detection=False)
    alone = Recognizer(model, boost=boost, speech_detection=False)  # phrases of no name are free text
    assert both.transcribe(str(clips[0])) == alone.transcribe(str(clips[0]))


@pytest.mark.parametrize("weight", [-0.1, 10.5, math.nan, math.inf])
def test_weights_out_of_range_are_refused(trained: Path, model: Path, weight: float) -> None:
    with pytest.raises(ConfigError, match=r"lm_weight=.*must be from 0 to 10"):
        Recognizer(model, lm=trained, lm_weight=weight)
    with pytest.raises(ConfigError, match="there is no lm"):
        Recognizer(model, lm_weight=0.3)


def test_the_model_that_ships_is_read_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = tmp_path / "shipped.cepstra"
    shipped.write_bytes(b"all there is")
    (tmp_path / "said.txt").write_text("lights on\n")
    monkeypatch.setattr("asr.recognizer.DEFAULT_BUNDLE", shipped)
    with pytest.raises(CepstraError, match=r"--output .*shipped\.cepstra"):
        CliRunner().invoke(app, ["lm", "train", str(tmp_path / "said.txt"), "-o", str(shipped)], catch_exceptions=False)
    assert shipped.read_bytes() == b"all there is"
