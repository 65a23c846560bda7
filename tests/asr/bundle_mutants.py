"""Damaged bundles, by number: what is done to each, and what came of it. Run in a process of its own, which may die.

    python bundle_mutants.py BUNDLE FOLDER FIRST LAST KINDS

A line of JSON before each mutant and one after it: its number, and "refused", "same", "other" or a fault.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import struct
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.bundle import read_bundle
from asr.cli.bundle import _lines, described
from asr.cli.bundle_summary import summary
from asr.errors import CepstraError
from asr.recognizer import Recognizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.bundle import Bundle
    from asr.results import Result

PARTS = ("config.json", "encoder.onnx", "decoder.onnx", "tokenizer.json")
MEMORY = 3 << 30  # bytes of address space; threads and libraries take one
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 1e308, -1e-308, 0.5, "", "x", "9" * 50, "\0", "\ud800",
    "\x1b[2J\n", [], [[]], {}, {"": None}, [0] * 1000, [-1], [1e99], "en\n", "../../etc/passwd", "float64",
)  # fmt: skip


def say(*values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


@dataclass
class Part:
    """An entry of a zip, as its two headers tell of it."""

    name: bytes
    data: bytes
    method: int = 0
    flags: int = 0
    stored: bytes | None = None  # compressed


def packed(parts: list[Part], draw: random.Random | None = None) -> bytes:
    """A zip, with a number in one of its headers changed where `draw` is given."""
    out, directory = bytearray(), bytearray()
    hit = draw.randrange(2 * len(parts) + 1) if draw else -1

    def pack(place: int, form: str, values: list[int]) -> bytes:
        if draw and place == hit:
            i = draw.randrange(len(values))
            most = 256 ** struct.calcsize("<" + form[i]) - 1
            values[i] = draw.choice(
                [0, 1, most, most // 2, most - 1, values[i] + 1 & most, values[i] ^ 1, draw.randint(0, most)]
            )
        return struct.pack("<" + form, *values)

    for i, part in enumerate(parts):
        stored = part.data if part.stored is None else part.stored
        both = [part.flags, part.method, 0, 33, zlib.crc32(part.data), len(stored), len(part.data), len(part.name), 0]
        directory += pack(2 * i, "IHHHHHHIIIHHHHHII", [0x02014B50, 20, 20, *both, 0, 0, 0, 0, len(out)]) + part.name
        out += pack(2 * i + 1, "IHHHHHIIIHH", [0x04034B50, 20, *both]) + part.name + stored
    end = [0x06054B50, 0, 0, len(parts), len(parts), len(directory), len(out), 0]
    return bytes(out + directory + pack(2 * len(parts), "IHHHHIIH", end))


def signed(parts: dict[str, bytes]) -> list[Part]:
    """The parts with digests that fit, as a malicious hand would leave them."""
    try:
        config = json.loads(parts["config.json"])
        config["sha256"] = {name: hashlib.sha256(parts[name]).hexdigest() for name in PARTS[1:]}
        parts = {**parts, "config.json": json.dumps(config).encode()}
    except (ValueError, TypeError):
        pass
    return [Part(name.encode(), data) for name, data in parts.items()]


def garble(data: bytes, draw: random.Random) -> bytes:
    """Some bits flipped, or bytes cut out, put in, repeated or overwritten."""
    new = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at, length = draw.randrange(max(1, len(new))), draw.choice([1, 2, 4, 8, 100])
        match draw.randrange(6):
            case 0 | 1:
                if new:
                    new[at % len(new)] ^= 1 << draw.randrange(8)
            case 2:
                del new[at : at + length]
            case 3:
                new[at:at] = draw.randbytes(length)
            case 4:
                new[at:at] = new[at : at + length]
            case _:
                new[at : at + length] = draw.choice([b"\0", b"\xff", b"\x7f", b"\x80"]) * length
    return bytes(new)


def bits(parts: dict[str, bytes], draw: random.Random) -> bytes:
    whole = bytearray(packed([Part(name.encode(), data) for name, data in parts.items()]))
    # Half of them in the few hundred bytes that are no graph
    headers = [*range(60), *range(len(whole) - 300, len(whole))]
    for _ in range(draw.choice([1, 1, 3])):
        whole[draw.choice(headers) if draw.random() < 0.5 else draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
    return bytes(whole)


def cuts(parts: dict[str, bytes], draw: random.Random) -> bytes:
    whole = packed([Part(name.encode(), data) for name, data in parts.items()])
    at = draw.choice([draw.randrange(len(whole)), len(whole) - draw.randrange(300), draw.randrange(100)])
    return draw.choice(
        [whole[:at], whole[at:], whole + whole[:at], draw.randbytes(draw.randrange(99)) + whole, garble(whole, draw)]
    )


def headers(parts: dict[str, bytes], draw: random.Random) -> bytes:
    return packed([Part(name.encode(), data) for name, data in parts.items()], draw)


def names(parts: dict[str, bytes], draw: random.Random) -> bytes:
    """Parts that swap places, come twice, lead out of the archive or are compressed."""
    made = [Part(name.encode(), data) for name, data in parts.items()]
    i, j = draw.sample(range(len(made)), 2)
    one, other = made[i], made[j]
    strange = draw.choice(
        [
            b"/etc/passwd",
            b"../config.json",
            b"config.json/",
            b"",
            b"\xff\xfe",
            b"a" * 60_000,
            b"config.json\0x",
            b"CONFIG.JSON",
        ]
    )
    match draw.randrange(8):
        case 0:
            one.data, other.data = other.data, one.data
        case 1:
            made.insert(
                draw.randrange(5), Part(one.name, draw.choice([one.data, other.data, b"", garble(one.data, draw)]))
            )
        case 2:
            one.name = strange
        case 3:
            made.append(Part(strange, other.data))
        case 4:
            one.name = other.name
        case 5:
            squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
            one.data = draw.choice([one.data, bytes(1 << 22)])
            one.method, one.stored = 8, squeeze.compress(one.data) + squeeze.flush()
        case 6:
            one.method, one.flags = draw.choice(
                [(0, 1), (0, 8), (0, 64), (12, 0), (14, 0), (99, 1), (93, 0), (0, 2048), (8, 0)]
            )
        case _:
            del made[i]
    return packed(made)


def settings(parts: dict[str, bytes], draw: random.Random) -> bytes:
    """Another value, or none, at any place of config.json or tokenizer.json."""
    name = draw.choice(["config.json"] * 3 + ["tokenizer.json"])
    content = json.loads(parts[name])
    place: Any = content
    while True:
        key = draw.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], dict | list) or not place[key] or draw.random() < 0.2:
            break
        place = place[key]
    match draw.randrange(5):
        case 0:
            del place[key]
        case 1 if isinstance(place, dict):
            place[draw.choice(["", "format", "x", "spread"])] = draw.choice(VALUES)
        case _:
            place[key] = draw.choice(VALUES)
    text = json.dumps(content)
    if draw.random() < 0.1:
        text = text.replace("1", draw.choice(["9" * 5000, "1e999", "NaN", "-Infinity", "[" * 5000, "1" * 30]), 1)
    changed = {**parts, name: text.encode()}
    return packed(signed(changed) if name != "config.json" else [Part(n.encode(), d) for n, d in changed.items()])


def graphs(parts: dict[str, bytes], draw: random.Random) -> bytes:
    """A graph that is damaged, and nothing else."""
    name = draw.choice(["encoder.onnx", "decoder.onnx"])
    return packed(signed({**parts, name: garble(parts[name], draw)}))


def swapped_values(parts: dict[str, bytes], draw: random.Random) -> bytes:
    """A graph with a name or number put elsewhere: what is left is often a graph still."""
    import onnx  # noqa: PLC0415  of the training extra

    name = draw.choice(["encoder.onnx", "decoder.onnx"])
    model = onnx.load_from_string(parts[name])
    node = draw.choice(model.graph.node)
    match draw.randrange(6):
        case 0 if node.input:
            node.input[draw.randrange(len(node.input))] = draw.choice([*draw.choice(model.graph.node).output, ""])
        case 1 if node.attribute:
            attribute = draw.choice(node.attribute)
            attribute.i = draw.choice([0, 1, -1, 2**31, 2**62])
        case 2:
            node.op_type = draw.choice(model.graph.node).op_type
        case 3:
            tensor = draw.choice(model.graph.initializer)
            if tensor.dims:
                tensor.dims[draw.randrange(len(tensor.dims))] = draw.choice([0, 1, 2, -1, 2**40, 10**6])
        case 4:
            tensor = draw.choice(model.graph.initializer)
            if tensor.raw_data:
                fill = draw.choice([b"\0", b"\xff", b"\x7f", b"\0\0\x80\x7f"])
                tensor.raw_data = (fill * len(tensor.raw_data))[: len(tensor.raw_data)]
        case _:
            value = draw.choice([*model.graph.input, *model.graph.output])
            value.type.tensor_type.elem_type = draw.choice([1, 7, 9, 10, 11, 6])
    return packed(signed({**parts, name: model.SerializeToString()}))


# Of each kind, whether its digests are made to fit: such a mutant is another bundle, and may answer something else
KINDS: dict[str, tuple[Callable[[dict[str, bytes], random.Random], bytes], bool]] = {
    "bits": (bits, False),
    "cuts": (cuts, False),
    "headers": (headers, False),
    "names": (names, False),
    "settings": (settings, True),
    "graphs": (graphs, True),
    "swapped_values": (swapped_values, True),
}


def facts_shown(bundle: Bundle) -> list[str]:
    """What `cepstra bundle show --all` prints of it."""
    facts = described(bundle, 1)
    return [*summary(facts), *_lines(facts)]


def main() -> None:
    bundle, folder, first, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    kinds = sys.argv[5].split(",")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with zipfile.ZipFile(bundle) as archive:
        parts = {name: archive.read(name) for name in PARTS}
    intact = read_bundle(bundle)
    rate = intact.front_end.sample_rate
    seconds = np.arange(int(0.8 * rate)) / rate
    clip = (0.3 * np.sin(2 * np.pi * (100 + 300 * seconds) * seconds)).astype(np.float32)

    def answer(recognizer: Recognizer) -> Result:
        return recognizer.transcribe(clip)

    expected = answer(Recognizer(intact, threads=1, speech_detection=False))
    path = folder / f"mutant{first}.cepstra"
    for number in range(first, last):
        kind = kinds[number % len(kinds)]
        make, may_differ = KINDS[kind]
        say(number, kind, "started")
        path.write_bytes(make(parts, random.Random(number)))
        outcome = "same"
        try:
            found = read_bundle(path)
            shown = facts_shown(found)
            if not all(line.isprintable() for line in shown):
                outcome = f"shows {shown}"
            if found != intact:  # one that is equal answers the same
                result = answer(Recognizer(found, threads=1, speech_detection=False))
                if result != expected:
                    outcome = "other" if may_differ else f"answers otherwise: {result.text!r}"
        except CepstraError as error:
            outcome = "refused" if "\n" not in str(error) else f"more than a line: {error!r}"
        except BaseException as error:  # what is looked for
            outcome = f"{type(error).__name__}: {error}"
            if "-v" in sys.argv:
                raise
        say(number, kind, outcome)


if __name__ == "__main__":
    main()
