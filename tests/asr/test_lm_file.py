"""Language models in files: the same after reading; damaged, forged or foreign ones are refused with a reason."""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import GuidanceError
from asr.lm import LanguageModel, NGram, Skips, read_lm, write_lm
from asr.lm.file import digest_of
from asr.lm.training import train_lm
from asr.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from asr.search.backend import Floats

SENTENCES = ["turn on the lights", "turn off the lights", "play the music", "lights off", "play"] * 4
STARTS: tuple[list[int], ...] = ([], [4, 9], [30, 5, 7, 8, 9, 9, 9, 9, 9, 9, 4])


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(SENTENCES, vocab_size=40)


@pytest.fixture(scope="module", params=["ngram", "skips"])
def model(request: pytest.FixtureRequest, tokenizer: Tokenizer) -> LanguageModel:
    return train_lm(SENTENCES, tokenizer, kind=request.param, order=3)


@pytest.fixture
def path(model: LanguageModel, tmp_path: Path) -> Path:
    write_lm(tmp_path / "my.lm", model)
    return tmp_path / "my.lm"


def answers(model: LanguageModel) -> list[Floats]:
    found = []
    for history in STARTS:
        state = model.lm.start()
        for token in history:
            state = model.lm.advance(state, token)
        found.append(model.lm.scores(state))
    return found


def test_round_trip(path: Path, model: LanguageModel, tokenizer: Tokenizer) -> None:
    again = read_lm(path)
    assert again.name == str(path)
    assert again.facts == model.facts
    assert again.facts["sentences"] == 20
    assert type(again.lm) is type(model.lm)
    assert again.guide(tokenizer) is again.lm
    for found, expected in zip(answers(again), answers(model), strict=True):
        np.testing.assert_array_equal(found, expected)
    write_lm(path.with_name("again.lm"), again)
    assert path.with_name("again.lm").read_bytes() == path.read_bytes()
    assert read_lm(str(path)).facts == model.facts


@pytest.mark.parametrize("order", [1, 2, 5])
def test_round_trip_of_other_orders(tokenizer: Tokenizer, tmp_path: Path, order: int) -> None:
    model = train_lm(SENTENCES, tokenizer, order=order)
    write_lm(tmp_path / "my.lm", model)
    again = read_lm(tmp_path / "my.lm")
    assert isinstance(again.lm, NGram)
    assert again.lm.order == order
    for found, expected in zip(answers(again), answers(model), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_model_learnt_from_empty_texts_can_be_kept(tmp_path: Path) -> None:
    for lm in (NGram.train([(), ()], 8, 3), Skips.train([()], 8)):
        write_lm(tmp_path / "my.lm", LanguageModel(lm, "x"))
        again = read_lm(tmp_path / "my.lm").lm
        np.testing.assert_array_equal(again.scores(again.start()), lm.scores(lm.start()))


def test_another_tokenizers_model_is_refused(path: Path) -> None:
    other = Tokenizer.train(["turn on the lights", "turn on"], vocab_size=40)
    with pytest.raises(GuidanceError, match="another model's tokens; train it again with --model") as caught:
        read_lm(path).guide(other)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_forged_size_is_refused(tokenizer: Tokenizer) -> None:
    lm = NGram.train([(4, 5)], tokenizer.vocab_size - 1, 2)
    with pytest.raises(GuidanceError, match="another model's tokens"):
        LanguageModel(lm, digest_of(tokenizer)).guide(tokenizer)


def _refused(path: Path, reason: str) -> None:
    with pytest.raises(GuidanceError, match=reason) as caught:
        read_lm(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path, "not a file"),
        (tmp_path / "missing.lm", "no such file"),
        (tmp_path / "a\0b", "can't be read"),
    ):
        _refused(path, reason)
    other = tmp_path / "other.lm"
    other.write_text("hello")
    _refused(other, "not a language model, or damaged .*; train it again")
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("hello", "hello")
    _refused(other, "holds no config.json")


def _rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> None:
    """Change config and arrays, with digests put right: what somebody might make on purpose."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts.pop("config.json"))
    change(config, parts)
    if isinstance(config.get("arrays"), dict):
        for name, described in config["arrays"].items():
            if name in parts:
                described["sha256"] = hashlib.sha256(parts[name]).hexdigest()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        for name, data in parts.items():
            archive.writestr(name, data)


def _set(name: str, place: int, value: float, dtype: str) -> Callable[[dict[str, Any], dict[str, bytes]], None]:
    def change(_config: dict[str, Any], parts: dict[str, bytes]) -> None:
        array = np.frombuffer(parts[name], dtype).copy()
        array[place] = value
        parts[name] = array.tobytes()

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_set("unigram", 5, 0.9, "<f4"), "no distribution"),
        (_set("unigram", 5, np.nan, "<f4"), "no distribution"),
        (_set("unigram", 0, 0.1, "<f4"), "no distribution"),
        (_set("1.shares", 0, 0.99, "<f4"), "contexts of 1: .*add up"),
        (_set("2.shares", 0, np.nan, "<f4"), "contexts of 2: .*add up"),
        (_set("2.rest", 0, -1, "<f4"), "add up"),
        (_set("2.tokens", 0, 60000, "<u2"), "vocabulary"),
        (_set("2.tokens", 0, 1, "<u2"), "vocabulary"),
        (_set("1.keys", 0, 60000, "<u8"), "divide"),
        (_set("2.offsets", 1, 0, "<u4"), "divide"),
        (_set("2.offsets", -1, 1 << 31, "<u4"), "divide"),
        (lambda config, _: config.update(format=2), "format 2, this program reads 1"),
        (lambda config, _: config.update(kind="neural"), "kind 'neural'"),
        (lambda config, _: config.update(order=10**9), "order 1000000000 is unknown"),
        (lambda config, _: config.update(order="many"), "damaged"),
        (lambda config, _: config.update(order=math.inf), "damaged"),
        (lambda config, _: config.update(order=math.nan), "damaged"),
        (lambda config, _: config.update(window=math.inf), "damaged"),
        (lambda config, _: config.update(order=10**4000), "damaged"),
        (lambda config, _: config.update(facts=3), "damaged"),
        (lambda config, _: config["facts"].update(perplexity="low"), "facts"),
        (lambda config, _: config["facts"].update(tokens=10**400), "facts"),
        (lambda config, _: config.pop("arrays"), "damaged"),
        (lambda config, _: config["arrays"].pop("unigram"), "damaged"),
        (lambda config, _: config["arrays"]["unigram"].update(length=10**12), "unigram is not what was written"),
        (lambda _, parts: parts.pop("2.keys"), "holds no 2.keys"),
        (lambda _, parts: parts.update({"2.keys": parts["2.keys"][:-1]}), "2.keys is not what was written"),
    ],
)
def test_a_forged_one_is_refused(path: Path, change: Callable[..., None], reason: str) -> None:
    _rewrite(path, change)
    _refused(path, reason)


def _nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize("value", ["x" * 50_000, "1" * 50_000, 10**4000, ["x"] * 9999, {"x" * 9999: 1}, _nested(500)])
@pytest.mark.parametrize("key", ["format", "kind", "order", "window", "facts", "arrays"])
def test_messages_show_little_of_a_forged_value(path: Path, key: str, value: object) -> None:
    _rewrite(path, lambda config, _: config.update({key: value}))
    try:
        read_lm(path)
    except GuidanceError as error:
        message = str(error)
    else:
        assert key in {"window", "facts"}  # n-grams have no window, and facts may be any that are numbers
        return
    assert message.startswith(f"{path}: ")
    assert len(message) < len(f"{path}: ") + 150


def test_compressed_parts_are_refused_unread(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    _refused(path, "compressed")


def test_one_too_large_is_refused_unread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asr.lm.file.MAX_BYTES", 100)
    _refused(path, r"more than a language model may have \(100\)")


def test_a_write_that_fails_leaves_the_old_one(path: Path, model: LanguageModel) -> None:
    with pytest.raises(GuidanceError, match="can't be written"):
        write_lm(path.parent / "missing" / "my.lm", model)
    with pytest.raises(TypeError):
        write_lm(path, replace(model, facts={"x": cast("float", object())}))
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208  hidden files too
    assert read_lm(path).facts == model.facts


@pytest.fixture(scope="module")
def written(
    model: LanguageModel, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, bytes, LanguageModel, list[Floats]]:
    path = tmp_path_factory.mktemp("garbled") / "my.lm"
    write_lm(path, model)
    return path, path.read_bytes(), model, answers(model)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    changes=st.lists(
        st.tuples(
            st.sampled_from(["replace", "cut", "insert"]),
            # From the start, anywhere, or from the end, where the directory is: most of a zip's traps
            st.one_of(st.integers(0, 3000), st.integers(0, 1 << 20), st.integers(-1000, -1)),
            st.one_of(st.sampled_from([b"\0", b"\xff", b"\x80", b"P"]), st.binary(min_size=1, max_size=40)),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_garbled_one_is_refused_or_the_same(
    written: tuple[Path, bytes, LanguageModel, list[Floats]], changes: list[tuple[str, int, bytes]]
) -> None:
    path, content, model, expected = written
    garbled = bytearray(content)
    for kind, place, new in changes:
        at = place % len(garbled)
        garbled[at : at + (0 if kind == "insert" else len(new))] = b"" if kind == "cut" else new
    path.write_bytes(garbled)
    try:
        found = read_lm(path)
    except GuidanceError as error:
        message = str(error)
    else:
        assert (found.facts, found.tokenizer) == (model.facts, model.tokenizer)
        for mine, its in zip(answers(found), expected, strict=True):
            np.testing.assert_array_equal(mine, its)
        return
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
