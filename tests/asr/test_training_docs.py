"""docs/training.md: every setting that it names exists, with the default that it states."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from asr.manifest import Utterance
from asr.phrases import PhraseSet
from asr.tokenizer import Tokenizer
from asr.training.config import TrainConfig
from asr.training.corpus import Packed
from asr.training.run import _Sounds, _usable
from asr.training.settings import build, load_config
from audio.augmentation import Augmenter

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\| `([a-z_.]+)` \| (\S+) \|", TEXT, re.MULTILINE)
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def value_of(name: str) -> Any:
    value: Any = TrainConfig()
    for part in name.split("."):
        value = getattr(value, part)
    return value


def names(value: Any = None) -> set[str]:
    """All names of settings, without those that they lie in."""
    value = value or TrainConfig()
    inner = [getattr(value, field.name) for field in fields(value)]
    return {field.name for field in fields(value)}.union(*(names(each) for each in inner if is_dataclass(each)))


@pytest.mark.parametrize(("name", "default"), TABLE)
def test_settings_in_the_table_exist_and_have_these_defaults(name: str, default: str) -> None:
    value_of(name)
    assert load_config(None, [f"{name}={default}"]) == TrainConfig()  # as somebody would give it


def test_the_table_is_there() -> None:
    assert len(TABLE) > 10
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_settings(example: str) -> None:
    assert build(yaml.safe_load(example)) != TrainConfig()


def test_the_quick_start_keeps_sentences_as_they_are_usually_said() -> None:
    config = build(yaml.safe_load(next(example for example in EXAMPLES if example.startswith("# my.yaml"))))
    texts = PhraseSet.read(ROOT / "data_manifests" / "phrases" / "player.yaml").samples(40)
    seconds = [len(text) / 17 for text in texts]  # letters a second: brisk, and not unusual
    where = np.array([(0, 0, round(16000 * s)) for s in seconds])
    rows = tuple(Utterance(Path(f"{i}.wav"), s, text) for i, (text, s) in enumerate(zip(texts, seconds, strict=True)))
    data = Packed(rows, tuple(texts), np.ones(len(texts)), (), where)
    tokenizer, augmenter = Tokenizer.train(texts, config.vocab_size), Augmenter(config.augmentation)
    assert len(_usable(_Sounds(data, data, data), tokenizer, augmenter, config)[0]) == len(texts)
    halved = replace(config, model=replace(config.model, halve_after=2))
    assert len(_usable(_Sounds(data, data, data), tokenizer, augmenter, halved)[0]) <= len(texts) / 2


RECIPES = sorted(p for p in (ROOT / "data_manifests/recipes").rglob("*.yaml") if p.name != "prompts.yaml")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_recipes_that_ship_are_settings(path: Path) -> None:
    assert load_config(path).data.train


def test_settings_named_in_the_text_exist() -> None:
    mentioned = re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)(?:=[^`]*)?`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
    dotted = [
        name for name in mentioned if "." in name and not name.endswith((".ckpt", ".json", ".csv", ".txt", ".png"))
    ]
    assert len(dotted) > 10
    for name in dotted:
        if not name.endswith((".yaml", ".py", ".jsonl")):
            value_of(name)
    assigned = re.findall(r"`([a-z_.]+)=", TEXT) + re.findall(r"`([a-z_]+): ", TEXT)
    assert {name.rsplit(".", 1)[-1] for name in assigned} - {"name"} <= names()


def test_the_override_on_the_command_line_works() -> None:
    (line,) = re.findall(r"cepstra train my\.yaml (steps=.*)", TEXT)
    overrides = [a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', line)]
    config = load_config(None, overrides)
    assert config.steps == 20000
    assert [source.repeat for source in config.data.train] == [1.0, 0.5]


def test_the_recipes_prompts_are_drawn_by_their_seed(tmp_path: Path) -> None:
    (tmp_path / "clauses.txt").write_text("the bridge held\nhe waited a long time\n")
    program = ROOT / "data_manifests/recipes/en-commands/prompts.py"

    def drawn(seed: int) -> list[str]:
        command = [sys.executable, str(program), "300", str(seed), str(tmp_path / "clauses.txt")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    lines = drawn(1)
    assert lines == drawn(1)
    assert lines != drawn(2)
    assert len(lines) == 300
    domains = {line.split("\t")[0] for line in lines}
    assert domains == {"command", "word", "digits", "number", "spelling", "date", "clause"}
    assert all(re.fullmatch(r"[a-z]+\t[a-z' ]+", line) for line in lines)  # spelt out, nothing left to fill in
