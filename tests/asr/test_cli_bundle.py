"""`cepstra bundle`: what is noted in a bundle is shown, and nothing else of it changes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from asr.bundle import read_bundle, write_bundle
from asr.cli.commands import app
from asr.errors import CepstraError
from asr.hearing import UNTAUGHT
from asr.recognizer import DEFAULT_BUNDLE, SHIPPED
from asr.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained

SAMPLES = Path(__file__).parents[2] / "data_manifests" / "samples" / "samples.jsonl"


@pytest.fixture
def path(toy: tuple[Trained, Bundle], tmp_path: Path) -> Path:
    target = tmp_path / "model.cepstra"
    write_bundle(target, replace(toy[1], facts={"training": {"steps": 3}}))
    return target


def cepstra(*arguments: object) -> str:
    """Standard output; what goes wrong is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def figures(path: Path, beam: int, **changes: Any) -> Path:
    content = {
        "run": {"by": "source", "model": "gone.cepstra", "settings": {"beam": beam, "threads": 2}},
        "groups": [{"name": "words", "utterances": 830, "wer": 0.0554, "cer": 0.03, "seconds": 1.0}],
    }
    path.write_text(json.dumps(content | changes), encoding="utf-8")
    return path


def test_what_is_noted_is_shown_and_the_graphs_stay(path: Path, tmp_path: Path) -> None:
    before = read_bundle(path)
    greedy, beam = figures(tmp_path / "greedy.json", 1), figures(tmp_path / "beam.json", 4)
    cepstra(
        "bundle", "describe", path, "--name", "lamp", "--licence", "CC BY 4.0", "--evaluation", greedy,
        "--evaluation", beam,
    )  # fmt: skip
    cepstra("bundle", "describe", path, "--note", "says little")  # what was noted before stays
    after = read_bundle(path)
    rates = {"words": {"utterances": 830, "wer": 0.0554, "cer": 0.03}}
    facts = {"licence": "CC BY 4.0", "note": "says little", "error_rates": {"greedy": rates, "beam 4": rates}}
    assert after == replace(before, name="lamp", facts={"training": {"steps": 3}, **facts})
    shown = cepstra("bundle", "show", path, "--all").splitlines()
    assert "name: lamp" in shown
    assert "licence: CC BY 4.0" in shown
    assert "WER, beam 4: words 5.5 %" in shown
    assert shown[shown.index("  beam 4:") + 1] == "    words: WER 5.5 %, CER 3.0 %, 830 utterances"
    assert json.loads(cepstra("bundle", "show", path, "--json"))["error_rates"]["greedy"] == rates


def test_another_file_takes_the_notes(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    cepstra("bundle", "describe", path, "--licence", "MIT", "-o", tmp_path / "new.cepstra")
    assert path.read_bytes() == before
    assert read_bundle(tmp_path / "new.cepstra").facts["licence"] == "MIT"


def test_the_figures_that_evaluate_writes_are_taken(path: Path, tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    cepstra("evaluate", SAMPLES, "--model", path, "--json", written, "--limit", 2)
    cepstra("bundle", "describe", path, "--evaluation", written)
    (group,) = json.loads(written.read_text())["groups"]
    rates = read_bundle(path).facts["error_rates"]["greedy"]
    assert rates == {group["name"]: {"utterances": 2, "wer": group["wer"], "cer": group["cer"]}}


def test_figures_of_a_copy_are_taken_whatever_is_noted_in_it(path: Path, tmp_path: Path) -> None:
    copy, written = tmp_path / "copy.cepstra", tmp_path / "figures.json"
    cepstra("bundle", "describe", path, "--licence", "MIT", "--name", "lamp", "-o", copy)
    cepstra("evaluate", SAMPLES, "--model", copy, "--json", written, "--limit", 2)
    copy.unlink()  # the figures tell of the model without it
    cepstra("bundle", "describe", path, "--evaluation", written)
    assert "greedy" in read_bundle(path).facts["error_rates"]


OTHERS: dict[str, Callable[[Bundle], Bundle]] = {
    "weights of the encoder": lambda bundle: replace(bundle, encoder=bundle.encoder + b"\0"),
    "weights of the decoder": lambda bundle: replace(bundle, decoder=bundle.decoder + b"\0"),
    "tokens": lambda bundle: replace(bundle, tokenizer=Tokenizer.train(["an ox", "a cow"], vocab_size=40)),
    "language": lambda bundle: replace(bundle, language="de"),
    "ear": lambda bundle: replace(bundle, facts={**bundle.facts, "speech": UNTAUGHT.to_dict() | {"bias": 1.0}}),
}


@pytest.mark.parametrize("changed", OTHERS)
def test_figures_of_another_model_are_refused_and_both_are_named(path: Path, tmp_path: Path, changed: str) -> None:
    written, other = tmp_path / "figures.json", tmp_path / "other.cepstra"
    cepstra("evaluate", SAMPLES, "--model", path, "--json", written, "--limit", 1)
    write_bundle(other, OTHERS[changed](read_bundle(path)))
    before = other.read_bytes()
    path.unlink()  # or moved: a path of the same name may be another model by now
    with pytest.raises(CepstraError, match="figures of another model") as caught:
        cepstra("bundle", "describe", other, "--evaluation", written)
    measured = json.loads(written.read_text())["run"]["digest"]
    own = json.loads(cepstra("bundle", "show", other, "--json"))["digest"]
    fault = f"figures of another model: {path} ({measured[:12]}), not {other} ({own[:12]}); evaluate {other} itself"
    assert str(caught.value) == f"{written}: {fault}"
    assert other.read_bytes() == before


def test_figures_of_the_same_path_and_another_model_are_refused(path: Path, tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    cepstra("evaluate", SAMPLES, "--model", path, "--json", written, "--limit", 1)
    write_bundle(path, OTHERS["ear"](read_bundle(path)))
    with pytest.raises(CepstraError, match="figures of another model"):
        cepstra("bundle", "describe", path, "--evaluation", written)


def test_older_figures_go_by_the_file_that_they_name(path: Path, tmp_path: Path) -> None:
    """They hold no digest."""
    other = tmp_path / "other.cepstra"
    write_bundle(other, OTHERS["ear"](read_bundle(path)))
    settings = {"by": "source", "settings": {"beam": 1}}
    for model in (path, tmp_path / "gone.cepstra"):
        written = figures(tmp_path / "figures.json", 1, run={**settings, "model": str(model)})
        cepstra("bundle", "describe", path, "--evaluation", written)
    written = figures(tmp_path / "figures.json", 1, run={**settings, "model": str(other)})
    with pytest.raises(CepstraError, match="figures of another model"):
        cepstra("bundle", "describe", path, "--evaluation", written)


GROUP = {"name": "digits", "utterances": 3, "wer": 0.5, "cer": None}


ODD: list[dict[str, Any]] = [
    {"wer": "abc"}, {"wer": -3}, {"wer": True}, {"wer": [[]]}, {"wer": math.inf}, {"wer": 1e308}, {"cer": {}},
    {"utterances": "many"}, {"utterances": 1.5}, {"utterances": -1}, {"name": None}, {"name": "a\nb"},
    {"name": "x" * 3000},
]  # fmt: skip


def _edited(group: dict[str, Any], beam: object = 1) -> str:
    """Figures of a model that is no more, but for these changes."""
    run = {"by": "source", "model": "x" * 900, "settings": {"beam": beam}}
    return json.dumps({"run": run, "groups": [GROUP | group]})


def test_figures_of_a_model_that_is_no_more_are_taken(path: Path, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(_edited({}))
    assert "noted" in cepstra("bundle", "describe", path, "--evaluation", tmp_path / "old.json")
    assert read_bundle(path).facts["error_rates"]["greedy"]["digits"] == {"utterances": 3, "wer": 0.5, "cer": None}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "not figures"),
        ('{"trials": [], "total": {}}', "figures of commands, not of words"),
        ("[1]", "not figures"),
        ("{}", "not figures"),
        ('{"run": {"by": "source", "model": "x", "digest": 7, "settings": {"beam": 1}}, "groups": []}', "not figures"),
        *((_edited(change), "not figures") for change in ODD),
        *((_edited({}, beam=beam), "not figures") for beam in (-4, 1.7, True, "8", math.inf, None)),
        (json.dumps(json.loads(_edited({})) | {"groups": [GROUP, GROUP]}), "not figures"),
        (json.dumps(json.loads(_edited({})) | {"groups": {}}), "no recording was measured"),
        (json.dumps(json.loads(_edited({})) | {"groups": []}), "no recording was measured"),
        ("[" * 100_000, "not figures"),
        ('{"run": {"by": "source", "settings": {"beam": 1}}, "groups": [1]}', "not figures"),
        (
            '{"run": {"by": "speaker", "model": "gone", "settings": {"beam": 1}}, "groups": []}',
            "people's names stay out",
        ),
        (
            '{"run": {"by": "source", "model": "' + SHIPPED + '", "settings": {"beam": 1}}, "groups": []}',
            "figures of another model",
        ),
    ],
)
def test_other_files_are_refused_and_the_bundle_stays(path: Path, tmp_path: Path, content: str, fault: str) -> None:
    before, bad = path.read_bytes(), tmp_path / "bad.json"
    bad.write_text(content)
    for given in (bad, tmp_path / "none.json"):
        with pytest.raises(CepstraError, match=fault if given == bad else "can't be read") as caught:
            cepstra("bundle", "describe", path, "--evaluation", given)
        assert str(caught.value).startswith(f"{given}: ")
    assert path.read_bytes() == before


def test_the_runs_behind_a_model_are_shown_line_by_line(path: Path, toy: tuple[Trained, Bundle]) -> None:
    sources = [f"set{i}" for i in range(12)]
    write_bundle(path, replace(toy[1], facts={"earlier": [{"steps": 3}, {"steps": 5, "sources": sources}]}))
    shown = cepstra("bundle", "show", path, "--all").splitlines()
    assert shown[shown.index("earlier 1:") + 1] == "  steps: 3"
    assert shown[shown.index("earlier 2:") + 2] == f"  sources: {', '.join(sources)}"


def test_nothing_to_note_is_said(path: Path) -> None:
    with pytest.raises(CepstraError, match="nothing to note: give --name, --licence, --note or --evaluation"):
        cepstra("bundle", "describe", path)


def _size(part: bytes) -> str:
    return f"{len(part) / 1e6:.1f} MB" if len(part) >= 100_000 else f"{round(len(part) / 1000)} kB"


def test_the_summary_comes_first_and_the_rest_on_demand(path: Path, toy: tuple[Trained, Bundle]) -> None:
    facts = {
        "training": {"hours_of_data": 50.951, "sources": ["words", "books"], "steps": 4700},
        "licence": "CC BY 4.0",
        "error_rates": {
            "greedy": {
                "books": {"utterances": 8, "wer": 0.7575, "cer": 0.5},
                "words": {"utterances": 8, "wer": 0.0398, "cer": 0.03},
            }
        },
        "commands": {"bias": 1.0, "threshold": 0.2356},
        "speech": {"bias": 1.0},
    }
    write_bundle(path, replace(toy[1], facts=facts, precision="float16"))
    whole = round(path.stat().st_size / 1e6, 1)
    encoder, decoder = _size(toy[1].encoder), _size(toy[1].decoder)
    summary = [
        str(path),
        "name: toy",
        "language: en",
        f"size: {whole} MB with float16 weights (encoder {encoder}, decoder {decoder})",
        "vocabulary: 40 pieces of words",
        "sound: 16000 Hz, frames of 25 ms every 10 ms, 40 cepstra",
        "training: 51.0 hours of data: words, books",
        "licence: CC BY 4.0",
        "WER, greedy: words 4.0 %, books 75.8 %",
        "calibrated for: commands (threshold 0.24), speech or noise",
    ]
    assert cepstra("bundle", "show", path).splitlines() == [*summary, "everything else: with --all"]
    everything = cepstra("bundle", "show", path, "--all").splitlines()
    assert everything[: len(summary)] == summary
    assert "  steps: 4700" in everything
    assert json.loads(cepstra("bundle", "show", path, "--json"))["training"] == facts["training"]


def test_a_bundle_without_notes_says_what_is_missing(path: Path, toy: tuple[Trained, Bundle]) -> None:
    write_bundle(path, replace(toy[1], facts={}))
    assert cepstra("bundle", "show", path).splitlines()[-5:] == [
        "training: not noted",
        "licence: not noted",
        "WER: not noted; see `cepstra bundle describe --evaluation`",
        "calibrated for: nothing; see `cepstra bundle calibrate`",
        "everything else: with --all",
    ]


@pytest.mark.parametrize("value", [7, "x", [1], {"x": 1}, {"greedy": 7}, {"greedy": {"words": {"wer": "x"}}}, 10**400])
@pytest.mark.parametrize("key", ["training", "error_rates", "commands", "speech", "bytes", "name", "front_end"])
def test_whatever_the_facts_hold_is_shown_in_lines(
    path: Path, toy: tuple[Trained, Bundle], key: str, value: object
) -> None:
    write_bundle(path, replace(toy[1], facts={key: value}))
    assert "name: toy" in cepstra("bundle", "show", path, "--all").splitlines()


def test_a_name_in_an_error_moves_no_cursor(path: Path, toy: tuple[Trained, Bundle]) -> None:
    write_bundle(path, replace(toy[1], name="x\x1b[2J\x9by", encoder=b"no graph"))
    ended = subprocess.run(
        [sys.executable, "-m", "asr", "transcribe", "--model", path, SAMPLES.with_name("computer_speed_up.wav")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("cepstra: --model bundle x\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}y: ")
    assert ended.stderr.removesuffix("\n").isprintable()


def test_what_a_bundle_says_of_itself_moves_no_cursor(path: Path, toy: tuple[Trained, Bundle]) -> None:
    facts = {"note\x1b[1m": {"x\x07": "a\x1b[2J\rb"}, "licence": "\u202eno\x9b2J"}
    write_bundle(path, replace(toy[1], name="x\n\x1b[2Jy", facts=facts))
    shown = cepstra("bundle", "show", path, "--all")
    assert all(c == "\n" or c.isprintable() for c in shown)
    assert "name: x \N{REPLACEMENT CHARACTER}[2Jy" in shown.splitlines()


def test_the_bundle_that_ships_tells_licence_and_error_rates() -> None:
    shown = cepstra("bundle", "show")
    facts = read_bundle(DEFAULT_BUNDLE).facts
    assert "licence: " in shown
    assert {"greedy", "beam 4"} <= facts["error_rates"].keys()
    assert "words" in facts["error_rates"]["greedy"]
