"""/v1/phrases: compiled and checked when they come, kept until they are deleted, under names that are no paths."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from asr.errors import CepstraError
from asr.phrases import PhraseSet
from asr.service.errors import FullError, ServiceError
from asr.service.store import PhraseStore, Stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.asr.service.conftest import Bare, Service

SHOWN = ("name", "sentences", "intents", "words", "fixed")  # in the list of all
SHIPPED = sorted((Path(__file__).resolve().parents[3] / "data_manifests" / "phrases").iterdir())


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_files_are_taken_given_back_and_deleted(service: Service, file: Path) -> None:
    own = PhraseSet.read(file)
    name = f"x-{file.stem}"
    put = service.http.put(f"/v1/phrases/{name}", content=file.read_bytes())
    assert put.status_code == 201
    stored = put.json()
    assert stored["name"] == name
    assert stored["text"] == file.read_text(encoding="utf-8")
    assert (stored["sentences"], stored["intents"], stored["words"]) == (
        own.sentences, list(own.intents), len(own.words),
    )  # fmt: skip
    assert stored["fixed"] is False
    assert len(stored["samples"]) == min(8, own.sentences)
    assert service.http.get(f"/v1/phrases/{name}").json() == stored
    assert service.http.put(f"/v1/phrases/{name}", content=file.read_bytes()).status_code == 200
    listed = {each["name"]: each for each in service.http.get("/v1/phrases").json()["phrases"]}
    assert set(listed) == {"drone", "lights", name}
    assert listed[name] == {key: value for key, value in stored.items() if key in SHOWN}
    deleted = service.http.delete(f"/v1/phrases/{name}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert service.http.get(f"/v1/phrases/{name}").status_code == 404
    assert service.http.delete(f"/v1/phrases/{name}").status_code == 404


def test_sets_of_the_start_are_fixed(service: Service) -> None:
    for method, more in (("PUT", {"content": b"yes"}), ("DELETE", {})):
        answer = service.http.request(method, "/v1/phrases/lights", **more)  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    lights = service.http.get("/v1/phrases/lights").json()
    assert lights["fixed"] is True
    assert lights["text"] == SHIPPED[[file.stem for file in SHIPPED].index("lights")].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "holds no sentence"), (b" \n\t", "holds no sentence"), (b"# nothing\n", "a:1:1: .*no sentence"),
        (b"go\n  turn (on\n", r"a:2:8: '\(' is never closed"), (b"turn on) now", "a:1:8: "),
        (b"intents:\n  a: go <x>\n", "a:2:9: "), (b"yes\nno \xff\n", "a:2:4: not UTF-8"),
        ("yes\n".encode("utf-16"), "a:1:1: not UTF-8"),
        ("né\nnée ".encode() + b"\xc3", "a:2:5: not UTF-8"), (b"intents: [", "a:2:1: not YAML"),
    ],
)  # fmt: skip
def test_faults_have_line_and_column(service: Service, text: bytes, message: str) -> None:
    answer = service.http.put("/v1/phrases/a", content=text)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "invalid_phrases"
    assert re.search(message, error["message"]), error["message"]
    assert "\n" not in error["message"]
    assert service.http.get("/v1/phrases/a").status_code == 404


def test_a_million_million_sentences_are_no_more_than_their_text(service: Service) -> None:
    text = " ".join(["(one|two|three|four|five|six|seven|eight|nine|zero)"] * 12)
    answer = service.http.put("/v1/phrases/digits", content=text)
    assert answer.status_code == 201, answer.text
    assert answer.json()["sentences"] == 10**12
    assert service.http.delete("/v1/phrases/digits").status_code == 204


NAMES = ["a", "0", "a" * 64, "lights_2-x"]
NO_NAMES = [
    "A", "-a", "_a", "a" * 65, "a.b", "a%20b", "%61%2e", "a%00", "%00", "..", "%2e%2e", "%2e%2e%2fx", "..%5cx",
    "%c3%a4", "%ff", "a%0a", "a%2f..%2fb", "x" * 5000, "*", "~", "a:b", "%25%32%65",
]  # fmt: skip


def test_names(bare_with: Callable[..., Bare], tmp_path: Path) -> None:
    state = tmp_path / "state"
    bare = bare_with(state=state)
    for name in NAMES:
        assert bare.raw("PUT", f"/v1/phrases/{name}", b"yes")[0] == 201, name
        assert bare.raw("GET", f"/v1/phrases/{name}")[0] == 200, name
    before = sorted(tmp_path.rglob("*"))
    for name in [*NO_NAMES, "../x", "a/../b", "../../etc/passwd", "/etc/passwd", "%2e%2e/%2e%2e/x", ""]:
        for method in ("PUT", "GET", "DELETE"):
            status, _, text = bare.raw(method, f"/v1/phrases/{name}", b"yes" if method == "PUT" else None)
            assert status in ((400, 404, 405, 307) if "/" in name or not name else (400, 404)), (method, name)
            assert status == 307 or set(json.loads(text)["error"]) == {"message", "type", "param", "code"}
    assert sorted(tmp_path.rglob("*")) == before
    files = [path.name for path in (state / "phrases").iterdir()]
    assert all(re.fullmatch(r"[0-9a-f]{32}\.json", name) for name in files)
    assert len(files) == len(NAMES)


def test_they_are_there_after_a_restart(service_with: Callable[..., Service], tmp_path: Path) -> None:
    text = "yes\nno\nhow (much|many)\n"
    first = service_with(state=str(tmp_path))
    stored = first.http.put("/v1/phrases/kept", content=text).json()
    first.http.put("/v1/phrases/gone", content=text)
    first.http.delete("/v1/phrases/gone")
    first.stop()
    second = service_with(state=str(tmp_path), options=["--workers", "1"])
    assert second.http.get("/v1/phrases/kept").json() == stored
    assert [each["name"] for each in second.http.get("/v1/phrases").json()["phrases"]] == ["kept"]
    assert second.http.delete("/v1/phrases/kept").status_code == 204
    assert not list((tmp_path / "phrases").iterdir())


def test_a_set_that_was_kept_before_there_were_warnings_has_none(tmp_path: Path) -> None:
    PhraseStore(tmp_path).put(made("old"))
    (file,) = tmp_path.iterdir()
    fields = json.loads(file.read_text())
    del fields["warnings"]
    file.write_text(json.dumps(fields))
    assert PhraseStore(tmp_path).get("old") == made("old")


def made(name: str, text: str = "yes", *, fixed: bool = False) -> Stored:
    return Stored(name, text, 1, ("yes",), 1, ("yes",), fixed)


def test_what_cannot_be_written_changes_nothing_and_tells_no_path(
    bare_with: Callable[..., Bare], tmp_path: Path
) -> None:
    bare = bare_with(state=tmp_path / "state")
    bare.http.put("/v1/phrases/a", content="yes")
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "state").write_text("in the way")
    answer = bare.http.put("/v1/phrases/a", content="no")
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk_full")
    assert str(tmp_path) not in answer.text
    assert bare.http.get("/v1/phrases/a").json()["text"] == "yes"
    with pytest.raises(FullError):
        bare.state.phrases.put(made("b"))


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"name": "a"}',
        '{"name": "A/b", "text": "", "sentences": 1, "intents": [], "words": 1, "samples": []}',
        "\xff",
    ],
)
def test_a_damaged_file_is_named_at_the_start(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "x.json").write_text(damaged, encoding="latin-1")
    with pytest.raises(CepstraError, match=r"x\.json: a stored phrase set .*delete the file"):
        PhraseStore(tmp_path)


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asr.service.store.MOST", 2)
    store = PhraseStore(None)
    for name in ("a", "b"):
        store.check_name(name)
        store.put(made(name))
    store.check_name("a")
    with pytest.raises(ServiceError, match="there are 2 sets already"):
        store.check_name("c")
    store.delete("a")
    store.check_name("c")


class StoreIsADict(RuleBasedStateMachine):
    """Whatever is put, deleted and read again."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = PhraseStore(self.folder)
        self.model: dict[str, Stored] = {}

    @rule(name=st.from_regex(r"[a-z0-9][a-z0-9_-]{0,3}", fullmatch=True), text=st.text(max_size=20))
    def put(self, name: str, text: str) -> None:
        stored = made(name, text.encode("utf-8", "replace").decode())
        self.store.check_name(name)
        assert self.store.put(stored) == (name not in self.model)
        self.model[name] = stored

    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)) if self.model else st.just("nothing"))
        if name in self.model:
            self.store.delete(name)
            del self.model[name]
        else:
            with pytest.raises(ServiceError):
                self.store.delete(name)

    @rule()
    def restart(self) -> None:
        (self.folder / ".half.part").write_text("{")  # of a write that was cut off
        self.store = PhraseStore(self.folder)

    @invariant()
    def same(self) -> None:
        assert self.store.names() == sorted(self.model)
        assert {name: self.store.get(name) for name in self.store.names()} == self.model

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


TestStoreIsADict = StoreIsADict.TestCase
TestStoreIsADict.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)


def test_a_form_in_the_place_of_a_file_is_told_so(service: Service) -> None:
    answer = service.http.put("/v1/phrases/form", files={"file": b"make tea"})
    assert answer.status_code == 400
    assert "curl -T" in answer.json()["error"]["message"]


def test_a_stored_set_of_other_types_is_told_at_the_start(tmp_path: Path) -> None:
    fields = {"name": "a", "text": 5, "sentences": "x", "intents": [], "words": 1, "samples": []}
    (tmp_path / "a.json").write_text(json.dumps(fields))
    with pytest.raises(CepstraError, match=r"a\.json: a stored phrase set can't be read"):
        PhraseStore(tmp_path)
