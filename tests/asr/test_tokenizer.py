"""The tokenizer from outside: exact round trips, fixed ids, the same vocabulary in every run, damage refused."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from asr.errors import BundleError, ConfigError, ManifestError
from asr.recognizer import DEFAULT_BUNDLE
from asr.text import normalise
from asr.tokenizer import SPECIALS, WORD_START, Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = [
    "turn on the light in the kitchen",
    "turn off the light in the living room",
    "set a timer for thirty seconds",
    "don't turn the music down",
    "it's ten o'clock",
    "what's the temperature of the kitchen",
] * 3

SLOW_START = settings(derandomize=True, deadline=None, max_examples=200)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, vocab_size=100)


def test_special_tokens_have_the_first_ids(tokenizer: Tokenizer) -> None:
    assert (tokenizer.blank_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (0, 1, 2, 3)
    assert [tokenizer.token(i) for i in range(4)] == ["<blank>", "<s>", "</s>", "<unk>"]


def test_words_begin_with_the_mark(tokenizer: Tokenizer) -> None:
    tokens = [tokenizer.token(i) for i in tokenizer.encode("turn on the light")]
    assert "".join(tokens) == "▁turn▁on▁the▁light"
    assert len(tokens) < len("▁turn▁on▁the▁light")  # it has learnt something


@pytest.mark.parametrize("text", [*TEXTS[:6], "", "a", "quixotic jazz vow", "o'clock"])
def test_round_trip(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(len(SPECIALS) <= i < tokenizer.vocab_size for i in ids)


@SLOW_START
@given(st.text("abcdefghijklmnopqrstuvwxyz' ABC.,-0123456789$%é"))
def test_round_trip_of_normalised_english(text: str) -> None:
    tokenizer = Tokenizer.train(TEXTS, vocab_size=60)
    normalised = normalise(text)
    assert tokenizer.decode(tokenizer.encode(normalised)) == normalised


@SLOW_START
@given(st.lists(st.text(), min_size=1), st.sampled_from(["en", "fr", "hi"]), st.integers(0, 100))
def test_round_trip_of_whatever_it_was_trained_on(texts: list[str], language: str, extra: int) -> None:
    normalised = [normalise(text, language) for text in texts]
    if not any(normalised):
        return
    smallest = len(SPECIALS) + len(set("abcdefghijklmnopqrstuvwxyz'▁").union(*normalised) - {" "})
    tokenizer = Tokenizer.train(normalised, vocab_size=smallest + extra)
    assert smallest <= tokenizer.vocab_size <= smallest + extra
    for text in normalised:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.unk_id not in tokenizer.encode(text)


@pytest.mark.real
def test_round_trip_of_the_corpus(corpus: Path) -> None:
    def rows(split: str) -> list[str]:
        files = sorted(corpus.glob(f"*.{split}.jsonl"))
        return [json.loads(line)["text"] for file in files for line in file.read_text(encoding="utf-8").splitlines()]

    tokenizer = Tokenizer.train(rows("train"), vocab_size=256)
    assert tokenizer.vocab_size == 256
    for text in rows("test"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_small_corpus_leaves_no_letter_unknown() -> None:
    tokenizer = Tokenizer.train(["yes", "no"], vocab_size=64)
    assert tokenizer.unk_id not in tokenizer.encode("the quick brown fox jumps over the lazy dog's bowl")


def test_letters_of_the_text_are_in_the_vocabulary() -> None:
    tokenizer = Tokenizer.train(["привет мир", "été"], vocab_size=64)
    assert tokenizer.decode(tokenizer.encode("тир ремитé")) == "тир ремитé"


def test_an_unknown_letter_becomes_unk_and_is_left_out(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("ten ж")
    assert tokenizer.unk_id in ids
    assert tokenizer.decode(ids) == "ten"
    assert tokenizer.encode("\ud800")[-1] == tokenizer.unk_id


@pytest.mark.parametrize("text", ["<s>", "<blank>", "</s><unk>"])
def test_text_never_spells_a_special_token(tokenizer: Tokenizer, text: str) -> None:
    assert not {tokenizer.blank_id, tokenizer.bos_id, tokenizer.eos_id} & set(tokenizer.encode(text))


def test_any_white_space_is_one_space(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("  turn \t on\n") == tokenizer.encode("turn on")


def test_decode_takes_what_a_decoder_may_write(tokenizer: Tokenizer) -> None:
    mark = next(i for i in range(tokenizer.vocab_size) if tokenizer.token(i) == WORD_START)
    letter = next(i for i in range(tokenizer.vocab_size) if tokenizer.token(i) == "a")
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode([1, letter, 0, mark, mark, 3, letter, mark, 2]) == "a a"


@pytest.mark.parametrize("token_id", [-1, 100, 10**9])
def test_an_id_out_of_range_is_refused(tokenizer: Tokenizer, token_id: int) -> None:
    with pytest.raises(BundleError, match="vocabulary of 100"):
        tokenizer.decode([5, token_id])
    with pytest.raises(BundleError, match=str(token_id)):
        tokenizer.token(token_id)


def test_the_order_of_the_texts_does_not_matter(tokenizer: Tokenizer) -> None:
    shuffled = random.Random(1).sample(TEXTS, len(TEXTS))
    assert Tokenizer.train(shuffled, vocab_size=100) == tokenizer


def test_how_often_a_text_occurs_matters(tokenizer: Tokenizer) -> None:
    assert Tokenizer.train([*TEXTS, *["quiz"] * 50], vocab_size=100) != tokenizer


def test_the_same_vocabulary_in_every_process() -> None:
    program = (
        "import json, sys; from asr.tokenizer import Tokenizer;"
        "sys.stdout.buffer.write(Tokenizer.train(set(json.load(sys.stdin)), 80).to_json().encode())"
    )
    # Every text once and all counts tied: whatever order the process has inside would show.
    texts = [f"{a}{b}{c}" for a in "bcdf" for b in "aeiou" for c in "gklm"]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(texts).encode(),
            env={**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed, threads in [("1", "1"), ("2", "2"), ("3", "4")]
    }
    assert len(outputs) == 1
    assert Tokenizer.from_json(outputs.pop().decode()) == Tokenizer.train(texts, 80)


@pytest.mark.parametrize("texts", [[], [""], ["", "  \n"]])
def test_no_text_is_refused(texts: list[str]) -> None:
    with pytest.raises(ManifestError, match="no text to learn from"):
        Tokenizer.train(texts)


@pytest.mark.parametrize("text", ["<s>", "a ▁b"])
def test_text_that_is_not_normalised_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="normalise"):
        Tokenizer.train([text])


def test_the_smallest_vocabulary_is_named_and_works() -> None:
    with pytest.raises(ConfigError, match=r"vocab_size 20 is too small.*at least 33") as refused:
        Tokenizer.train(["é"], vocab_size=20)
    assert "\n" not in str(refused.value)
    tokenizer = Tokenizer.train(["é"], vocab_size=33)  # a to z, apostrophe, word start, é and four special tokens
    assert tokenizer.vocab_size == 33
    assert tokenizer.decode(tokenizer.encode("é a")) == "é a"


def test_json_round_trip(tokenizer: Tokenizer) -> None:
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again == tokenizer
    assert hash(again) == hash(tokenizer)
    assert again.to_json() == tokenizer.to_json()
    assert again.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])
    assert tokenizer != "a string"
    assert repr(tokenizer) == "Tokenizer(vocab_size=100)"


def test_files_pickles_and_copies(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tökenizer.json"
    tokenizer.save(path)
    assert Tokenizer.load(str(path)) == tokenizer
    assert list(tmp_path.iterdir()) == [path]
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer  # noqa: S301 -- our own bytes
    assert copy.deepcopy(tokenizer).encode("turn on") == tokenizer.encode("turn on")


# The library is the reference: built here from the same vocabulary and merges, it writes the same file and ids


def library(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> tokenizers.Tokenizer:
    reference = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token=SPECIALS[3]))
    reference.pre_tokenizer = pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always", split=True)
    reference.decoder = decoders.Metaspace(replacement=WORD_START, prepend_scheme="always", split=True)
    reference.add_special_tokens(list(SPECIALS))
    reference.encode_special_tokens = True
    return reference


def reference_ids(reference: tokenizers.Tokenizer, text: str) -> list[int]:
    words = [word.encode("utf-8", "replace").decode() for word in text.split()]
    return [i for word in words for i in reference.encode(word).ids]


def parts_of(tokenizer: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = json.loads(tokenizer.to_json())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


# Few letters, so that merges overlap and compete; marks within words; what spells a special token; all of Unicode
CROWDED = st.text("ab▁ ", max_size=40)
STRANGE = st.text(st.characters(), max_size=20)
SPECIAL = st.lists(st.sampled_from([*SPECIALS, "▁", "a", "ж", "é", "e\u0301", "\0", "\ud800", " "])).map("".join)


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Any merges in any order, some of them twice: what no training makes, but a file may hold."""
    pieces = ["▁", "a", "b", *draw(st.sets(st.characters(exclude_categories=["Cs"], exclude_characters="▁ab")))][:9]
    merges = []
    for _ in range(draw(st.integers(0, 25))):
        left, right = draw(st.sampled_from(pieces)), draw(st.sampled_from(pieces))
        if len(left + right) < 12:
            merges.append((left, right))
            pieces += [left + right] * (left + right not in pieces)
    merges = draw(st.permutations(merges + merges[:2]))
    return {piece: i for i, piece in enumerate([*SPECIALS, *draw(st.permutations(pieces))])}, merges


@settings(derandomize=True, deadline=None, max_examples=1000)
@given(vocabularies(), st.one_of(CROWDED, STRANGE, SPECIAL))
def test_any_vocabulary_encodes_as_in_the_library(
    parts: tuple[dict[str, int], list[tuple[str, str]]], text: str
) -> None:
    ours, reference = Tokenizer(*parts), library(*parts)
    assert ours.encode(text) == reference_ids(reference, text)
    assert ours.to_json() == reference.to_str()


@SLOW_START
@given(st.lists(st.one_of(CROWDED, st.text("abcde ", min_size=1)), min_size=1), st.integers(0, 60), st.data())
def test_learnt_vocabularies_encode_as_in_the_library(texts: list[str], extra: int, data: st.DataObject) -> None:
    texts = [text.replace(WORD_START, "") for text in texts]
    if not any(text.split() for text in texts):
        return
    ours = Tokenizer.train(texts, vocab_size=32 + extra)
    reference = library(*parts_of(ours))
    assert ours.to_json() == reference.to_str()
    for text in (*texts, data.draw(st.one_of(CROWDED, STRANGE, SPECIAL))):
        assert ours.encode(text) == reference_ids(reference, text)


@pytest.mark.real
def test_the_corpus_encodes_as_in_the_library(corpus: Path) -> None:
    files = sorted(corpus.glob("*.train.jsonl"))
    texts = {json.loads(line)["text"] for file in files for line in file.read_text(encoding="utf-8").splitlines()}
    ours = Tokenizer.train(texts, vocab_size=512)
    reference = library(*parts_of(ours))
    for text in texts:
        assert ours.encode(text) == reference_ids(reference, text)


def test_a_word_without_end_is_encoded_too(tokenizer: Tokenizer) -> None:
    word = "turnonthelight" * 10_000
    assert tokenizer.encode(word) == reference_ids(library(*parts_of(tokenizer)), word)


def test_learning_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=r"tokenizers is not installed; run: pip install 'cepstra\[train\]'"):
        Tokenizer.train(TEXTS)


def test_the_shipped_file_is_written_again_to_the_byte() -> None:
    text = zipfile.ZipFile(DEFAULT_BUNDLE).read("tokenizer.json").decode()
    assert Tokenizer.from_json(text).to_json() == text == tokenizers.Tokenizer.from_str(text).to_str()


def test_the_library_reads_the_file_alike(tokenizer: Tokenizer) -> None:
    theirs = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    for text in TEXTS[:6]:
        ids = tokenizer.encode(text)
        assert theirs.encode(text).ids == ids
        assert theirs.decode([1, *ids, 2]) == text


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"absent\.json"):
        Tokenizer.load(tmp_path / "absent.json")
    with pytest.raises(BundleError, match=tmp_path.name):
        Tokenizer.load(tmp_path)
    (tmp_path / "latin.json").write_bytes(b"\xe9")
    with pytest.raises(BundleError, match=r"latin.json: not UTF-8"):
        Tokenizer.load(tmp_path / "latin.json")
    (tmp_path / "empty.json").write_bytes(b"")
    with pytest.raises(BundleError, match=r"empty.json: .*not JSON"):
        Tokenizer.load(tmp_path / "empty.json")


def test_a_file_that_cannot_be_written_is_named(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        tokenizer.save(tmp_path / "absent" / "tokenizer.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="can't be written"):
        tokenizer.save(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def _set(*keys: str | int, value: object) -> Callable[[dict[str, object]], None]:
    def change(content: dict[str, object]) -> None:
        place: Any = content
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("model", value=None), "model"),
        (_set("model", "type", value="WordPiece"), "not byte-pair encoding"),
        (_set("model", "vocab", value=[]), "vocab"),
        (_set("model", "merges", value=None), "merges"),
        (_set("model", "vocab", "turn", value=1000), "ids are not 0 to"),
        (_set("model", "vocab", "a", value="7"), "not a whole number"),
        (_set("model", "vocab", "a", value=True), "not a whole number"),
        (_set("model", "vocab", "<s>", value=2), "ids are not"),
        (_set("model", "vocab", "", value=100), "empty"),
        (_set("model", "vocab", "\ud800", value=100), "not Unicode"),
        (_set("model", "merges", 0, value=["a"]), "not a merge"),
        (_set("model", "merges", 0, value=7), "not a merge"),
        (_set("model", "merges", 0, value=["a", 7]), "not a merge"),
        (_set("model", "merges", 0, value=["a", "zzz"]), "'zzz', not in the vocabulary"),
        (_set("model", "merges", 0, value=["<s>", "a"]), "not in the vocabulary"),
        (_set("model", "byte_fallback", value=True), "not byte-pair encoding"),
        (_set("normalizer", value={"type": "Lowercase"}), "not byte-pair encoding"),
        (_set("pre_tokenizer", value={"type": "ByteLevel"}), "not byte-pair encoding"),
        (_set("pre_tokenizer", "prepend_scheme", value="never"), "not byte-pair encoding"),
    ],
)
def test_damage_is_named(tokenizer: Tokenizer, change: Callable[[dict[str, object]], None], message: str) -> None:
    content = json.loads(tokenizer.to_json())
    change(content)
    with pytest.raises(BundleError, match=message) as refused:
        Tokenizer.from_json(json.dumps(content))
    assert "\n" not in str(refused.value)


def test_special_tokens_elsewhere_are_refused(tokenizer: Tokenizer) -> None:
    content = json.loads(tokenizer.to_json())
    vocabulary = content["model"]["vocab"]
    vocabulary["<s>"], vocabulary["a"] = vocabulary["a"], vocabulary["<s>"]
    with pytest.raises(BundleError, match="doesn't begin with <blank>"):
        Tokenizer.from_json(json.dumps(content))


def test_merges_in_the_older_form_are_read(tokenizer: Tokenizer) -> None:
    content = json.loads(tokenizer.to_json())
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    assert Tokenizer.from_json(json.dumps(content)) == tokenizer


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '"model"', "[" * 100_000, "{}", '{"model": {}}', "\x00"])
def test_what_is_no_tokenizer_is_refused(text: str) -> None:
    with pytest.raises(BundleError, match="tokenizer: "):
        Tokenizer.from_json(text)


@SLOW_START
@given(st.data())
def test_changed_characters_are_refused_or_harmless(tokenizer: Tokenizer, data: st.DataObject) -> None:
    characters = list(tokenizer.to_json())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(characters) - 1))
        characters[place] = data.draw(st.sampled_from(['"', "}", "[", "0", "9", "a", "", "\\", ",", "é"]))
    try:
        changed = Tokenizer.from_json("".join(characters))
    except BundleError:
        return
    assert all(0 <= i < changed.vocab_size for i in changed.encode("turn on the light"))
