"""Which command was meant, how surely, and when none was: evidence by hand, and a recogniser held to phrases."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from asr.bundle import write_bundle
from asr.cli.commands import app
from asr.commands import understand
from asr.errors import BundleError, CepstraError, ConfigError
from asr.judge import EVIDENCE, LEAD, LEAST, UNCALIBRATED, Judge, Witness, evidence
from asr.phrases import PhraseSet
from asr.recognizer import Recognizer
from asr.search import Hypothesis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.training.checkpoint import Trained

RATE = 16000
LIGHTS = "intents: {light: 'turn (on|off) the lights', music: 'play the music'}"
SAMPLES = Path(__file__).parents[2] / "data_manifests" / "samples"


def ctc_of(rows: list[list[float]]) -> NDArray[np.float32]:
    return np.log(np.array(rows, np.float32))


def test_evidence_by_hand() -> None:
    # Blank, token 1, token 2: token 1 is likeliest at first, then blank, then token 2
    ctc = ctc_of([[0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.2, 0.2, 0.6]])
    witness = Witness.of(ctc)
    assert witness.best == (1, 2)
    # 1 and 2 lie on three positions as 1-2, 12-, -12, 112, 122
    ways = (0.8 * 0.8 * 0.6, 0.8 * 0.1 * 0.2, 0.1 * 0.1 * 0.6, 0.8 * 0.1 * 0.6, 0.8 * 0.1 * 0.6)
    assert witness.text == pytest.approx(math.log(sum(ways)))
    heard = Hypothesis((1, 2), (-0.1, -0.2, -0.3), -0.2, (0.0, -0.5, -0.1), witness.text - 3)
    assert evidence(heard, 0.4, witness) == pytest.approx((0.0, 0.0, -1.5, 0.0, -0.2, -0.5, 0.4, math.log(2)), abs=1e-6)
    # Token 2 alone: blank, blank, token 2 is its likeliest alignment, which loses ln 8 at the first position
    other = Hypothesis((2,), (-1.0, -1.0), -1.0, (-3.0, -1.0), witness.text + 1)
    # … and leaves what was heard there outside; nothing is surer than CTC's own text
    weighed = (-math.log(8), -math.log(8), 0.0, -math.log(8), -2.0, -3.0, LEAD, 0.0)
    assert evidence(other, 99.0, witness) == pytest.approx(weighed, abs=1e-6)


def test_evidence_against_is_bounded() -> None:
    witness = Witness.of(ctc_of([[1 - 2e-30, 1e-30, 1e-30]] * 2))
    far = Hypothesis((1, 2), (-99.0,) * 3, -99.0, (-99.0,) * 3, -200.0)
    assert evidence(far, -99.0, witness) == (LEAST,) * 3 + (0.0,) + (LEAST,) * 2 + (-LEAD, math.log(2))
    short = evidence(Hypothesis((1, 1, 1), (0.0,) * 4, 0.0, (0.0,) * 4), 0.0, witness)  # no room for three
    assert short == (LEAST,) * 4 + (0.0, 0.0, 0.0, math.log(3))


@given(st.lists(st.floats(LEAST, 0), min_size=6, max_size=6), st.floats(0, LEAD), st.floats(0, 4))
def test_less_evidence_is_never_more_confidence(values: list[float], lead: float, length: float) -> None:
    surer = UNCALIBRATED.confidence([*(value / 2 for value in values), lead, length])
    assert 0 <= UNCALIBRATED.confidence([*values, lead, length]) <= surer <= 1
    assert UNCALIBRATED.confidence([*values, lead / 2, length]) <= UNCALIBRATED.confidence([*values, lead, length])
    assert UNCALIBRATED.confidence((0.0,) * 6 + (LEAD, length)) > 0.9
    assert UNCALIBRATED.confidence((LEAST,) * 6 + (lead, length)) < 0.01


def hypothesis_of(text: str, bundle: Bundle, score: float, deviation: float = 0.0) -> Hypothesis:
    tokens = tuple(bundle.tokenizer.encode(text))
    return Hypothesis(tokens, (-0.1,) * (len(tokens) + 1), score, (deviation,) * (len(tokens) + 1))


def test_alternatives_are_commands_and_not_wordings(toy: tuple[Trained, Bundle]) -> None:
    bundle = toy[1]
    phrases = PhraseSet.parse("intents: {on: ['turn on the lights', 'turn the lights on'], music: 'play the music'}")
    texts = ("turn the lights on", "turn on the lights", "play the music")
    found = [hypothesis_of(text, bundle, -i) for i, text in enumerate(texts)]
    witness = Witness.of(np.full((60, bundle.tokenizer.vocab_size), -3.0, np.float32))
    meaning, best = understand(found, witness, phrases, bundle.tokenizer, replace(UNCALIBRATED, threshold=0.0))
    assert best == found[0]
    assert meaning.command is not None
    assert (meaning.command.intent, meaning.command.sentence, meaning.rejected) == ("on", "turn the lights on", None)
    assert [a.command.intent for a in meaning.alternatives] == ["on", "music"]
    # "music" is the third; another wording of the same command is no rival
    assert [a.evidence[EVIDENCE.index("lead")] for a in meaning.alternatives] == [2.0, -2.0]
    assert meaning.confidence == meaning.alternatives[0].confidence
    meaning, best = understand(found, witness, phrases, bundle.tokenizer, replace(UNCALIBRATED, threshold=1.1))
    assert (meaning.command, best, meaning.rejected) == (None, found[0], "unknown-command")
    assert len(meaning.alternatives) == 2
    meaning, best = understand([], witness, phrases, bundle.tokenizer, UNCALIBRATED)
    assert (meaning.command, best, meaning.rejected, meaning.confidence) == (None, None, "too-short", 0.0)


def noise(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    wave: NDArray[np.float32] = np.random.default_rng(seed).normal(0, 0.1, int(seconds * RATE)).astype(np.float32)
    return wave


def judged(bundle: Bundle, threshold: float) -> Bundle:
    return replace(bundle, facts={**bundle.facts, "commands": replace(UNCALIBRATED, threshold=threshold).to_dict()})


def test_what_is_written_is_one_of_the_phrases(toy: tuple[Trained, Bundle]) -> None:
    phrases = PhraseSet.parse(LIGHTS)
    recognizer = Recognizer(judged(toy[1], 0.0), phrases=phrases, speech_detection=False)
    free = Recognizer(toy[1], speech_detection=False)
    clips = [noise(1.0 + 0.1 * seed, seed) for seed in range(6)]
    for clip, result in zip(clips, recognizer.transcribe(clips), strict=True):
        assert result.meaning is not None
        assert result.meaning.command is not None
        assert result.meaning.command == phrases.command(result.text)
        assert " ".join(word.word for word in result.words) == result.text
        assert all(0 <= word.start <= word.end <= result.duration for word in result.words)
        assert result.confidence == result.meaning.confidence
        alone = recognizer.transcribe(clip)
        assert alone.text == result.text
        assert alone.confidence == pytest.approx(result.confidence, abs=1e-4)
        assert free.transcribe(clip).meaning is None
    assert phrases.command(free.transcribe(clips[0]).text) is None  # it writes something else when it may


def test_below_the_threshold_nothing_is_written(toy: tuple[Trained, Bundle]) -> None:
    recognizer = Recognizer(judged(toy[1], 1.0), phrases=PhraseSet.parse(LIGHTS), speech_detection=False)
    result = recognizer.transcribe(noise(1.0))
    assert result.meaning is not None
    assert (result.text, result.words, result.meaning.command, result.meaning.rejected) == (
        "", (), None, "unknown-command",
    )  # fmt: skip
    assert {a.command.intent for a in result.meaning.alternatives} <= {"light", "music"}
    for silent in (np.zeros(RATE, np.float32), np.zeros(1, np.float32), np.zeros(0, np.float32)):
        quiet = recognizer.transcribe(silent).meaning
        assert quiet is not None
        assert (quiet.command, quiet.rejected, quiet.alternatives) == (None, "no-speech", ())


def test_a_threshold_of_ones_own(toy: tuple[Trained, Bundle]) -> None:
    clip, said = noise(1.0), ["turn on the lights", "play the music"]  # a list of sentences will do
    open_to_all = Recognizer(judged(toy[1], 1.0), phrases=said, threshold=0.0, speech_detection=False)
    assert open_to_all.transcribe(clip).text in said
    strict = Recognizer(judged(toy[1], 0.0), phrases=said, threshold=1.0, speech_detection=False)
    assert strict.transcribe(clip).text == ""
    for threshold in (-0.1, 1.1, math.nan):
        with pytest.raises(ConfigError, match=r"threshold=.* must be a number from 0 to 1"):
            Recognizer(toy[1], phrases=said, threshold=threshold)
    with pytest.raises(ConfigError, match=r"phrases=5: give a phrase file, a list of sentences, or a PhraseSet"):
        Recognizer(toy[1], phrases=5)  # type: ignore[arg-type]


def test_alternatives_share_what_one_command_can_be_sure_of(toy: tuple[Trained, Bundle]) -> None:
    texts = [f"{verb} the {thing}" for verb in ("turn on", "turn off", "play") for thing in ("lights", "music")]
    recognizer = Recognizer(judged(toy[1], 0.0), phrases=texts, speech_detection=False)
    for seed in range(5):
        meaning = recognizer.transcribe(noise(1.5, seed)).meaning
        assert meaning is not None
        sure = [alternative.confidence for alternative in meaning.alternatives]
        assert len(sure) > 1
        assert sure == sorted(sure, reverse=True)
        assert sum(sure) <= 1 + 1e-9
        assert meaning.confidence == sure[0]


def test_several_sets_are_switched_by_name(toy: tuple[Trained, Bundle]) -> None:
    sets = {"lamp": PhraseSet.parse("turn on the lights"), "music": PhraseSet.parse("play the music")}
    recognizer = Recognizer(judged(toy[1], 0.0), phrases=sets, speech_detection=False)
    clip = noise(1.0)
    assert recognizer.transcribe(clip, phrases="lamp").text == "turn on the lights"
    assert recognizer.transcribe([clip], phrases="music")[0].text == "play the music"
    assert [r.text for r in recognizer.transcribe_each([clip], phrases="lamp")] == ["turn on the lights"]  # type: ignore[union-attr]
    assert recognizer.transcribe(clip).meaning is None
    with pytest.raises(ConfigError, match=r"phrases='heat': there are no such; given were lamp, music"):
        recognizer.transcribe(clip, phrases="heat")
    with pytest.raises(ConfigError, match="none by name"):
        Recognizer(toy[1], phrases=sets["lamp"]).transcribe(clip, phrases="lamp")


@pytest.mark.parametrize(
    "facts",
    [
        {},
        7,
        {"bias": 1},
        dict.fromkeys(("bias", *EVIDENCE, "threshold"), "high"),
        [1, 2, 3],
        *({**UNCALIBRATED.to_dict(), "bias": value} for value in (10**400, 1e308, -1e308, math.nan, math.inf)),
        *({**UNCALIBRATED.to_dict(), "threshold": value} for value in (-0.1, 1.1)),
    ],
)
def test_a_calibration_that_makes_no_sense_is_refused(toy: tuple[Trained, Bundle], facts: object) -> None:
    with pytest.raises(BundleError, match="bundle toy: facts: commands holds"):
        Recognizer(replace(toy[1], facts={"commands": facts}), phrases=PhraseSet.parse(LIGHTS))


def test_a_calibration_comes_back_from_its_facts(toy: tuple[Trained, Bundle]) -> None:
    judge = Judge(1.5, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), 0.7)
    assert Judge.of(replace(toy[1], facts={"commands": json.loads(json.dumps(judge.to_dict()))})) == judge
    assert Judge.of(toy[1]) == UNCALIBRATED


def test_the_command_line_prints_the_command(toy: tuple[Trained, Bundle], tmp_path: Path) -> None:
    write_bundle(tmp_path / "toy.cepstra", judged(toy[1], 0.0))
    (tmp_path / "lights.yaml").write_text(LIGHTS)
    sound = next(SAMPLES.glob("*.wav"))
    arguments = [
        "transcribe",
        str(sound),
        "--no-speech-detection",
        "--model",
        str(tmp_path / "toy.cepstra"),
        "--phrases",
    ]
    given_phrases = [*arguments, str(tmp_path / "lights.yaml")]
    text = CliRunner().invoke(app, given_phrases, catch_exceptions=False).stdout.strip()
    assert PhraseSet.parse(LIGHTS).command(text) is not None
    row = json.loads(CliRunner().invoke(app, [*given_phrases, "-f", "json"], catch_exceptions=False).stdout)
    assert row["text"] == text == row["command"]["sentence"]
    assert row["command"]["intent"] in {"light", "music"}
    assert row["rejected"] is None
    assert row["alternatives"][0]["intent"] == row["command"]["intent"]
    with pytest.raises(CepstraError, match=r"--phrases .*none\.yaml: can't be read"):
        CliRunner().invoke(app, [*arguments, str(tmp_path / "none.yaml")], catch_exceptions=False)
