"""Results: exactly the promised JSON fields, sensible decimals."""

import json

import numpy as np

from asr.results import Result, Segment, Word


def test_json_has_exactly_the_promised_fields_in_order() -> None:
    result = Result(
        audio_filepath="kitchen.wav",
        duration=1.23456,
        text="light on",
        confidence=0.98765,
        words=(Word("light", 0.1, 0.43219, 0.9), Word("on", 0.5, 0.61, 1.0)),
        segments=(Segment(0.1, 0.61, "light on"),),
    )
    assert json.dumps(result.to_dict()) == (
        '{"audio_filepath": "kitchen.wav", "duration": 1.235, "text": "light on", "confidence": 0.988, '
        '"words": [{"word": "light", "start": 0.1, "end": 0.432, "confidence": 0.9}, '
        '{"word": "on", "start": 0.5, "end": 0.61, "confidence": 1.0}], '
        '"segments": [{"start": 0.1, "end": 0.61, "text": "light on"}], '
        '"no_speech": false, "seconds_cut": 0.0}'
    )


def test_nothing_said() -> None:
    assert Result(None, 2.0, "", 1.0, no_speech=True, seconds_cut=2.0).to_dict() == {
        "audio_filepath": None,
        "duration": 2.0,
        "text": "",
        "confidence": 1.0,
        "words": [],
        "segments": [],
        "no_speech": True,
        "seconds_cut": 2.0,
    }


def test_numpy_scalars_become_plain_numbers() -> None:
    third = np.float32(1 / 3)
    result = Result(None, float(third), "a", third, (Word("a", third, third, third),), (Segment(third, third, "a"),))  # type: ignore[arg-type]  # what a careless caller passes
    assert json.loads(json.dumps(result.to_dict()))["words"][0] == {
        "word": "a",
        "start": 0.333,
        "end": 0.333,
        "confidence": 0.333,
    }
