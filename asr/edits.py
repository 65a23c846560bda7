"""Edit distances (Levenshtein 1966): the fewest replacements, deletions and insertions that make one sequence another.

Columns of the table of distances are kept as the bits of their differences (Myers 1999, Hyyrö 2003), so that a column
costs a dozen operations on whole numbers: of any length in Python, or of 64 bits for many texts at once in numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_WORD = 64  # bits


class Edit(NamedTuple):
    """One place where two sequences differ. An insertion comes before `one`, a deletion before `other`."""

    kind: Literal["replace", "delete", "insert"]
    one: int  # place in the one
    other: int  # place in the other


def edits(one: Sequence[str], other: Sequence[str]) -> list[Edit]:
    """A shortest edit that makes `one` into `other`, from first to last; of several, the one that rapidfuzz takes."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    i, j = len(one), len(other)
    while min(i, j) > start and one[i - 1] == other[j - 1]:
        i, j = i - 1, j - 1
    up, down = _columns(one[start:i], other[start:j])
    found: list[Edit] = []
    # Back from the end: a bit says whether a distance is one more, or less, than that above it in its column
    while i > start or j > start:
        if j == start or (i > start and up[j - 1 - start] >> (i - 1 - start) & 1):
            i -= 1
            found.append(Edit("delete", i, j))
            continue
        j -= 1
        if i == start or (j > start and down[j - 1 - start] >> (i - 1 - start) & 1):
            found.append(Edit("insert", i, j))
            continue
        i -= 1
        if one[i] != other[j]:
            found.append(Edit("replace", i, j))
    return found[::-1]


def _columns(one: Sequence[str], other: Sequence[str]) -> tuple[list[int], list[int]]:
    """For each item of `other`, the places in `one` where the distance goes up by one, and where down."""
    places: dict[str, int] = {}
    for i, item in enumerate(one):
        places[item] = places.get(item, 0) | 1 << i
    whole = (1 << len(one)) - 1
    up, down = whole, 0
    ups, downs = [], []
    for item in other:
        same = places.get(item, 0)
        diagonal = ((((same & up) + up) ^ up) | same | down) & whole
        right = (down | ~(diagonal | up)) << 1 | 1
        left = (diagonal & up) << 1
        up, down = (left | ~(diagonal | right)) & whole, right & diagonal & whole
        ups.append(up)
        downs.append(down)
    return ups, downs


class Texts:
    """Many texts, to be compared with one at a time."""

    def __init__(self, texts: Sequence[str]) -> None:
        lengths = np.array([len(text) for text in texts], np.int64)
        self._order = np.argsort(-lengths, kind="stable")
        self._lengths = lengths[self._order]
        self._codes = {character: code for code, character in enumerate(sorted(set().union(*texts)), start=1)}
        self._table = np.zeros((max(map(len, texts), default=0), len(texts)), np.intp)  # 0: beyond the end
        for column, place in enumerate(self._order):
            self._table[: len(texts[place]), column] = [self._codes[character] for character in texts[place]]

    def distances(self, text: str, *, share: float = 1.0) -> NDArray[np.int64]:
        """Edit distances of a text from each of them, (N,).

        share: for a text that its length alone puts farther away than this share of the longer of the two, the
        longer's length stands in place of the distance, and no time is spent.
        """
        longer = np.maximum(self._lengths, len(text))
        found = longer.copy()
        near = np.flatnonzero(np.abs(self._lengths - len(text)) <= share * longer)  # neighbours, as they are sorted
        if len(near) and text:
            these = slice(near[0], near[-1] + 1)
            found[these] = self._compared(text, self._lengths[these], self._table[:, these])
        distances = np.empty_like(found)
        distances[self._order] = found
        return distances

    def _compared(self, text: str, lengths: NDArray[np.int64], table: NDArray[np.intp]) -> NDArray[np.int64]:
        """Go through the texts' characters, one column of their distances after the other, in blocks of 64 rows."""
        blocks = -(-len(text) // _WORD)
        same = np.zeros((blocks, len(self._codes) + 1), np.uint64)
        for i, character in enumerate(text):
            if character in self._codes:
                same[i // _WORD, self._codes[character]] |= np.uint64(1 << i % _WORD)
        one, top, last = np.uint64(1), np.uint64(_WORD - 1), np.uint64((len(text) - 1) % _WORD)
        found = np.full(len(lengths), len(text))
        up = np.full((blocks, len(lengths)), ~np.uint64(0))
        down = np.zeros((blocks, len(lengths)), np.uint64)
        # The longest come first, so that those with a character at a place are the first ones
        counts = np.searchsorted(-lengths, -np.arange(lengths[0]))
        for codes, count in zip(table, counts, strict=False):
            carried_right: Any = one
            carried_left: Any = np.uint64(0)
            for block in range(blocks):
                u, d, s = up[block, :count], down[block, :count], same[block, codes[:count]]
                s = s | carried_left
                diagonal = ((s & u) + u ^ u) | s | d
                right, left = d | ~(diagonal | u), diagonal & u
                if block == blocks - 1:
                    found[:count] += ((right >> last) & one).astype(np.int64) - ((left >> last) & one).astype(np.int64)
                shifted_right, shifted_left = right << one | carried_right, left << one | carried_left
                carried_right, carried_left = right >> top, left >> top
                up[block, :count] = shifted_left | ~(diagonal | shifted_right)
                down[block, :count] = shifted_right & diagonal
        return found
