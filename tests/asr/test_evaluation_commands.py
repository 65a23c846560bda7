"""How well commands are understood: counts, thresholds and calibration by hand, the table, the page and the command."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from asr.cli.commands import app
from asr.cli.evaluate import PHRASES, Asked, By
from asr.cli.evaluate_commands import evaluate_commands_with
from asr.commands import Alternative, Meaning
from asr.errors import PhrasesError
from asr.evaluation.command_table import threshold_lines
from asr.evaluation.commands import CommandEvaluation, CommandScore, Trial, calibration_error
from asr.evaluation.nearest import MOST, Nearest
from asr.phrases import Command, PhraseSet
from asr.results import Result

if TYPE_CHECKING:
    from asr.commands import Reason
    from asr.manifest import Utterance

LIGHT = PhraseSet.parse("intents: {on: ['light on', 'lamp on'], off: 'light off', dim: 'dim to {n}'}\nlists: {n: 1..9}")
ON, OFF = Command("on", {}, "light on"), Command("off", {}, "light off")
SAMPLES = Path(__file__).parents[2] / "data_manifests" / "samples"


def trial(meant: Command | None, likeliest: Command | None, confidence: float, *, accepted: bool) -> Trial:
    return Trial("a.wav", "home", "light on", meant, likeliest, confidence, accepted)


TRIALS = [
    trial(ON, Command("on", {}, "lamp on"), 0.9, accepted=True),  # another wording of the same command
    trial(ON, OFF, 0.8, accepted=True),
    trial(OFF, OFF, 0.3, accepted=False),
    trial(OFF, None, 0.0, accepted=False),
    trial(None, ON, 0.7, accepted=True),
    trial(None, ON, 0.2, accepted=False),
    trial(None, None, 0.0, accepted=False),
]


def test_counts_by_hand() -> None:
    total = CommandEvaluation.of(TRIALS).total
    assert total == CommandScore("total", 4, 1, 1, 2, 3, 1)
    assert (total.accuracy, total.false_reject_rate) == (0.25, 0.5)
    assert total.false_accept_rate == pytest.approx(1 / 3)
    assert CommandScore.of("none", []).accuracy is None
    assert CommandScore.of("none", []).false_accept_rate is None
    assert CommandScore.of("none", []).false_reject_rate is None


def test_a_threshold_of_ones_own() -> None:
    evaluation = CommandEvaluation.of(TRIALS)
    low = evaluation.at(0.25)  # the command of confidence 0.3 comes through, and nothing else that was refused
    assert (low.understood, low.misunderstood, low.refused, low.false_accepts) == (2, 1, 1, 1)
    assert evaluation.at(0.0).false_accepts == 2  # where nothing was found there is nothing to accept
    strict = evaluation.threshold_for(0.0)
    assert strict == pytest.approx(0.75)  # between 0.7, which must be refused, and 0.8
    assert evaluation.at(0.75).false_accepts == 0
    third = evaluation.threshold_for(1 / 3)
    assert third == pytest.approx(0.25)
    assert evaluation.threshold_for(1.0) == 0.0
    assert CommandEvaluation.of(TRIALS[:4]).threshold_for(0.01) is None


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 1)), max_size=30),
    st.floats(0, 1),
)
@example(drawn=[(False, True, 1.0)], rate=0.0)
def test_a_threshold_keeps_its_word_and_a_lower_one_does_not(
    drawn: list[tuple[bool, bool, float]], rate: float
) -> None:
    trials = [
        trial(ON if is_command else None, ON if found else None, confidence, accepted=False)
        for is_command, found, confidence in drawn
    ]
    evaluation = CommandEvaluation.of(trials)
    threshold = evaluation.threshold_for(rate)
    if threshold is None:
        assert all(t.meant for t in trials)
        return
    allowed = int(rate * evaluation.total.others + 1e-9)
    assert evaluation.at(threshold).false_accepts <= allowed
    below = [t.confidence for t in trials if t.confidence < threshold and t.likeliest is not None and not t.meant]
    if below:
        assert evaluation.at(max(below)).false_accepts > allowed


def test_calibration_error_by_hand() -> None:
    # 0.15 and 0.19 share a bin: mean 0.17, half of them right; 0.95 is right; 1.0 belongs to the last bin
    error = calibration_error([0.15, 0.19, 0.95, 1.0], [True, False, True, True])
    assert error == pytest.approx((2 * abs(0.17 - 0.5) + abs(1.95 - 2)) / 4)
    assert calibration_error([], []) is None
    assert calibration_error([1.0, 0.0], [True, False]) == 0


def test_the_curve_goes_from_nothing_to_everything() -> None:
    curve = CommandEvaluation.of(TRIALS).curve()
    assert (curve[0][1].understood, curve[0][1].false_accepts) == (0, 0)
    assert (curve[-1][1].understood, curve[-1][1].false_accepts) == (2, 2)
    accepts = [score.false_accepts for _, score in curve]
    assert accepts == sorted(accepts)


def test_thresholds_are_named_where_there_are_others_enough() -> None:
    others = [trial(None, ON, 0.01 * place, accepted=False) for place in range(40)]
    lines = threshold_lines(CommandEvaluation.of([*TRIALS[:2], *others]))
    # Two of the forty may be taken, of 0.39 and 0.38; both commands are, and one of them is another one
    (line,) = lines[1:]
    assert line == (
        "Threshold for at most 5 % of the other recordings taken: 0.375; of the commands 50.0 % right, 50.0 % wrong, "
        "0.0 % refused"
    )


def test_nearest_by_letters() -> None:
    near = Nearest(LIGHT).trial("a.wav", "home", "light on", ON, "Lite on!")
    # l-i-t-e- -o-n to l-i-g-h-t- -o-n: two letters inserted, one dropped
    assert near.right
    assert near.confidence == pytest.approx(1 - 3 / 8)
    assert Nearest(LIGHT).trial("a.wav", "home", "", None, "  ").likeliest is None
    five = Nearest(LIGHT).trial("a.wav", "home", "dim to five", LIGHT.command("dim to five"), "dim to fine")
    assert five.right
    assert five.likeliest is not None
    assert five.likeliest.slots == {"n": 5}
    with pytest.raises(PhrasesError, match=f"too many to compare one by one .up to {MOST}"):
        Nearest(PhraseSet.parse("intents: {a: '{n} {n:m}'}\nlists: {n: 1..999}"))


class Commander:
    """Says of a file name what a table says: the command's text, and how sure it is."""

    def __init__(self, table: dict[str, tuple[str, float, bool]]) -> None:
        self.table = table

    def transcribe(self, sources: list[Utterance], /, *, phrases: str | None = None) -> list[Result]:
        results = []
        for source in sources:
            text, confidence, accepted = self.table[source.audio_filepath.name]
            command = LIGHT.command(text)
            meaning = Meaning(None, 0.0, (), "no-speech")
            if command is not None:
                chosen = command if accepted else None
                reason: Reason | None = None if accepted else "unknown-command"
                meaning = Meaning(chosen, confidence, (Alternative(command, confidence),), reason)
            results.append(Result("x", 1.0, text, 1.0, meaning=meaning if phrases == PHRASES else None))
        return results


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "some.jsonl"
    rows = [
        {"audio_filepath": "a.wav", "duration": 1.0, "text": "Light on.", "source": "home"},
        {"audio_filepath": "b.wav", "duration": 1.0, "text": "dim to 5", "source": "home"},
        {"audio_filepath": "<c>.wav", "duration": 1.0, "text": "so it goes", "source": "<books>"},
        {"audio_filepath": "d.wav", "duration": 1.0, "text": "", "source": "noise"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def measured(
    manifest: Path, *, report: Path | None = None, figures: Path | None = None, nearest: bool = False
) -> tuple[int, str]:
    out = io.StringIO()
    commander = Commander({
        "a.wav": ("light on", 0.9, True), "b.wav": ("dim to nine", 0.8, True), "<c>.wav": ("light off", 0.4, True),
        "d.wav": ("", 0.0, False),
    })  # fmt: skip
    console = Console(file=out, width=100)
    asked = Asked([manifest], "toy", {"beam": 1}, report, figures, None, By.SOURCE, console, console)
    return evaluate_commands_with(lambda: commander, asked, LIGHT, nearest=nearest), out.getvalue()


def test_the_table(manifest: Path) -> None:
    code, out = measured(manifest, nearest=True)
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    # commands right wrong refused right% other taken taken%
    assert rows["home"] == ["2", "1", "1", "0", "50.0", "0", "0", "-"]
    assert rows["<books>"] == ["0", "0", "0", "0", "-", "1", "1", "100.0"]
    assert rows["total"] == ["2", "1", "1", "0", "50.0", "2", "1", "50.0"]
    assert "Threshold for" not in out  # two others can't tell a twentieth from nothing
    assert "Free text and its nearest sentence: 50.0 % right, 50.0 % of the others taken for a command" in out


@pytest.mark.parametrize(
    ("texts", "commands"),
    [
        (["so it goes", "here and there"], 0),
        (["so it goes"] * 30 + ["light on"], 1),  # one in 31 is no reason to measure them
        (["", "so it goes", ""], 0),  # what says nothing is noise
    ],
)
def test_recordings_of_other_sentences_are_told_before_anything_is_measured(
    tmp_path: Path, texts: list[str], commands: int
) -> None:
    code, err = told(tmp_path / "other.jsonl", texts)
    assert code == 0
    spoken = sum(bool(text) for text in texts)
    assert err == (
        f"{tmp_path / 'other.jsonl'}: {commands} of {spoken} texts are sentences of {LIGHT.name} "
        "('so it goes' is none), so the figures hardly say how well its commands are understood; "
        "give the phrase file that belongs to these recordings, or recordings of its sentences\n"
    )


@pytest.mark.parametrize(
    "texts",
    [
        ["", ""],  # noise alone: how much of it is taken for commands
        ["Light on!", "dim to 5", *["so it goes"] * 30],
        ["light on"] * 10 + ["so it goes"] * 1000,  # commands enough, whatever stands beside
    ],
)
def test_recordings_of_its_sentences_are_no_doubt(tmp_path: Path, texts: list[str]) -> None:
    assert told(tmp_path / "mine.jsonl", texts) == (0, "")


def told(manifest: Path, texts: list[str]) -> tuple[int, str]:
    """Exit code, and what is said on standard error, of recordings with these texts."""
    rows = [{"audio_filepath": f"{i}.wav", "duration": 1.0, "text": text} for i, text in enumerate(texts)]
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    err = io.StringIO()
    commander = Commander({f"{i}.wav": ("light on", 0.9, True) for i in range(len(texts))})
    consoles = Console(file=io.StringIO()), Console(file=err)
    asked = Asked([manifest], "toy", {"beam": 1}, None, None, None, By.SOURCE, *consoles)
    return evaluate_commands_with(lambda: commander, asked, LIGHT, nearest=False), err.getvalue()


class Page(HTMLParser):
    """Tags that are open must be closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag != "meta":
            self.open.append(tag)
        assert tag not in ("script", "link", "img", "books", "c")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def test_page_and_figures(manifest: Path, tmp_path: Path) -> None:
    code, _ = measured(manifest, report=tmp_path / "r.html", figures=tmp_path / "f.json", nearest=True)
    assert code == 0
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    page.feed("")
    assert page.open == []
    said = " ".join(page.said)
    for part in ("<books>", "taken for a command", "misunderstood", "so it goes", "Expected calibration error"):
        assert part in said
    # One path for each way, from accepting nothing (no command understood, at the upper left) to accepting all
    paths = re.findall(r'<path d="(M70\.0 20\.0[^"]*)"', text)
    assert len(paths) == 2
    assert paths[0].endswith("H573.8V180.0")  # half of the others: 70 + 560 (1 + log10(0.5) / 3); half of the commands
    figures = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert figures["total"]["understood"] == 1
    assert figures["nearest"]["total"]["false_accepts"] == 1
    assert figures["thresholds"]["0.01"] == pytest.approx(0.6)
    assert figures["trials"][1]["meant"]["slots"] == {"n": 5}


def test_a_page_without_others_or_commands(manifest: Path, tmp_path: Path) -> None:
    rows = manifest.read_text(encoding="utf-8").splitlines()
    for kept in (rows[:2], rows[2:]):
        manifest.write_text("\n".join(kept) + "\n", encoding="utf-8")
        assert measured(manifest, report=tmp_path / "r.html")[0] == 0
        assert "<svg" not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_the_command_line(tmp_path: Path) -> None:
    runner = CliRunner()
    manifest = SAMPLES / "samples.jsonl"
    refused = runner.invoke(app, ["evaluate", str(manifest), "--nearest"])
    assert refused.exit_code == 2
    assert "says nothing without --phrases" in refused.output
    phrases = tmp_path / "p.txt"
    texts = [json.loads(line)["text"] for line in manifest.read_text(encoding="utf-8").splitlines()]
    phrases.write_text("\n".join(texts[:4]) + "\n", encoding="utf-8")
    done = runner.invoke(app, ["evaluate", str(manifest), "--phrases", str(phrases), "--nearest"])
    assert done.exit_code == 0, done.output
    (total,) = (line.split() for line in done.output.splitlines() if line.split()[:1] == ["total"])
    assert (total[1], total[6]) == ("4", str(len(texts) - 4))
    assert runner.invoke(app, ["evaluate", str(manifest), "--phrases", str(phrases), "--json", str(phrases)]).exception
    assert phrases.read_text(encoding="utf-8").splitlines() == texts[:4]
