"""The model's settings: round trip, refusals in one line, presets within their sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from asr.errors import ConfigError
from asr.model.config import PRESETS, ModelConfig, preset
from asr.model.transformer import Transformer, count_parameters
from audio.mfcc import MfccSpec

SETTINGS = ModelConfig(
    d_model=96, heads=3, encoder_layers=3, encoder_ff=100, decoder_layers=1, decoder_ff=90, stride=2, splice=0,
    windows=(3, 0), activation="gelu", positions="learned", max_positions=77, dropout=0.25,
)  # fmt: skip


@pytest.mark.parametrize("config", [ModelConfig(), SETTINGS, replace(SETTINGS, windows=())])
def test_round_trip_through_json(config: ModelConfig) -> None:
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_what_is_left_out_has_its_default() -> None:
    assert ModelConfig.from_dict({}) == ModelConfig()
    assert ModelConfig.from_dict({"d_model": 64}) == ModelConfig(d_model=64)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"d_modell": 256}, "d_model"),
        ({"layers": 3}, "encoder_layers"),
        ({"d_model": 250}, "d_model"),
        ({"d_model": 12, "heads": 4}, "d_model"),  # three wide each: positions need pairs
        ({"d_model": 0}, "d_model"),
        ({"d_model": -256, "heads": -4}, "d_model"),
        ({"d_model": 256.0}, "d_model"),
        ({"d_model": "256"}, "d_model"),
        ({"d_model": True, "heads": True}, "d_model"),
        ({"heads": 0}, "heads"),
        ({"heads": None}, "heads"),
        ({"encoder_layers": 0}, "encoder_layers"),
        ({"decoder_ff": -1}, "decoder_ff"),
        ({"stride": 0}, "stride"),
        ({"max_positions": 0}, "max_positions"),
        ({"splice": -1}, "splice"),
        ({"windows": [4, -1]}, "windows"),
        ({"windows": [1.5]}, "windows"),
        ({"windows": "44"}, "windows"),
        ({"windows": None}, "windows"),
        ({"windows": 4}, "windows"),
        ({"activation": "swish"}, "activation"),
        ({"activation": []}, "activation"),
        ({"positions": "rotary"}, "positions"),
        ({"dropout": 1.0}, "dropout"),
        ({"dropout": -0.1}, "dropout"),
        ({"dropout": float("nan")}, "dropout"),
        ({"dropout": "a little"}, "dropout"),
        ([], "mapping"),
        (None, "mapping"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        ModelConfig.from_dict(values)
    assert "\n" not in str(caught.value)


def test_an_unknown_preset_is_told_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"huge.*tiny, small, base"):
        preset("huge")
    assert preset("tiny") is PRESETS["tiny"]


@pytest.mark.parametrize(("name", "most"), [("tiny", 2.5e6), ("small", 6e6), ("base", 15e6)])
def test_presets_keep_within_their_sizes(name: str, most: float) -> None:
    model = Transformer(preset(name), MfccSpec(), vocab_size=256)  # the default
    assert 0.6 * most < count_parameters(model) <= most  # and use what they may


def test_tied_output_is_counted_once() -> None:
    config = ModelConfig(d_model=32, heads=2, encoder_layers=1, decoder_layers=1)
    small, large = (count_parameters(Transformer(config, MfccSpec(), v)) for v in (10, 11))
    assert large - small == 32 + 33  # one embedding; one row of the CTC head with its bias
