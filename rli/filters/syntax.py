"""The grammar of filters and value expressions: a text becomes a tree of constants, names and calls.

Operators, from the loosest: ``or``; ``and``; ``not``; comparisons, ``is null``, ``in``, ``between``, ``like``; ``+``, ``-``,
``||``; ``*``, ``/``, ``%``; signs. Nothing of a text is run as code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from rli.filters.tokens import Token, tokens_of

COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
_CONSTANTS: Final[dict[str, bool | None]] = {"null": None, "none": None, "true": True, "false": False}
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_RESERVED: Final = ("and", "or", "not", "in", "is")
_MOST_DEPTH: Final = 50
"""Of brackets, signs and calls inside each other."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant.

    Attributes:
        value: in Python; None for null.
        text: a number as it is written, which has all its digits; an empty string for others.
    """

    value: str | int | float | bool | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """A column, with the names of fields inside, or behind its qualifier: ``("source", "fare")``."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator with its operands."""

    function: str
    operands: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """``case when condition then value … else value end``."""

    branches: tuple[tuple[Syntax, Syntax], ...]
    default: Syntax


@dataclass(frozen=True, slots=True)
class Cast:
    """``cast(value as type)``; ``type`` in small letters, with its numbers: ``decimal(10,2)``."""

    operand: Syntax
    type: str


Syntax: TypeAlias = Literal | Name | Call | Case | Cast


def parsed(text: str) -> Syntax:
    """The tree of a text.

    Raises:
        ValueError: the text is not understood; its message says where.
    """
    parser = _Parser(text)
    found = parser.expression()
    parser.require_end()
    return found


def quoted_name(name: str) -> str:
    """The name of a column for a text of SQL, in backticks if the bare name would be read as something else.

    Example:
        >>> quoted_name("fare"), quoted_name("null"), quoted_name("two words")
        ('fare', '`null`', '`two words`')
    """
    try:
        is_plain = name.isidentifier() and parsed(name) == Name((name,))
    except ValueError:
        is_plain = False
    return name if is_plain else "`" + name.replace("`", "``") + "`"


class _Parser:
    """Reads the tokens of one text from the first to the last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._position = 0
        self._depth = 0

    def expression(self) -> Syntax:
        with self._deeper():
            return self._joined("or", lambda: self._joined("and", self._negation))

    def require_end(self) -> None:
        if self._next.kind != "end":
            raise self._misplaced()

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._next
        self._position += 1
        return token

    def _word(self, *words: str) -> bool:
        """Takes the next token if it is one of some keywords."""
        return self._next.is_word(*words) and bool(self._take())

    def _operator(self, *operators: str) -> str | None:
        """Takes the next token if it is one of some operators."""
        return self._take().text if self._next.is_operator(*operators) else None

    def _require(self, expected: str) -> None:
        if not (self._word(expected) or self._operator(expected)):
            raise self._misplaced(f"{expected!r} is expected")

    def _misplaced(self, reason: str = "") -> ValueError:
        found = self._text[self._next.start :][:20] or "the end"
        return ValueError(f"{reason or 'this is not expected'} at {found!r}")

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError("too many brackets, signs or calls inside each other")
        yield
        self._depth -= 1

    def _joined(self, word: str, operand: Callable[[], Syntax]) -> Syntax:
        operands = [operand()]
        while self._word(word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Call(word, tuple(operands))

    def _negation(self) -> Syntax:
        if not self._word("not"):
            return self._comparison()
        with self._deeper():
            return Call("not", (self._negation(),))

    def _comparison(self) -> Syntax:
        """Comparisons in a chain hold if each of them holds, as in Python: ``1 < n <= 2``."""
        left = self._sum()
        found: list[Syntax] = []
        while symbol := self._operator(*COMPARISONS):
            right = self._sum()
            found.append(Call(symbol, (left, right)))
            left = right
        if (test := self._test(left)) is not None:
            found.append(test)
        if not found:
            return left
        return found[0] if len(found) == 1 else Call("and", tuple(found))

    def _test(self, left: Syntax) -> Syntax | None:
        """``is null``, ``in``, ``between`` and ``like`` behind an operand, with ``not`` or without."""
        if self._word("is"):
            is_negated = self._word("not")
            if not self._word("null", "none"):
                raise self._misplaced("'is' compares with null")
            test: Syntax = Call("is null", (left,))
        else:
            is_negated = self._word("not")
            if self._word("in"):
                test = Call("in", (left, *self._list()))
            elif self._word("between"):
                low = self._sum()
                self._require("and")
                test = Call("between", (left, low, self._sum()))
            elif self._word("like"):
                pattern = self._sum()
                escape = (self._sum(),) if self._word("escape") else ()
                test = Call("like", (left, pattern, *escape))
            elif is_negated:
                raise self._misplaced("'in', 'between' or 'like' is expected")
            else:
                return None
        return Call("not", (test,)) if is_negated else test

    def _list(self) -> tuple[Syntax, ...]:
        opening = self._operator(*_CLOSING)
        if opening is None:
            raise self._misplaced("'in' compares with a list, such as (1, 2)")
        return self._operands(_CLOSING[opening])

    def _operands(self, closing: str) -> tuple[Syntax, ...]:
        """Expressions behind an opening bracket, up to the closing one; the last comma may be left out."""
        operands: list[Syntax] = []
        while not self._operator(closing):
            operands.append(self.expression())
            if not self._operator(","):
                self._require(closing)
                break
        return tuple(operands)

    def _sum(self) -> Syntax:
        return self._chain(self._product, "+", "-", "||")

    def _product(self) -> Syntax:
        return self._chain(self._signed, "*", "/", "%")

    def _chain(self, operand: Callable[[], Syntax], *operators: str) -> Syntax:
        found = operand()
        for _ in range(_MOST_DEPTH):
            symbol = self._operator(*operators)
            if symbol is None:
                return found
            found = Call(symbol, (found, operand()))
        raise ValueError("too many operators in one sum or product; use brackets")

    def _signed(self) -> Syntax:
        sign = self._operator("-", "+")
        if sign is None:
            return self._primary()
        with self._deeper():
            operand = self._signed()
        if isinstance(operand, Literal) and isinstance(operand.value, int | float) and operand.text:
            negative = Literal(-operand.value, operand.text[1:] if operand.text[0] == "-" else f"-{operand.text}")
            return operand if sign == "+" else negative
        return operand if sign == "+" else Call("-x", (operand,))

    def _primary(self) -> Syntax:
        token = self._next
        if token.kind == "number" and not isinstance(token.value, str):
            return Literal(token.value, self._take().text.replace("_", ""))
        if token.kind == "string" and isinstance(token.value, str):
            self._take()
            return Literal(token.value)
        if self._operator("("):
            inner = self.expression()
            self._require(")")
            return inner
        if token.kind == "quoted":
            return self._name()
        if token.kind == "name" and not token.is_word(*_RESERVED):
            return self._named()
        raise self._misplaced()

    def _named(self) -> Syntax:
        token, after = self._next, self._tokens[self._position + 1]
        word = token.text.lower()
        if (
            word == "case"
            and (after.kind not in ("operator", "end") or after.is_operator("("))
            and not after.is_word(*_RESERVED)
        ):
            self._take()
            with self._deeper():
                return self._case()
        if after.is_operator("("):
            self._position += 2
            return self._cast() if word == "cast" else Call(word, self._operands(")"))
        if word in _CONSTANTS:
            self._take()
            return Literal(_CONSTANTS[word])
        if word in ("date", "timestamp") and after.kind == "string":
            self._take()
            return Cast(self._primary(), word)
        return self._name()

    def _name(self) -> Name:
        path = [str(self._take().value)]
        while self._operator("."):
            if self._next.kind not in ("name", "quoted"):
                raise self._misplaced("a name is expected")
            path.append(str(self._take().value))
        return Name(tuple(path))

    def _case(self) -> Case:
        # ``case x when 1 …`` compares x with each value.
        compared = None if self._next.is_word("when") else self.expression()
        branches: list[tuple[Syntax, Syntax]] = []
        while self._word("when"):
            condition = self.expression()
            self._require("then")
            is_met = condition if compared is None else Call("==", (compared, condition))
            branches.append((is_met, self.expression()))
        default = self.expression() if self._word("else") else Literal(None)
        self._require("end")
        if not branches:
            raise ValueError("'case' has no 'when'")
        return Case(tuple(branches), default)

    def _cast(self) -> Cast:
        operand = self.expression()
        self._require("as")
        words: list[str] = []
        while self._next.kind == "name":
            words.append(self._take().text.lower())
        numbers: list[str] = []
        if self._operator("("):
            while self._next.kind == "number":
                numbers.append(self._take().text)
                self._operator(",")
            self._require(")")
        self._require(")")
        return Cast(operand, " ".join(words) + (f"({','.join(numbers)})" if numbers else ""))
