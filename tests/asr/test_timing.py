"""Words with times and confidences out of tokens, and results out of pieces."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.commands import Alternative, Meaning, SpokenCommand
from asr.phrases import Command
from asr.results import Result, Word
from asr.search import Hypothesis
from asr.timing import LEAD, LONGEST_SEGMENT, PAUSE, TRAIL, Piece, assemble
from asr.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.search.backend import Floats

POSITION = 0.03  # seconds
LAMP, MUSIC = Command("lamp", {}, "turn on the lamp"), Command("music", {}, "play the music")
TOKENIZER = Tokenizer.train(["turn on the lights", "turn off the lights", "it's on"] * 3, vocab_size=45)
IDS = {TOKENIZER.token(i): i for i in range(TOKENIZER.vocab_size)}


def _heard(at: dict[int, int], positions: int) -> Floats:
    """CTC log-probabilities that read blank everywhere but for the tokens at these positions."""
    ctc = np.full((positions, TOKENIZER.vocab_size), -12.0, np.float32)
    ctc[:, 0] = -0.01
    for position, token in at.items():
        ctc[position, [0, token]] = -12.0, -0.01
    return ctc


def _said(tokens: Sequence[int], log_prob: float = -0.1) -> Hypothesis:
    return Hypothesis(tuple(tokens), (log_prob,) * (len(tokens) + 1), log_prob)


def _of(hypothesis: Hypothesis, ctc: Floats, seconds: float | None = None) -> Piece:
    return Piece.of(hypothesis, ctc, TOKENIZER, POSITION, len(ctc) * POSITION if seconds is None else seconds)


def test_words_are_where_ctc_heard_them() -> None:
    tokens = [IDS["▁t"], IDS["u"], IDS["▁o"], IDS["n"]]
    piece = _of(_said(tokens), _heard({10: tokens[0], 12: tokens[1], 13: tokens[1], 40: tokens[2], 41: tokens[3]}, 60))
    assert [w.word for w in piece.words] == ["tu", "on"]
    assert [(w.start, w.end) for w in piece.words] == [
        pytest.approx((0.30 - LEAD, 0.42 + TRAIL)), pytest.approx((1.20 - LEAD, 1.26 + TRAIL)),
    ]  # fmt: skip


def test_confidence_is_the_geometric_mean_of_a_words_tokens() -> None:
    tokens = (IDS["▁t"], IDS["u"], IDS["▁o"])
    log_probs = (math.log(0.9), math.log(0.4), math.log(0.5), math.log(0.8))  # and that of the end
    piece = _of(Hypothesis(tokens, log_probs, 0.0), _heard({}, 20))
    assert [w.confidence for w in piece.words] == pytest.approx([0.6, 0.5])
    assert piece.confidence == pytest.approx((0.9 * 0.4 * 0.5 * 0.8) ** 0.25)


@pytest.mark.parametrize("log_prob", [1e-6, 0.0, -0.0, -1e9])
def test_confidence_stays_between_0_and_1(log_prob: float) -> None:
    piece = _of(_said([IDS["▁t"], IDS["u"]], log_prob), _heard({}, 20))
    assert 0 <= piece.confidence <= 1
    assert all(0 <= w.confidence <= 1 for w in piece.words)


def test_a_lone_word_start_begins_the_next_word() -> None:
    tokens = [IDS["▁"], IDS["x"], IDS["▁"], IDS["▁"], IDS["y"], IDS["u"], IDS["▁"]]
    piece = _of(_said(tokens), _heard(dict(zip(range(0, 70, 10), tokens, strict=True)), 80))
    assert [w.word for w in piece.words] == ["x", "yu"]
    assert piece.words[0].start == pytest.approx(0.30 - LEAD)
    assert (piece.words[1].start, piece.words[1].end) == pytest.approx((1.20 - LEAD, 1.53 + TRAIL))


def test_what_is_unknown_is_left_out() -> None:
    tokens = [TOKENIZER.unk_id, IDS["▁o"], TOKENIZER.unk_id, IDS["n"], TOKENIZER.unk_id]
    piece = _of(_said(tokens), _heard({}, 40))
    assert [w.word for w in piece.words] == ["on"]


def test_a_text_without_a_word_start_is_a_word() -> None:
    assert [w.word for w in _of(_said([IDS["o"], IDS["n"]]), _heard({}, 40)).words] == ["on"]


def test_nothing_said_is_a_piece_without_words() -> None:
    piece = _of(_said([]), _heard({}, 10))
    assert piece.words == ()
    assert piece.confidence == pytest.approx(math.exp(-0.1))


def test_tokens_are_spread_evenly_where_ctc_has_no_room_for_them() -> None:
    tokens = TOKENIZER.encode("turn on the lights") * 2
    seconds = 0.12
    piece = _of(_said(tokens), _heard({}, 3), seconds)
    assert " ".join(w.word for w in piece.words) == "turn on the lights turn on the lights"
    assert piece.words[0].start == 0
    assert piece.words[-1].end == pytest.approx(seconds)
    assert all(a.end == pytest.approx(b.start) for a, b in itertools.pairwise(piece.words))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    tokens=st.lists(st.integers(3, TOKENIZER.vocab_size - 1), max_size=15),
    positions=st.integers(1, 40),
    short=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**20),
)
def test_words_are_the_decoded_text_in_order_within_the_clip(
    tokens: list[int], positions: int, short: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=4, size=(positions, TOKENIZER.vocab_size))
    ctc = (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).astype(np.float32)
    log_probs = tuple(float(p) for p in -rng.exponential(size=len(tokens) + 1))
    seconds = (positions - short) * POSITION  # the last position is seldom full
    piece = _of(Hypothesis(tuple(tokens), log_probs, 0.0), ctc, seconds)
    assert " ".join(w.word for w in piece.words) == TOKENIZER.decode(tokens)
    assert all(w.word and 0 <= w.start <= w.end <= seconds + 1e-9 and 0 <= w.confidence <= 1 for w in piece.words)
    assert all(before.end <= after.start + 1e-9 for before, after in itertools.pairwise(piece.words))
    assert 0 <= piece.confidence <= 1


# Results


def _piece(*times: tuple[float, float], confidence: float = 0.5) -> Piece:
    return Piece(tuple(Word(f"w{i}", start, end, 0.9) for i, (start, end) in enumerate(times)), confidence)


def test_pieces_are_put_together_with_right_times() -> None:
    result = assemble("a.wav", 40.0, [(0.0, _piece((1.0, 1.5))), (30.0, _piece((0.25, 0.5), (0.5, 0.75)))])
    assert result.audio_filepath == "a.wav"
    assert result.duration == 40.0
    assert [(w.start, w.end) for w in result.words] == [(1.0, 1.5), (30.25, 30.5), (30.5, 30.75)]
    assert result.text == "w0 w0 w1"
    assert [(s.start, s.end, s.text) for s in result.segments] == [(1.0, 1.5, "w0"), (30.25, 30.75, "w0 w1")]


def test_segments_end_at_pauses() -> None:
    words = [(0.0, 0.5), (0.5 + PAUSE - 0.01, 1.5), (1.5 + PAUSE + 0.01, 3.0), (3.0, 3.2)]
    result = assemble(None, 4.0, [(0.0, _piece(*words))])
    assert [s.text for s in result.segments] == ["w0 w1", "w2 w3"]


def test_segments_are_no_longer_than_a_subtitle_should_be() -> None:
    words = [(float(i), i + 1.0) for i in range(25)]
    result = assemble(None, 30.0, [(0.0, _piece(*words))])
    assert len(result.segments) == 3
    assert all(s.end - s.start <= LONGEST_SEGMENT for s in result.segments)
    long = assemble(None, 30.0, [(0.0, _piece((0.0, 12.0), (12.0, 13.0)))])
    assert [s.text for s in long.segments] == ["w0", "w1"]  # one word may be longer


def test_pieces_count_by_their_words() -> None:
    pieces = [
        (0.0, _piece((0, 1), confidence=0.8)),
        (2.0, _piece((0, 1), (1, 2), (2, 3), confidence=0.4)),
        (6.0, _piece()),
    ]
    assert assemble(None, 8.0, pieces).confidence == pytest.approx((0.8 + 3 * 0.4) / 4)
    silent = [(0.0, _piece(confidence=0.9)), (2.0, _piece(confidence=0.7))]
    assert assemble(None, 4.0, silent).confidence == pytest.approx(0.8)


def test_no_sound_at_all_is_an_empty_result() -> None:
    assert assemble("a.wav", 0.0, []) == Result("a.wav", 0.0, "", 0.0, no_speech=True)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    gaps=st.lists(st.lists(st.tuples(st.floats(0, 2), st.floats(0.01, 4)), max_size=6), max_size=4),
    confidence=st.floats(0, 1),
)
def test_segments_hold_all_words_in_order(gaps: list[list[tuple[float, float]]], confidence: float) -> None:
    pieces, start = [], 0.0
    for piece in gaps:
        at, words = 0.0, []
        for pause, length in piece:
            words.append((at + pause, at + pause + length))
            at += pause + length
        pieces.append((start, _piece(*words, confidence=confidence)))
        start += at
    result = assemble(None, start, pieces)
    assert " ".join(s.text for s in result.segments) == result.text
    assert len(result.words) == sum(map(len, gaps))
    assert 0 <= result.confidence <= 1
    assert all(s.start <= s.end for s in result.segments)
    assert all(a.end <= b.start + 1e-9 for a, b in itertools.pairwise(result.segments))
    if result.words:
        assert (result.segments[0].start, result.segments[-1].end) == (result.words[0].start, result.words[-1].end)


def _command(said: str, confidence: float) -> Piece:
    words = tuple(Word(word, 0.5 + i, 1.25 + i, 0.9) for i, word in enumerate(said.split()))
    command = Command("light", {"to": said.split()[1]}, said)
    return Piece(words, confidence, Meaning(command, confidence), seconds=4.0)


def test_every_command_of_a_long_recording_is_there_with_its_time() -> None:
    refused = Piece((), 0.2, Meaning(None, 0.2, (), "unknown-command"), seconds=3.0)
    pieces = [(0.0, refused), (5.0, _command("turn on", 0.8)), (12.5, _command("turn off", 0.95))]
    result = assemble("long.wav", 20.0, pieces)
    first, second = (piece.meaning for _, piece in pieces[1:])
    assert first is not None
    assert second is not None
    assert first.command is not None
    assert second.command is not None
    assert result.meaning is first
    assert result.confidence == 0.8
    assert result.commands == (
        SpokenCommand(first.command, 0.8, 5.5, 7.25), SpokenCommand(second.command, 0.95, 13.0, 14.75),
    )  # fmt: skip
    row = result.to_dict()
    assert row["command"] == {"intent": "light", "slots": {"to": "on"}, "sentence": "turn on"}
    off = {"intent": "light", "slots": {"to": "off"}, "sentence": "turn off"}
    assert row["commands"] == [
        {**row["command"], "confidence": 0.8, "start": 5.5, "end": 7.25},
        {**off, "confidence": 0.95, "start": 13.0, "end": 14.75},
    ]


def test_without_a_command_there_are_no_commands() -> None:
    refused = assemble("x", 3.0, [(0.0, Piece((), 0.2, Meaning(None, 0.2, (), "unknown-command"), seconds=3.0))])
    assert (refused.commands, refused.to_dict()["commands"]) == ((), [])
    assert "commands" not in assemble("x", 3.0, [(0.0, Piece((), 0.2, seconds=3.0))]).to_dict()  # of free text


@pytest.mark.parametrize(
    ("meaning", "sure"),
    [
        (Meaning(LAMP, 0.8, (Alternative(LAMP, 0.8), Alternative(MUSIC, 0.1))), 0.8),  # that it was the lamp
        (Meaning(None, 0.25, (Alternative(LAMP, 0.25), Alternative(MUSIC, 0.15)), "unknown-command"), 0.6),  # neither
        (Meaning(None, 0.9, (Alternative(LAMP, 0.9), Alternative(MUSIC, 0.1)), "unknown-command"), 0.0),
        (Meaning(None, 0.0, (), "no-speech"), 1.0),
        (Meaning(None, 0.0, (), "too-short"), 1.0),
    ],
)
def test_confidence_is_how_sure_the_answer_is(meaning: Meaning, sure: float) -> None:
    result = assemble("x", 2.0, [(0.0, Piece((), 0.5, meaning, seconds=2.0))])
    assert result.confidence == pytest.approx(sure)
    assert result.to_dict()["confidence"] == pytest.approx(sure)


def test_of_silence_every_way_of_listening_is_as_sure() -> None:
    silent = [Piece((), 1.0, meaning, silent=True) for meaning in (None, Meaning(None, 0.0, (), "no-speech"))]
    assert [assemble("x", 2.0, [(0.0, piece)]).confidence for piece in silent] == [1.0, 1.0]
    assert [assemble("x", 20.0, [(0.0, piece)] * 3).confidence for piece in silent] == [1.0, 1.0]
