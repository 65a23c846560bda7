"""What phrase files cost: sentences, the graph's size, seconds and memory to compile, and time to understand one.

  python benchmarks/phrases.py [FILE…] [--model BUNDLE]

Without files: those in data_manifests/phrases, and generated ones: six numbers in a row (10^12 sentences), a plain list
of 20,000 sentences, and eight parts in any order. Memory is Python's own (tracemalloc), measured in a second run, which
is slower than the timed one.
"""

from __future__ import annotations

import argparse
import random
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from asr.bundle import read_bundle
from asr.phrases import PhraseSet
from asr.recognizer import DEFAULT_BUNDLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.phrases import TokenGraph
    from asr.tokenizer import Tokenizer

FOLDER = Path(__file__).resolve().parent.parent / "data_manifests" / "phrases"
COMMANDS = 200


def generated() -> dict[str, str]:
    """Name and text of the files that are made here."""
    numbers = " ".join(f"{{number:{slot}}}" for slot in "abcdef")
    draw = random.Random(0)  # noqa: S311
    words = [
        f"{a}{b}"
        for a in ("ba", "co", "di", "fu", "le", "mo", "ni", "pa", "ru", "sto")
        for b in ("n", "ter", "l", "ck")
    ]
    lines = {" ".join(draw.choices(words, k=draw.randint(3, 7))) for _ in range(20_000)}
    members = "; ".join(f"[part{letter} {{number:{letter}}}]" for letter in "abcdefgh")
    return {
        "six numbers": f"intents: {{code: 'code {numbers}'}}\nlists: {{number: 0..100}}",
        "20,000 lines": "\n".join(sorted(lines)),
        "eight in any order": f"intents: {{set: 'set ({members})'}}\nlists: {{number: 0..9}}",
    }


def main() -> None:
    """Read, compile, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--model", type=Path, default=DEFAULT_BUNDLE)
    arguments = parser.parse_args()
    tokenizer = read_bundle(arguments.model).tokenizer
    texts = {path.name: path.read_text(encoding="utf-8") for path in arguments.files or sorted(FOLDER.iterdir())}
    if not arguments.files:
        texts |= generated()
    columns = ("sentences", "states", "arcs", "graph kB", "read CPU s", "compile CPU s", "peak MB", "µs a command")
    table = Table("file", *columns)
    for name, text in texts.items():
        table.add_row(name, *figures(lambda name=name, text=text: PhraseSet.parse(text, name), tokenizer))  # type: ignore[misc]
    Console(width=140).print(table)


def figures(read: Callable[[], PhraseSet], tokenizer: Tokenizer) -> list[str]:
    """One file's, as they are printed."""
    begin = time.process_time()
    phrases = read()
    between = time.process_time()
    graph = phrases.compile(tokenizer)
    end = time.process_time()
    tracemalloc.start()
    read().compile(tokenizer)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    seconds = [f"{between - begin:.3f}", f"{end - between:.3f}"]
    return [f"{phrases.sentences:.3g}", *sizes(graph), *seconds, f"{peak / 1e6:.1f}", f"{understand(phrases):.0f}"]


def sizes(graph: TokenGraph) -> list[str]:
    """States, arcs, kilobytes."""
    return [str(graph.num_states), str(graph.num_arcs), f"{graph.nbytes / 1e3:.1f}"]


def understand(phrases: PhraseSet) -> float:
    """Microseconds for one sentence, once the index is there."""
    said = phrases.samples(COMMANDS)
    assert all(phrases.command(sentence) for sentence in said)
    begin = time.process_time()
    for sentence in said:
        phrases.command(sentence)
    return (time.process_time() - begin) / len(said) * 1e6


if __name__ == "__main__":
    main()
