"""The phrase files that come with Cepstra."""

from __future__ import annotations

from pathlib import Path

import pytest

from asr.bundle import read_bundle
from asr.phrases import PhraseSet
from asr.recognizer import DEFAULT_BUNDLE

FOLDER = Path(__file__).parent.parent.parent / "data_manifests" / "phrases"


@pytest.mark.parametrize(
    ("name", "fewest", "said", "intent", "slots"),
    [
        ("lights.yaml", 10_000, "please turn on the kitchen lights", "lights_on", {"room": "kitchen"}),
        (
            "restaurant.yaml",
            10**9,
            "I'd like two large mac and cheese for table 12 with ketchup please",
            "order",
            {"count": 2, "size": "large", "dish": "mac and cheese", "table": 12, "sauce": "ketchup"},
        ),
        ("kitchen.yaml", 900, "please make the congee", "cook", {"programme": "congee"}),
        ("player.yaml", 400, "Put on some drum n bass", "play", {"genre": "drum and bass"}),
        ("drone.txt", 1000, "fly up 20 meters", "(go|fly) up {1..50:height} (meter|meters)", {"height": 20}),
    ],
)
def test_they_are_read_and_understood(name: str, fewest: int, said: str, intent: str, slots: dict[str, object]) -> None:
    phrases = PhraseSet.read(FOLDER / name)
    assert phrases.sentences >= fewest
    assert phrases.compile(read_bundle(DEFAULT_BUNDLE).tokenizer).nbytes < 100_000
    command = phrases.command(said)
    assert command is not None
    assert (command.intent, command.slots) == (intent, slots)
