"""Text to token ids and back: byte-pair encoding (Sennrich et al. 2016) of normalised text.

A piece that starts a word begins with "▁" (U+2581), as in SentencePiece, so ids join into text without rules. The file
format is `tokenizer.json` of Hugging Face's library `tokenizers`, which gives the same ids. Only learning needs that
library: it would be a sixth of what a caller has to install.
"""

from __future__ import annotations

import json
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final, Self

from asr.errors import BundleError, ConfigError, ManifestError
from asr.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WORD_START: Final = "▁"
SPECIALS: Final = ("<blank>", "<s>", "</s>", "<unk>")  # their ids are their places
# Always in the vocabulary, so that a small corpus leaves no English letter unknown.
ALPHABET: Final = frozenset(ascii_lowercase + "'" + WORD_START)
MIN_COUNT: Final = 2  # a pair seen once says nothing about the language
CACHED_WORDS: Final = 1 << 16

# Options of the library that would give other ids from the same vocabulary and merges.
_UNUSED_SETTINGS: Final = (
    "dropout",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "fuse_unk",
    "byte_fallback",
    "ignore_merges",
)
_FORBIDDEN: Final = frozenset("<>" + WORD_START)  # would let text spell a special token or a word start


class Tokenizer:
    """A vocabulary with its merges. Immutable, picklable, equal when the vocabulary and merges are.

    `encode` and `decode` are exact inverses on normalised text (see `asr.text`) whose characters are all known; an
    unknown character becomes unk_id, which decode leaves out. Ids are the same in every run, process and machine.

        >>> tokenizer = Tokenizer.train(["turn on the light", "turn off the light"], vocab_size=40)
        >>> tokenizer.decode(tokenizer.encode("turn the light off"))
        'turn the light off'
    """

    blank_id: Final = 0  # CTC's "nothing new here"
    bos_id: Final = 1
    eos_id: Final = 2
    unk_id: Final = 3

    def __init__(self, vocabulary: Mapping[str, int], merges: Iterable[tuple[str, str]]) -> None:
        """vocabulary: piece to id, ids 0 … V-1, the specials first. merges: pairs of pieces, most frequent first.

        Raises BundleError when the two don't make a tokenizer.
        """
        merges = list(merges)
        self._pieces = _checked_pieces(vocabulary, merges)
        # Of a merge that is there twice the later place counts, as in the library
        ranks = {merge: rank for rank, merge in enumerate(merges)}
        self._merges = sorted(ranks, key=ranks.__getitem__)
        # Single characters alone: "<s>" in a text is three of them, never the token
        self._characters = {piece: i for piece, i in vocabulary.items() if len(piece) == 1}
        self._joins = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
            for rank, (left, right) in enumerate(self._merges)
        }
        # Words repeat, and each is encoded on its own: most texts cost a few look-ups.
        self._encode_word = lru_cache(CACHED_WORDS)(self._word_ids)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int = 256) -> Self:
        """Learn the merges from normalised texts; their order doesn't matter, how often each occurs does.

        vocab_size: the most ids there may be, specials included. A small corpus runs out of pairs that occur twice
        and gives fewer: `vocab_size` of the result is the true number.
        Raises ManifestError when there is no text or it isn't normalised, ConfigError when vocab_size doesn't hold the
        specials and single characters, or the library `tokenizers` of the training extra isn't installed.
        """
        lines = sorted(" ".join(text.split()) for text in texts)
        characters = frozenset().union(*lines) - {" "}
        if not characters:
            raise ManifestError("tokenizer: no text to learn from; give a manifest whose rows have a non-empty text")
        if characters & _FORBIDDEN:
            found = min(characters & _FORBIDDEN)
            raise ManifestError(f"tokenizer: {found!r} in the text; pass it through asr.text.normalise first")
        alphabet = ALPHABET | characters
        smallest = len(SPECIALS) + len(alphabet)
        if vocab_size < smallest:
            raise ConfigError(
                f"tokenizer: vocab_size {vocab_size} is too small for {len(alphabet)} characters and "
                f"{len(SPECIALS)} special tokens; set it to at least {smallest}"
            )
        return cls(*_learnt(lines, vocab_size, sorted(alphabet)))

    @property
    def vocab_size(self) -> int:
        """Number of ids, specials included."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Normalised text to ids, without BOS and EOS. Any white space counts as one space."""
        ids: list[int] = []
        for word in text.split():
            ids += self._encode_word(word)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Ids to text; special tokens are left out. Raises BundleError for an id that the vocabulary doesn't have."""
        pieces = [self.token(i) for i in ids if not 0 <= i < len(SPECIALS)]
        # A decoder may write a lone word start or begin without one: split and join, rather than cut a first space.
        return " ".join("".join(pieces).replace(WORD_START, " ").split())

    def token(self, token_id: int) -> str:
        """The piece of an id, with "▁" where it starts a word. Raises BundleError for an id out of range."""
        if not 0 <= token_id < len(self._pieces):
            raise BundleError(
                f"tokenizer: id {token_id} in a vocabulary of {len(self._pieces)}; the model and the tokenizer don't "
                "belong together"
            )
        return self._pieces[token_id]

    def to_json(self) -> str:
        """tokenizer.json as the library writes it: the same string for the same vocabulary and merges."""
        mark = {"type": "Metaspace", "replacement": WORD_START, "prepend_scheme": "always", "split": True}
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        content = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": i, "content": piece, **flags} for i, piece in enumerate(SPECIALS)],
            "normalizer": None,
            "pre_tokenizer": mark,
            "post_processor": None,
            "decoder": mark,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": SPECIALS[self.unk_id],
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": {piece: i for i, piece in enumerate(self._pieces)},
                "merges": self._merges,
            },
        }
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of to_json. Raises BundleError for anything that isn't a tokenizer of this kind."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BundleError(f"tokenizer: not JSON ({error}); take tokenizer.json from the bundle again") from None
        if not isinstance(content, dict) or not isinstance(model := content.get("model"), dict):
            raise BundleError('tokenizer: no "model" object; take tokenizer.json from the bundle again')
        mark = content.get("pre_tokenizer")
        if (
            model.get("type") != "BPE"
            or any(model.get(setting) for setting in _UNUSED_SETTINGS)
            or content.get("normalizer") is not None
            or not isinstance(mark, dict)
            or (mark.get("replacement"), mark.get("prepend_scheme")) != (WORD_START, "always")
        ):
            raise BundleError('tokenizer: not byte-pair encoding with "▁" word starts; use one that Cepstra trained')
        vocabulary, merges = model.get("vocab"), model.get("merges")
        if not isinstance(vocabulary, dict) or not isinstance(merges, list):
            raise BundleError('tokenizer: "vocab" or "merges" is missing; take tokenizer.json from the bundle again')
        return cls(vocabulary, [_pair(merge) for merge in merges])

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json, whole or not at all. Raises ConfigError when it can't be written."""
        write_atomically(Path(path), self.to_json(), ConfigError)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read tokenizer.json. Raises BundleError that names the file."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise BundleError(f"{path}: can't be read ({error.strerror}); name a tokenizer.json") from None
        except UnicodeDecodeError:
            raise BundleError(f"{path}: not UTF-8 text; name a tokenizer.json") from None
        except BundleError as error:
            raise BundleError(f"{path}: {error}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"Tokenizer(vocab_size={self.vocab_size})"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return type(self).from_json, (self.to_json(),)

    def _word_ids(self, word: str) -> tuple[int, ...]:
        # A lone surrogate, which no file can hold but a str can, becomes a question mark
        known = word.encode("utf-8", "replace").decode()
        marked = known if known.startswith(WORD_START) else WORD_START + known
        # A mark within a word, which normalised text can't have, begins another one
        parts = [WORD_START + part for part in marked.split(WORD_START)[1:]]
        return tuple(token for part in parts for token in self._merged(part))

    def _merged(self, part: str) -> list[int]:
        """The ids of one marked word: joined again and again where the earliest merge applies, the leftmost of those.

        A heap rather than a scan, so that a word of a million letters takes seconds and not days.
        """
        joins = self._joins
        ids = [self._characters.get(character, self.unk_id) for character in part]
        end = len(ids)
        after, before = list(range(1, end + 1)), list(range(-1, end - 1))
        heap = [(found[0], i, found[1]) for i, pair in enumerate(pairwise(ids)) if (found := joins.get(pair))]
        heapify(heap)
        while heap:
            rank, left, joined = heappop(heap)
            right = after[left]
            # One of the two may have been joined to another one since
            if right == end or ids[left] < 0 or joins.get((ids[left], ids[right])) != (rank, joined):
                continue
            ids[left], ids[right] = joined, -1
            after[left] = following = after[right]
            if following < end:
                before[following] = left
            for first, second in ((before[left], left), (left, following)):
                if first >= 0 and second < end and (found := joins.get((ids[first], ids[second]))):
                    heappush(heap, (found[0], first, found[1]))
        return [token for token in ids if token >= 0]


def _learnt(lines: list[str], vocab_size: int, alphabet: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of these lines, by the library."""
    try:
        from tokenizers import Tokenizer as Learner  # noqa: PLC0415  of the training extra
        from tokenizers import models, pre_tokenizers, trainers  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigError("tokenizers is not installed; run: pip install 'cepstra[train]'") from None
    learner = Learner(models.BPE(unk_token=SPECIALS[Tokenizer.unk_id]))
    learner.pre_tokenizer = pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always", split=True)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=MIN_COUNT,
        show_progress=False,
        special_tokens=list(SPECIALS),
        initial_alphabet=alphabet,
    )
    learner.train_from_iterator(lines, trainer)
    model = json.loads(learner.to_str())["model"]
    return model["vocab"], [(left, right) for left, right in model["merges"]]


def _pair(merge: object) -> tuple[str, str]:
    """A merge as the file holds it: two pieces, or (older files) both in one string with a space between."""
    pieces = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pieces, list) or len(pieces) != 2 or not all(isinstance(piece, str) for piece in pieces):
        raise BundleError(f"tokenizer: {merge!r:.60} is not a merge; take tokenizer.json from the bundle again")
    return pieces[0], pieces[1]


def _checked_pieces(vocabulary: Mapping[str, int], merges: list[tuple[str, str]]) -> list[str]:
    """The vocabulary's pieces in the order of their ids. Raises BundleError where the library would fail later."""
    remedy = "take tokenizer.json from the bundle again"
    if not all(type(i) is int for i in vocabulary.values()):
        raise BundleError(f"tokenizer: an id in the vocabulary is not a whole number; {remedy}")
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[piece] for piece in pieces] != list(range(len(pieces))):
        raise BundleError(f"tokenizer: the vocabulary's ids are not 0 to {len(pieces) - 1}, each once; {remedy}")
    if tuple(pieces[: len(SPECIALS)]) != SPECIALS:
        raise BundleError(f"tokenizer: the vocabulary doesn't begin with {' '.join(SPECIALS)}; {remedy}")
    if not all(pieces) or any("\ud800" <= character <= "\udfff" for piece in pieces for character in piece):
        raise BundleError(f"tokenizer: a piece of the vocabulary is empty or not Unicode text; {remedy}")
    for left, right in merges:
        for piece in (left, right, left + right):
            if piece not in vocabulary or piece in SPECIALS:
                raise BundleError(
                    f"tokenizer: merge {left!r} {right!r} needs {piece!r}, not in the vocabulary; {remedy}"
                )
    return pieces
