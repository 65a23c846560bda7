"""The graph of a file's words as a picture (SVG), to be read from left to right; a list is one box.

Layers by the longest way from the start; within a layer, nodes stand near those that they are joined to (barycentres,
Sugiyama et al. 1981). A line that passes a layer takes a place of its own there.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from asr.errors import PhrasesError
from asr.phrases.faults import shown
from asr.phrases.languages import Languages, TooManyStatesError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.phrases.phrase_set import PhraseSet

MAX_BOXES: Final = 250  # more can't be read
MAX_LINES: Final = 8  # of a box
MAX_NAMED: Final = 20  # intents in a message
_SWEEPS: Final = 24
_FONT, _LINE, _LETTER = 14, 18, 8.4  # pixels: size, line, width of a letter
_GAP_X, _GAP_Y, _MARGIN = 26.0, 12.0, 24.0
_STYLE: Final = (
    "text{font:14px monospace;fill:#1c2733}.legend{font-size:13px;fill:#4a5a6a}"
    ".line{fill:none;stroke:#7a8b9c;stroke-width:1.4}.word{fill:#eef3f8;stroke:#7a8b9c}"
    ".list{fill:#fff3d6;stroke:#c08a1e}.dot{fill:#7a8b9c}.end{fill:#fff;stroke:#1c2733;stroke-width:2.5}"
    ".start{fill:#1c2733}"
)


@dataclass(eq=False)
class _Node:
    """A state's dot, a box of words, or a place where a line passes."""

    kind: str  # "start", "dot", "end", "word", "list", "line"
    layer: int
    lines: list[str] = field(default_factory=list)
    before: list[_Node] = field(default_factory=list)
    after: list[_Node] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0  # both of its centre
    room: float = 0.0  # width of its layer

    @property
    def width(self) -> float:
        """Pixels."""
        return max((len(line) for line in self.lines), default=0) * _LETTER + 14 if self.lines else 10.0

    @property
    def height(self) -> float:
        """Pixels."""
        return len(self.lines) * _LINE + 6 if self.lines else 10.0


def draw(phrases: PhraseSet, intent: str | None = None) -> str:
    """The picture. intent: only its sentences. Raises PhrasesError if it is too large, or there is no such intent."""
    names = [intent] if intent is not None else list(phrases.intents)
    if intent is not None and intent not in phrases.intents:
        raise PhrasesError(f"{phrases.name}: no intent {shown(intent)}; {_known(intent, phrases.intents)}")
    languages = Languages(lists_as_words=True)
    try:
        sentences = [sentence for name in names for sentence in phrases.grammar.intents[name]]
        root = languages.union([languages.before(sentence.node) for sentence in sentences])
    except TooManyStatesError:
        raise _too_large(phrases, len(languages.arcs), intent) from None
    layers = _layers(phrases, languages, root, intent)
    _place(layers)
    used = {line[1:-1] for layer in layers for node in layer if node.kind == "list" for line in node.lines}
    return _svg(layers, [_legend(phrases, name) for name in sorted(used) if name in phrases.grammar.lists])


def _known(wanted: str, intents: Sequence[str]) -> str:
    """The remedy for an intent that isn't there."""
    ranked = sorted(intents, key=lambda name: -SequenceMatcher(None, wanted.lower(), name.lower()).ratio())
    listed = ", ".join(map(shown, ranked[:MAX_NAMED]))
    more = f" and {len(ranked) - MAX_NAMED} more" if len(ranked) > MAX_NAMED else ""
    return f"there are, nearest first, {listed}{more}"


def _too_large(phrases: PhraseSet, count: int, intent: str | None) -> PhrasesError:
    remedy = "put alternatives into lists" if intent is not None else "draw one intent (--intent)"
    return PhrasesError(f"{phrases.name}: {count} boxes can't be read in a picture, {MAX_BOXES} can; {remedy}")


def _layers(phrases: PhraseSet, languages: Languages, root: int, intent: str | None) -> list[list[_Node]]:
    states = languages.reachable(root)[::-1]
    boxes = _boxes(languages, states)
    if len(boxes) > MAX_BOXES:
        raise _too_large(phrases, len(boxes), intent)
    dots: dict[int, _Node] = {}
    nodes: list[_Node] = []
    leaving: dict[int, list[tuple[int, list[str]]]] = defaultdict(list)
    for source, target, labels in boxes:
        leaving[source].append((target, labels))
    layer: dict[int, int] = defaultdict(int)
    for state in states:  # every one before those it leads to
        if state != root and state not in layer:
            continue  # within a box
        kind = "start" if state == root else "end" if languages.final[state] else "dot"
        dots[state] = _Node(kind, layer[state])
        nodes.append(dots[state])
        for target, _ in leaving[state]:
            layer[target] = max(layer[target], layer[state] + 2)
    for source, target, labels in boxes:
        box = _Node("list" if labels[0].startswith("{") else "word", dots[source].layer + 1, _shortened(labels))
        nodes.append(box)
        _join(dots[source], box, nodes)
        _join(box, dots[target], nodes)
    layers: list[list[_Node]] = [[] for _ in range(max(node.layer for node in nodes) + 1)]
    for node in nodes:
        layers[node.layer].append(node)
    return layers


def _boxes(languages: Languages, states: list[int]) -> list[tuple[int, int, list[str]]]:
    """From state, to state, and the words between; words that can only follow each other share a line."""
    groups: list[tuple[int, int, list[str]]] = []
    for state in states:
        by_target: dict[tuple[int, bool], list[str]] = {}
        for word, target in languages.arcs[state]:
            by_target.setdefault((target, word.startswith("{")), []).append(word)
        groups += [(state, target, labels) for (target, _), labels in by_target.items()]
    entering: dict[int, int] = defaultdict(int)
    leaving: dict[int, list[int]] = defaultdict(list)
    for number, (source, target, _) in enumerate(groups):
        entering[target] += 1
        leaving[source].append(number)
    merged: set[int] = set()
    for number in reversed(range(len(groups))):  # the last ones first: chains grow from their ends
        source, target, labels = groups[number]
        if entering[target] != 1 or len(leaving[target]) != 1 or languages.final[target] or len(labels) > 1:
            continue
        following = leaving[target][0]
        _, end, more = groups[following]
        if len(more) == 1 and not labels[0].startswith("{") and not more[0].startswith("{"):
            groups[number] = source, end, [f"{labels[0]} {more[0]}"]
            merged.add(following)
    return [group for number, group in enumerate(groups) if number not in merged]


def _shortened(labels: list[str]) -> list[str]:
    if len(labels) <= MAX_LINES:
        return labels
    return [*labels[: MAX_LINES - 1], f"… {len(labels) - MAX_LINES + 1} more"]


def _join(one: _Node, other: _Node, nodes: list[_Node]) -> None:
    """A line, with a place in every layer between."""
    for layer in range(one.layer + 1, other.layer):
        passing = _Node("line", layer)
        nodes.append(passing)
        one.after.append(passing)
        passing.before.append(one)
        one = passing
    one.after.append(other)
    other.before.append(one)


def _place(layers: list[list[_Node]]) -> None:
    x = _MARGIN
    for layer in layers:
        width = max(node.width for node in layer)
        for node in layer:
            node.x, node.room = x + width / 2, width
        x += width + _GAP_X
        _stack(layer, [0.0] * len(layer))
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for layer in layers[1:] if forward else layers[-2::-1]:
            wanted = {id(node): _mean(node.before if forward else node.after, node.y) for node in layer}
            if sweep < _SWEEPS - 4:  # the last sweeps straighten lines, and leave the order
                layer.sort(key=lambda node: wanted[id(node)])
            else:
                wanted = {id(node): _mean([*node.before, *node.after], node.y) for node in layer}
            _stack(layer, [wanted[id(node)] for node in layer])
    top = min(node.y - node.height / 2 for layer in layers for node in layer)
    for layer in layers:
        for node in layer:
            node.y += _MARGIN - top


def _mean(nodes: list[_Node], otherwise: float) -> float:
    return sum(node.y for node in nodes) / len(nodes) if nodes else otherwise


def _stack(layer: list[_Node], wanted: list[float]) -> None:
    """Nodes below each other, in order, as near to where they are wanted as their sizes allow on the whole."""
    bottom = float("-inf")
    for node, y in zip(layer, wanted, strict=True):
        node.y = max(y, bottom + _GAP_Y + node.height / 2)
        bottom = node.y + node.height / 2
    shift = sum(node.y - y for node, y in zip(layer, wanted, strict=True)) / len(layer)
    for node in layer:
        node.y -= shift


def _legend(phrases: PhraseSet, name: str) -> str:
    said = [" ".join(words) for words in _first_words(phrases, name)]
    entries = len(phrases.grammar.lists[name].values)
    more = f", … ({entries} entries)" if entries > len(said) else ""
    return f"{{{name}}}: {', '.join(said)}{more}"


def _first_words(phrases: PhraseSet, name: str) -> list[tuple[str, ...]]:
    """A way to say each of a list's first entries."""
    languages = Languages()
    entries = phrases.grammar.lists[name].entries.items[:MAX_LINES]
    return [next(languages.sentences(languages.before(entry))) for entry in entries]


def _svg(layers: list[list[_Node]], legend: list[str]) -> str:
    nodes = [node for layer in layers for node in layer]
    width = max([node.x + node.width / 2 for node in nodes] + [_MARGIN + len(line) * 7.9 for line in legend]) + _MARGIN
    bottom = max(node.y + node.height / 2 for node in nodes) + _MARGIN
    height = bottom + len(legend) * _LINE + (_MARGIN if legend else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">',
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
        *(_line(node, other) for node in nodes for other in node.after),
        *(_shape(node) for node in nodes),
    ]
    for number, line in enumerate(legend, 1):
        parts.append(f'<text class="legend" x="{_MARGIN:.0f}" y="{bottom + number * _LINE:.0f}">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _line(one: _Node, other: _Node) -> str:
    """Straight within the layers of both, so that it crosses none of their boxes."""
    begin, end = one.x + one.room / 2, other.x - other.room / 2
    middle = (begin + end) / 2
    return (
        f'<path class="line" d="M{one.x:.1f} {one.y:.1f}H{begin:.1f}C{middle:.1f} {one.y:.1f} '
        f'{middle:.1f} {other.y:.1f} {end:.1f} {other.y:.1f}H{other.x:.1f}"/>'
    )


def _shape(node: _Node) -> str:
    if node.kind == "line":
        return ""
    if not node.lines:
        radius = 4 if node.kind == "dot" else 6
        return f'<circle class="{node.kind}" cx="{node.x:.1f}" cy="{node.y:.1f}" r="{radius}"/>'
    left, top = node.x - node.width / 2, node.y - node.height / 2
    texts = "".join(
        f'<text x="{node.x:.1f}" y="{top + _LINE * (number + 1) - 1:.1f}" text-anchor="middle">{escape(line)}</text>'
        for number, line in enumerate(node.lines)
    )
    box = f'x="{left:.1f}" y="{top:.1f}" width="{node.width:.1f}" height="{node.height:.1f}" rx="5"'
    return f'<rect class="{node.kind}" {box}/>{texts}'
