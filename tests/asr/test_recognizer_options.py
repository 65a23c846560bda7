"""Settings of a Recognizer that are of no use: each is refused by name, with its value and what is expected."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.bundle import Bundle, read_bundle
from asr.errors import ConfigError
from asr.given import brief
from asr.recognizer import DEFAULT_BUNDLE, Recognizer

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not DEFAULT_BUNDLE.exists(), reason="no model ships with this checkout")


class Idle:
    """A backend that is never asked."""

    at_once = 1

    def encode(self, samples: Any) -> Any:
        raise NotImplementedError

    def step(self, tokens: Any, cache: Any) -> Any:
        raise NotImplementedError


@cache
def shipped() -> Bundle:
    return read_bundle(DEFAULT_BUNDLE)


def is_number(value: object, least: float, most: float) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and bool(least <= value <= most)  # type: ignore[operator]


def is_whole(value: object, least: float, most: float) -> bool:
    return isinstance(value, Integral) and is_number(value, least, most)


# What each takes, told independently of the code: everything else is to be refused
TAKEN: dict[str, Callable[[object], bool]] = {
    "threads": lambda value: is_whole(value, 1, 1024),
    "beam": lambda value: is_whole(value, 1, 64),
    "ctc_weight": lambda value: value is None or is_number(value, 0, 1),
    "max_seconds": lambda value: is_number(value, 5e-324, math.inf),
    "raw": lambda value: value is None,
    "channel": lambda value: value is None or is_whole(value, 0, math.inf),
    "phrases": lambda value: value is None or isinstance(value, str) or (isinstance(value, dict) and not value),
    "threshold": lambda value: value is None or is_number(value, 0, 1),
    "lm": lambda value: value is None or isinstance(value, str),
    "lm_weight": lambda value: value is None,  # there is no lm
    "boost": lambda value: value is None or isinstance(value, str | dict),
    "speech_detection": lambda value: isinstance(value, bool),
    "backend": lambda value: value is None or value is Idle,  # a class has methods, too
    "bundle": lambda value: value is None or isinstance(value, str),
}
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=5),
    st.sampled_from([
        math.nan, math.inf, -math.inf, 0, 1, 1.5, -1, 10**400, "a", "1", b"x", "None", [1], (0.5,), {}, {5: ["a"]}, {1},
        np.array([0.5, 0.7]), np.zeros(3), np.float32(0.5), np.float64("nan"), np.int64(3), np.bool_(True),
        Decimal("0.5"), 1 + 2j, object(), Idle, print, range(3), Ellipsis,
    ]),
)  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
@settings(deadline=None, max_examples=60)
@given(value=ODD)
def test_what_an_option_cannot_be_is_refused_by_name(name: str, value: object) -> None:
    if TAKEN[name](value):
        return
    options: dict[str, Any] = {"bundle": shipped(), "backend": Idle(), name: value}
    with pytest.raises(ConfigError) as caught:
        Recognizer(**options)
    message = str(caught.value)
    assert message.startswith(f"{name}={brief(value)}")
    assert "\n" not in message
    assert re.search(r"must be|give", message)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ctc_weight", "x", "ctc_weight='x' must be a number from 0 to 1, or None"),
        ("max_seconds", "a", "max_seconds='a' must be a number of seconds above 0"),
        ("channel", 1.5, "channel=1.5 must be a whole number of at least 0, or None"),
        ("threads", True, "threads=True must be a whole number from 1 to 1024"),
        ("speech_detection", "no", "speech_detection='no' must be True or False"),
        ("raw", "PCM_16", "raw='PCM_16': give a RawFormat, or None"),
        ("backend", 5, "backend=5 has no method encode; give an object that has it, or None"),
        ("phrases", {5: ["a"]}, "phrases={5: ['a']}: give each a name that is text, not 5"),
    ],
)
def test_the_message_says_what_is_expected(name: str, value: object, message: str) -> None:
    options: dict[str, Any] = {"bundle": shipped(), "backend": Idle(), name: value}
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Recognizer(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"threads": np.int64(2), "beam": np.uint8(4)},
        {"ctc_weight": np.float32(0.5), "threshold": np.float64(0.5)},
        {"max_seconds": math.inf, "channel": 0},
        {"max_seconds": 10, "ctc_weight": 0, "threshold": 1},
    ],
)
def test_numbers_of_numpy_and_of_the_other_kind_will_do(options: dict[str, Any]) -> None:
    Recognizer(shipped(), backend=Idle(), **options)


@pytest.mark.parametrize("value", ["0.5", math.nan, -0.1, True, [0.5]])
def test_others_of_the_same_model_are_as_strict(value: Any) -> None:
    recognizer = Recognizer(shipped(), backend=Idle(), phrases=["yes", "no"])
    for make in (recognizer.at_threshold, lambda value: recognizer.sharing(phrases=["yes"], threshold=value)):
        with pytest.raises(ConfigError, match=r"^threshold=.* must be a number from 0 to 1"):
            make(value)


@pytest.mark.parametrize("name", [5, ["lamp"], {}, b"lamp"])
def test_a_name_of_phrases_that_is_no_text_is_unknown(name: Any) -> None:
    recognizer = Recognizer(shipped(), backend=Idle(), phrases={"lamp": ["on"]})
    with pytest.raises(ConfigError, match=r"^phrases=.*: there are no such; given were lamp"):
        recognizer.transcribe(np.zeros(16000, np.float32), phrases=name)
