"""JSGF grammars (Java Speech Grammar Format 1.0): public rules are intents, weights count for nothing.

A tag `{name=value}` fills a slot when what stands before it is said, `{value}` the slot that is called as its rule.
Not read: imports, `*` and `+` (sentences must end), tags that hold code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from asr.phrases.definitions import Definitions, Mark, RuleRef, Template, Text
from asr.phrases.faults import FaultyError, shown
from asr.phrases.nodes import Place
from asr.phrases.template import STAR, Sign, Space, Token, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.phrases.nodes import Scalar

HEADER: Final = re.compile(r"\s*#JSGF\b(?:\s+V?[\d.]+)?(?:\s+(?P<charset>[\w-]+))?(?:\s+(?P<locale>[\w-]+))?\s*;")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
_LEXEME: Final = re.compile(
    r"(?P<space>\s+)|\"(?P<quoted>[^\"\\\n]*)\"|(?P<weight>/\s*[\d.]+(?:[eE][-+]?\d+)?[fF]?\s*/)|\{(?P<tag>(?:[^{}\\]|\\.)*)\}"
    r"|<(?P<rule>[^<>\s]+)>|(?P<sign>[()\[\]|;=])|(?P<repeat>[*+])|(?P<text>[^\s()\[\]{}<>|;=*+/\"\\]+)"
)
_NAMED_TAG: Final = re.compile(r"\s*([^\W\d]\w*)\s*[=:]\s*(?:\"([^\"]*)\"|'([^']*)'|([\w.' -]*?))\s*;?\s*")
_TAG: Final = re.compile(r"\s*(?:\"([^\"]*)\"|([\w.' -]+?))\s*")


def read_jsgf(text: str, language: str) -> Definitions:
    """Every public rule of a grammar. Raises FaultyError."""
    header = HEADER.match(text)
    if header is None:
        raise FaultyError(Place(1, 1), "no header of JSGF; begin the file with #JSGF V1.0;")
    found = Definitions(header["locale"] or language, rule_remedy="write <name> = words;")
    reader = _Reader(text, header.end())
    for statement in reader.statements():
        reader.read(statement, found)
    if not found.intents:
        raise FaultyError(Place(1, 1), "no public rule, and so no sentence; write 'public' before a rule that is one")
    return found


class _Reader:
    def __init__(self, text: str, begin: int) -> None:
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._text = _COMMENT.sub(_blank, text)  # as long as it was: places stay
        self._begin = begin

    def _place(self, index: int) -> Place:
        line = bisect_right(self._lines, index)
        return Place(line, index - self._lines[line - 1] + 1)

    def statements(self) -> Iterator[list[re.Match[str]]]:
        """The lexemes of every statement, without spaces, weights and the semicolon at its end."""
        statement: list[re.Match[str]] = []
        index = self._begin
        while index < len(self._text):
            found = _LEXEME.match(self._text, index)
            if found is None:
                raise FaultyError(self._place(index), _stray(self._text[index]))
            if found["sign"] == ";":
                yield statement
                statement = []
            elif found["space"] is None and found["weight"] is None:
                statement.append(found)
            index = found.end()
        if statement:
            raise FaultyError(self._place(statement[0].start()), "a statement without end; write ; behind it")

    def read(self, statement: list[re.Match[str]], into: Definitions) -> None:
        """One statement: a rule, or the grammar's name."""
        if not statement or statement[0]["text"] == "grammar":
            return
        place = self._place(statement[0].start())
        if statement[0]["text"] == "import":
            raise FaultyError(place, "import isn't read; put the rules that it names into this file")
        public = statement[0]["text"] == "public"
        body = statement[public:]
        if len(body) < 2 or body[0]["rule"] is None or body[1]["sign"] != "=":
            raise FaultyError(place, "neither a rule nor the grammar's name; write <name> = words;")
        name = body[0]["rule"]
        if name in into.rules:
            first = into.rules[name][0].place.line
            raise FaultyError(place, f"rule <{name}> is there already, on line {first}; give one of them another name")
        if len(body) == 2:
            raise FaultyError(place, f"rule <{name}> holds nothing; write words behind the =")
        draft = parse(self._tokens(name, body[2:]))
        into.rules[name] = [Template(draft, f"<{name}>", place)]
        if public:
            into.intents[name] = [Template(RuleRef(name, place), f"<{name}>", place)]

    def _tokens(self, rule: str, lexemes: list[re.Match[str]]) -> Iterator[Token]:
        for lexeme in lexemes:
            place = self._place(lexeme.start())
            if lexeme["repeat"] is not None:
                raise FaultyError(place, f"{lexeme[0]!r}: any number of times; write out how often it may be said")
            if lexeme["quoted"] and "*" in lexeme["quoted"]:
                raise FaultyError(self._place(self._text.index("*", lexeme.start())), STAR)
            if lexeme["sign"] == "=":
                raise FaultyError(place, "a second '='; end the rule before with ;")
            if lexeme["sign"] is not None:
                yield Sign(lexeme["sign"], place)
            elif lexeme["tag"] is not None:
                yield _mark(lexeme["tag"], rule, place)
            elif lexeme["rule"] is not None:
                yield _reference(lexeme["rule"], place)
            else:
                yield Text(lexeme["text"] or lexeme["quoted"] or "", place)
            yield Space()  # nothing stands close to anything in JSGF


def _blank(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])


def _stray(sign: str) -> str:
    closing = {"{": "}", "<": ">", '"': '"', "/": "/"}
    if sign in closing:
        return f"{sign!r} is never closed, or holds what it can't; close it with {closing[sign]!r}"
    return f"{sign!r} can't stand here; take it away, or put words in quotes"


def _reference(name: str, place: Place) -> Token:
    if name == "VOID":
        raise FaultyError(place, "<VOID> can never be said; take away what needs it")
    return Text("", place) if name == "NULL" else RuleRef(name, place)


def _mark(tag: str, rule: str, place: Place) -> Mark:
    if named := _NAMED_TAG.fullmatch(tag):
        return Mark(named[1], _value(named[2] or named[3] or named[4] or ""))
    if found := _TAG.fullmatch(tag):
        return Mark(rule, _value(found[1] or found[2] or ""))
    raise FaultyError(place, f"the tag {shown(tag)} isn't plain; write {{value}} or {{name=value}}")


def _value(text: str) -> Scalar:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text
