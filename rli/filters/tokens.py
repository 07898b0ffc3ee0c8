"""The tokens of filters and value expressions: names, numbers, strings and operators."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<space>(?:\s|\#[^\n]*)+)
  | (?P<number>0[xXbBoO][0-9a-fA-F_]+ | (?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?)
  | (?P<string>[rR]?(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
  | (?P<name>[^\W\d]\w*)
  | (?P<quoted>`(?:[^`]|``)+`)
  | (?P<operator>\|\||<>|==|!=|<=|>=|[-+*/%=<>().,\[\]{}])
    """,
    re.VERBOSE,
)

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = "\\'\"abfnrtvxuUN01234567"
"""What stands behind a backslash in Python's strings."""

_SPELLINGS: Final = {"=": "==", "<>": "!="}
"""Operators of SQL → of Python."""


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a text.

    Attributes:
        kind: "number", "string", "name", "quoted" (a name in backticks), "operator" or "end".
        text: as it is written; an operator in its one spelling.
        value: of a number or string; a name without its quotes.
        start: where the token begins in the text.
        end: where the token ends.
    """

    kind: str
    text: str
    value: str | int | float
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether the token is one of some keywords, in any letter case."""
        return self.kind == "name" and self.text.lower() in words

    def is_operator(self, *operators: str) -> bool:
        return self.kind == "operator" and self.text in operators


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text; the last one is of kind "end".

    A string stands in single or double quotes, with Python's escapes. A quote inside is doubled, as in SQL, or escaped.

    Raises:
        ValueError: a part of the text is no token.
    """
    joined: list[Token] = []
    for token in _tokens(text):
        before = joined[-1] if joined else None
        if token.kind == "string" and before is not None and before.kind == "string":
            joined[-1] = _joined(before, token)
        else:
            joined.append(token)
    return [*joined, Token("end", "", "", len(text), len(text))]


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"a character that belongs to no name, number or operator: {text[position]!r}")
        kind, spelling = str(match.lastgroup), match.group()
        if kind != "space":
            yield Token(kind, _SPELLINGS.get(spelling, spelling), _value(kind, spelling), position, match.end())
        position = match.end()


def _value(kind: str, spelling: str) -> str | int | float:
    match kind:
        case "number" | "string":
            # Python warns of a backslash that escapes nothing; "50\%" is a pattern of ``like``.
            plain = spelling if spelling[0] in "rR" else _ESCAPE.sub(_kept_if_known, spelling)
            try:
                value: str | int | float = ast.literal_eval(plain)
            except (SyntaxError, ValueError) as error:
                raise ValueError(f"no {kind}: {spelling}") from error
            return value
        case "quoted":
            return spelling[1:-1].replace("``", "`")
        case _:
            return spelling


def _kept_if_known(escape: re.Match[str]) -> str:
    return escape[0] if escape[1] in _ESCAPED else f"\\{escape[0]}"


def _joined(first: Token, second: Token) -> Token:
    """The string of which a doubled quote has made two."""
    quote = first.text[-1]
    if first.end != second.start or second.text[0] != quote:
        raise ValueError("two strings side by side; a quote inside of a string is doubled")
    if first.text == quote * 2:
        raise ValueError("a string in triple quotes; write single ones")
    return Token("string", first.text + second.text, f"{first.value}{quote}{second.value}", first.start, second.end)
