"""The bundle: the same parts make the same file, whole or not at all; whatever else is there is refused by name."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr import bundle as module
from asr.bundle import Bundle, read_bundle, write_bundle
from asr.errors import BundleError
from asr.model.config import ModelConfig
from asr.runtime import OnnxBackend
from asr.tokenizer import Tokenizer
from audio.mfcc import MfccSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.training.checkpoint import Trained

PARTS = ("config.json", "encoder.onnx", "decoder.onnx", "tokenizer.json")


@pytest.fixture(scope="module")
def small() -> Bundle:
    """Whole but for its graphs, which reading doesn't look into."""
    return Bundle(
        b"encoder" * 30,
        b"decoder" * 20,
        Tokenizer.train(["turn on the lights"] * 2, vocab_size=40),
        MfccSpec(n_cepstra=13, spread=(2.5,) * 13),
        ModelConfig(d_model=32, heads=2, windows=(3, 0)),
        "en",
        "a naïve name 語",
        facts={"licence": "Apache-2.0", "wer": {"test": 0.25}, "sources": ["a", "b"], "note": "ü", "nothing": None},
    )


@pytest.fixture
def path(small: Bundle, tmp_path: Path) -> Path:
    target = tmp_path / "model.cepstra"
    write_bundle(target, small)
    return target


def _refused(path: Path, reason: str) -> None:
    with pytest.raises(BundleError, match=reason) as caught:
        read_bundle(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 500
    assert not re.search("zip file|magic|header|central|CRC", message)  # the format's words, not ours


def test_round_trip(path: Path, small: Bundle) -> None:
    assert read_bundle(path) == small
    assert read_bundle(str(path)) == small


def test_a_real_one_runs_after_the_round_trip(toy: tuple[Trained, Bundle], tmp_path: Path) -> None:
    write_bundle(tmp_path / "ü 語.cepstra", toy[1])
    again = read_bundle(tmp_path / "ü 語.cepstra")
    assert again == toy[1]
    OnnxBackend(again, threads=1)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda b: {"model": replace(b.model, decoder_layers=3)}, r"memory_k .*\(3, None"),
        (lambda b: {"model": replace(b.model, d_model=8192)}, "memory_k"),
        (lambda _: {"tokenizer": Tokenizer.train(["on"] * 2, vocab_size=33)}, "ctc"),
        (lambda b: {"encoder": b.decoder}, r"encoder\.onnx"),
        (lambda _: {"decoder": b"no graph"}, "refuses"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused_before_they_run(
    toy: tuple[Trained, Bundle], change: Callable[[Bundle], dict[str, Any]], named: str
) -> None:
    with pytest.raises(BundleError, match=named) as caught:
        OnnxBackend(replace(toy[1], **change(toy[1])), threads=1)
    assert "\n" not in str(caught.value)


def test_the_same_parts_make_the_same_file(path: Path, small: Bundle) -> None:
    first = path.read_bytes()
    write_bundle(path, small)
    assert path.read_bytes() == first
    assert path.stat().st_mode & 0o777 == 0o644


def test_any_zip_program_can_look_inside(path: Path, small: Bundle) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert [info.filename for info in archive.infolist()] == list(PARTS)
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.read("encoder.onnx") == small.encoder
        config = json.loads(archive.read("config.json"))
    assert config["format"] == 2
    assert config["name"] == small.name
    assert config["sha256"]["decoder.onnx"] == hashlib.sha256(small.decoder).hexdigest()


# Writing, whole or not at all


def test_a_write_that_fails_leaves_the_old_one(path: Path, small: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BundleError, match=r"model\.cepstra: .*No space left"):
        write_bundle(path, replace(small, name="new"))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208  hidden files too


@pytest.mark.parametrize("value", [object(), float("nan"), float("-inf")])
def test_facts_that_are_no_json_leave_nothing_behind(small: Bundle, tmp_path: Path, value: object) -> None:
    with pytest.raises(BundleError, match="facts"):
        write_bundle(tmp_path / "new.cepstra", replace(small, facts={"wer": value}))
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(small: Bundle, tmp_path: Path) -> None:
    for target in (tmp_path / "missing" / "model.cepstra", tmp_path):
        with pytest.raises(BundleError, match="can't be written") as caught:
            write_bundle(target, small)
        assert str(target) in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert not [p for p in tmp_path.parent.iterdir() if p.name.startswith(f".{tmp_path.name}.")]


def test_a_link_is_followed_and_a_device_stays_one(path: Path, small: Bundle, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    write_bundle(tmp_path / "link", replace(small, name="new"))
    assert (tmp_path / "link").is_symlink()
    assert read_bundle(path).name == "new"
    (tmp_path / "null").symlink_to("/dev/null")
    write_bundle(tmp_path / "null", small)
    assert (tmp_path / "null").is_char_device()


# Reading, never trusting


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    _refused(tmp_path / "gone.cepstra", "no such file")
    _refused(tmp_path, "not a file")
    (tmp_path / "text").write_text("turn on the lights\n" * 50)
    _refused(tmp_path / "text", "not a bundle")
    (tmp_path / "empty").write_bytes(b"")
    _refused(tmp_path / "empty", "not a bundle")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("hello.txt", "hello")
    _refused(tmp_path / "other.zip", r"holds no config\.json")
    _refused(tmp_path / ("long" * 100), "can't be read")
    _refused(tmp_path / "text" / "below", "can't be read")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_one_is_refused(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    _refused(path, "not a bundle, or damaged")


def test_one_too_large_is_refused_unread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    _refused(path, "more than a bundle may have")


def _rewrite(path: Path, change: Callable[[dict[str, bytes]], None], compression: int = zipfile.ZIP_STORED) -> None:
    """The same file with other parts, sound as a zip."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in PARTS}
    change(parts)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def _configure(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """The same file with another config.json: what the change returns, or else what it made of the old."""

    def apply(parts: dict[str, bytes]) -> None:
        config = json.loads(parts["config.json"])
        answer = change(config)
        parts["config.json"] = answer if isinstance(answer, bytes) else json.dumps(answer or config).encode()

    _rewrite(path, apply)


@pytest.mark.parametrize("name", PARTS[1:])
def test_a_flipped_bit_in_a_part_is_found_by_its_digest(path: Path, name: str) -> None:
    def flip(parts: dict[str, bytes]) -> None:
        data = bytearray(parts[name])
        data[len(data) // 2] ^= 1
        parts[name] = bytes(data)

    _rewrite(path, flip)  # with a right checksum, as a malicious hand would
    _refused(path, f"{name} is damaged")


@pytest.mark.parametrize("name", PARTS)
def test_a_missing_part_is_named(path: Path, name: str) -> None:
    _rewrite(path, lambda parts: parts.__delitem__(name))
    _refused(path, f"holds no {name}")


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_is_there_twice_is_refused(path: Path, name: str) -> None:
    """Programs differ in which of the two they take."""
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(name, b"{}")
    _refused(path, f"holds {name} more than once")


def test_parts_that_overlap_are_refused(path: Path) -> None:
    """Else four parts of a large file could take four times its memory."""
    content = bytearray(path.read_bytes())
    for place in (m.start() for m in re.finditer(b"PK\1\2", bytes(content))):
        if content[place + 46 :].startswith(b"decoder.onnx"):
            content[place + 20 : place + 28] = struct.pack("<II", path.stat().st_size, path.stat().st_size)
    path.write_bytes(content)
    _refused(path, "its parts overlap")


def test_a_directory_without_end_is_refused_unread(tmp_path: Path) -> None:
    """zipfile would make objects of every entry."""
    with zipfile.ZipFile(tmp_path / "many", "w") as archive:
        for i in range(3000):
            archive.writestr(f"{i}", b"")
    _refused(tmp_path / "many", "too many parts")


def test_another_directory_that_64_bits_point_to_is_refused(path: Path) -> None:
    content = path.read_bytes()
    end = content[-22:]
    larger = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 4, 4, 1 << 40, 0)
    locator = struct.pack("<IIQI", 0x07064B50, 0, len(content) - 22, 1)
    path.write_bytes(content[:-22] + larger + locator + end)
    _refused(path, "too many parts")


def test_compressed_parts_are_refused(path: Path) -> None:
    """Else a small file could fill the memory."""
    _rewrite(path, lambda parts: parts.update({"encoder.onnx": bytes(10**6)}), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**5
    _refused(path, "is compressed")


@pytest.mark.parametrize("version", [0, 3, "1", True, None, [1], 1e99])
def test_another_format_is_told_so(path: Path, version: object) -> None:
    _configure(path, lambda config: config.update(format=version))
    _refused(path, r"bundle format .*this program reads 1 and 2")


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda _: b"{",
        lambda _: b"\xff\xfe{}",
        lambda _: b"[" * 100_000,
        lambda _: b"9" * 10_000,
        lambda _: ["format"],
        lambda _: "format",
        lambda _: b"null",
        lambda _: {"format": 1},
        lambda c: c.pop("format") and None,
        lambda c: c.pop("sha256") and None,
        lambda c: c.pop("front_end") and None,
        lambda c: c.pop("model") and None,
        lambda c: c.pop("name") and None,
        lambda c: c.pop("language") and None,
        lambda c: c.pop("facts") is not None and None,
        lambda c: c.update(sha256=[]),
        lambda c: c.update(sha256="e"),
        lambda c: c.update(sha256={}),
        lambda c: c.update(facts=7),
        lambda c: c.update(facts={"wer": float("nan")}),
        lambda c: c.update(facts={"wer": float("inf")}),
        lambda c: c["model"].update(stride=10**9),
        lambda c: c.update(model=[1]),
        lambda c: c.update(name=7),
        lambda c: c.update(language=["en"]),
        lambda c: c.update(precision=None),
        lambda c: c.update(facts=json.loads("[" * 100 + "]" * 100)),
        lambda c: c.update(facts=json.loads('{"a":' * 100 + "1" + "}" * 100)),
        lambda c: c["front_end"].update(window="w" * 10_000),
        lambda c: c.update(model=None),
        lambda c: c.update(front_end=None),
        lambda c: c["model"].update(heads=0),
        lambda c: c["model"].update(d_model="wide"),
        lambda c: c["model"].update(windows={"a": 1}),
        lambda c: c["model"].update(depth=9),
        lambda c: c["front_end"].update(hop=0),
        lambda c: c["front_end"].update(fft=2**40),
        lambda c: c["front_end"].update(sample_rate="fast"),
        lambda c: c["front_end"].update(spread=[1.0]),
    ],
)
def test_an_absurd_config_is_refused_in_one_line(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    _configure(path, change)
    _refused(path, r"model\.cepstra: .")


def test_an_absurd_tokenizer_is_refused(path: Path) -> None:
    data = json.dumps({"model": {"type": "BPE", "vocab": {"a": 10**30}, "merges": []}}).encode()

    def replaced(parts: dict[str, bytes]) -> None:
        config = json.loads(parts["config.json"])
        config["sha256"]["tokenizer.json"] = hashlib.sha256(data).hexdigest()
        parts |= {"config.json": json.dumps(config).encode(), "tokenizer.json": data}
        for name in PARTS:
            parts[name] = parts.pop(name)

    _rewrite(path, replaced)
    _refused(path, "tokenizer")


@pytest.fixture(scope="module")
def written(small: Bundle, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A place for garbled files, and what a sound one holds."""
    target = tmp_path_factory.mktemp("garbled") / "model.cepstra"
    write_bundle(target, small)
    return target, target.read_bytes()


@settings(derandomize=True, deadline=None, max_examples=250)
@given(
    changes=st.lists(
        st.tuples(
            st.sampled_from(["replace", "cut", "insert"]),
            # From the start, or from the end, where the directory is: most of a zip's traps
            st.one_of(st.integers(0, 3000), st.integers(-400, -1)),
            st.one_of(st.sampled_from([b"\0", b"\xff", b"\x80", b"P"]), st.binary(min_size=1, max_size=40)),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_garbled_one_is_refused_or_the_same(
    written: tuple[Path, bytes], small: Bundle, changes: list[tuple[str, int, bytes]]
) -> None:
    garbled, content = written[0], bytearray(written[1])
    for kind, place, new in changes:
        at = place % len(content)
        content[at : at + (0 if kind == "insert" else len(new))] = b"" if kind == "cut" else new
    garbled.write_bytes(content)
    try:
        found = read_bundle(garbled)
    except BundleError as error:
        message = str(error)
    else:
        assert found == small
        return
    assert message.startswith(f"{garbled}: ")
    assert "\n" not in message
