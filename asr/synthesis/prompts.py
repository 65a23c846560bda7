"""What is to be said: sentences of a phrase file, lines of a text file, or a text itself."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from asr.errors import SynthesisError
from asr.files import JSGF_NAMES, YAML_NAMES
from asr.phrases import PhraseSet
from asr.phrases.covering import covering
from asr.text import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from asr.phrases.nodes import Scalar

MAX_COUNT: Final = 1_000_000  # utterances: their names have six digits
MOST_SENTENCES: Final = 100_000  # of a phrase file, that are all said where no number is asked for
MAX_BYTES: Final = 1 << 26
_PHRASES: Final = {*YAML_NAMES, *JSGF_NAMES}
_SUFFIXES: Final = {".txt", ".tsv", ".jsonl", *_PHRASES}
_TEMPLATE: Final = re.compile(r"[()\[\]{}<>|]")
_YAML_OR_JSGF: Final = re.compile(r"^(?:intents\s*:|#JSGF)", re.MULTILINE)
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*")
_MINUS: Final = re.compile(r"^[-\u2212](?=\d)")
_DASHES: Final = re.compile(r"^[\s\-\u2010-\u2015\u2212]+")


@dataclass(frozen=True)
class Prompt:
    """One text."""

    say: str  # as somebody would write it
    domain: str | None = None  # what it is about: goes into the manifest
    intent: str | None = None  # which command it is: the same
    slots: Mapping[str, Scalar] = field(default_factory=dict, hash=False)


def prompts_from(source: str, count: int = 0, *, seed: int = 0, language: str = "en") -> list[Prompt]:
    """The texts of a file, or `source` itself where it names none.

    source: a phrase file (of templates, of which sentences are drawn that cover all of them), a text file with a text
    per line, perhaps behind its domain and a tab, or what is to be said. count: most sentences that are drawn from
    templates; 0: all. Raises SynthesisError, and PhrasesError for a faulty phrase file.
    """
    path = Path(source)
    try:
        there = path.exists()
    except (OSError, ValueError):  # too long to be a name, or with a null character
        there = False
    if there:
        return _of_file(path, count, seed, language)
    if path.suffix.lower() in _SUFFIXES and " " not in path.name:
        raise SynthesisError(f"{source}: no such file; give a phrase file, a text file, or the text to speak")
    return checked([Prompt(source)], "the text", language)


def checked(prompts: Iterable[Prompt | str], name: str, language: str) -> list[Prompt]:
    """Prompts that all say something. Raises SynthesisError that begins with a name."""
    found = [prompt if isinstance(prompt, Prompt) else Prompt(prompt) for prompt in prompts]
    if not found:
        raise SynthesisError(f"{name}: holds no text; write one per line")
    for number, prompt in enumerate(found, 1):
        if not normalise(prompt.say, language) or not spoken(prompt.say):
            raise SynthesisError(f"{name}: text {number} ({prompt.say!r:.60}) says nothing; take it away")
    return found


def spoken(text: str) -> str:
    """What an engine gets: one line, without what engines or their command lines take for instructions."""
    kept = "".join(" " if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} or c in "[]" else c for c in text)
    line = " ".join(kept.split())
    return _DASHES.sub("", _MINUS.sub("minus ", line))


def _of_file(path: Path, count: int, seed: int, language: str) -> list[Prompt]:
    if path.is_dir():
        raise SynthesisError(f"{path}: is a folder; give a phrase file or a text file")
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        raise SynthesisError(f"{path}: is a manifest, whose texts have recordings already; give a file of texts")
    text = "" if suffix in _PHRASES else _read(path)
    lines = text.split("\n")
    if any("\t" in line for line in lines) and not _YAML_OR_JSGF.search(text):
        return checked(map(_with_domain, filter(str.strip, lines)), str(path), language)
    kept = [_COMMENT.sub("", line).strip() for line in lines]
    if suffix in _PHRASES or _YAML_OR_JSGF.search(text) or any(map(_TEMPLATE.search, kept)):
        return _drawn(PhraseSet.read(path, language), count, seed)
    return checked((Prompt(line, intent=line) for line in kept if line), str(path), language)


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SynthesisError(f"{path}: more than {MAX_BYTES >> 20} MB; divide the file")
        data = path.read_bytes()
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise SynthesisError(f"{path}: can't be read ({error.strerror}); check its permissions") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SynthesisError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None


def _with_domain(line: str) -> Prompt:
    domain, tab, text = line.partition("\t")
    return Prompt(text.replace("\t", " ").strip(), domain.strip() or None) if tab else Prompt(domain.strip())


def _drawn(phrases: PhraseSet, count: int, seed: int) -> list[Prompt]:
    if not count and phrases.sentences > MOST_SENTENCES:
        many = f"{phrases.sentences:,}" if phrases.sentences < 10**15 else f"about {phrases.sentences:.2e}"
        raise SynthesisError(f"{phrases.name}: has {many} sentences; say with --count how many to make")
    found: list[Prompt] = []
    for sentence in covering(phrases, count or phrases.sentences, seed):
        command = phrases.command(sentence)
        found.append(Prompt(sentence, None, command.intent, command.slots) if command else Prompt(sentence))
    return found
