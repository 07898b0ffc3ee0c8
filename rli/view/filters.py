"""The small language of filters, as in ``rli read --where``: comparisons of columns become a pyarrow expression.

``city == "Oslo" and (fare > 10 or tip is not null)``; ``city in ("Oslo", "Bergen")``. The text is parsed by Python's
parser and never run: whatever is not listed here is refused.
"""

from __future__ import annotations

import ast
import io
import operator
import tokenize
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError

_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_KEYWORDS: Final = frozenset({"and", "or", "not", "in", "is"})
_CONSTANTS: Final[dict[str, object]] = {"null": None, "none": None, "true": True, "false": False}


def parse_where(text: str, schema: pa.Schema) -> pc.Expression:
    """The filter that a text describes.

    Args:
        text: comparisons (``==``, ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in``, ``not in``, ``is null``,
            ``is not null``) of columns and constants, joined with ``and``, ``or``, ``not`` and brackets. Texts stand
            in quotes; one that is compared with a date or time column is read as one. A column whose name is a
            keyword is written ``col("from")``.
        schema: of the table.

    Raises:
        InvalidInputError: the text is not understood, names an unknown column, or a constant does not fit its column.
    """
    try:
        return _Filter(text, schema).condition(ast.parse(_normalised(text).strip(), mode="eval").body)
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError) as error:
        raise InvalidInputError(
            f"the filter is not understood: where={text!r} ({getattr(error, 'msg', error)}); write comparisons such as "
            "city == 'Oslo' and fare > 10"
        ) from error


class _Filter:
    """Turns one parsed filter into an expression."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema

    def condition(self, node: ast.expr) -> pc.Expression:
        """An expression that is true or false."""
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(value) for value in node.values]
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            joined = parts[0]
            for part in parts[1:]:
                joined = join(joined, part)
            return joined
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.condition(node.operand)
        if isinstance(node, ast.Compare):
            return self._comparisons(node)
        name = self._column_name(node)
        if name is not None:
            if self._schema.field(name).type != pa.bool_():
                raise self._refused(node, "a column alone must hold true or false")
            return pc.field(name)
        raise self._refused(node, "this is not a comparison")

    def _comparisons(self, node: ast.Compare) -> pc.Expression:
        operands = [node.left, *node.comparators]
        joined = None
        for left, comparison, right in zip(operands, node.ops, operands[1:], strict=False):
            part = self._comparison(left, comparison, right)
            joined = part if joined is None else joined & part
        return joined

    def _comparison(self, left: ast.expr, comparison: ast.cmpop, right: ast.expr) -> pc.Expression:
        if isinstance(comparison, ast.Is | ast.IsNot):
            is_null = self._null_check(left, right)
            return ~is_null if isinstance(comparison, ast.IsNot) else is_null
        if isinstance(comparison, ast.In | ast.NotIn):
            column, is_in = self._membership(left, right)
            return ~is_in & column.is_valid() if isinstance(comparison, ast.NotIn) else is_in
        left_column, right_column = self._column_name(left), self._column_name(right)
        if left_column is None and right_column is None:
            raise self._refused(left, "a comparison needs a column")
        return _COMPARISONS[type(comparison)](
            self._operand(left, left_column, right_column), self._operand(right, right_column, left_column)
        )

    def _null_check(self, left: ast.expr, right: ast.expr) -> pc.Expression:
        column = self._column_name(left)
        if column is None or self._constant(right) is not None:
            raise self._refused(left, "'is' compares a column with null")
        return pc.field(column).is_null()

    def _membership(self, left: ast.expr, right: ast.expr) -> tuple[pc.Expression, pc.Expression]:
        """A column, and whether its value is in a list."""
        column = self._column_name(left)
        if column is None or not isinstance(right, ast.Tuple | ast.List | ast.Set):
            raise self._refused(left, "'in' compares a column with a list of constants, such as (1, 2)")
        kind = self._schema.field(column).type
        values = [self._fitting(item, column, is_exact=True) for item in right.elts]
        return pc.field(column), pc.field(column).isin(pa.array([value.as_py() for value in values], kind))

    def _operand(self, node: ast.expr, name: str | None, compared_with: str | None) -> pc.Expression:
        if name is not None:
            return pc.field(name)
        return pc.scalar(self._fitting(node, compared_with or ""))

    def _fitting(self, node: ast.expr, column: str, *, is_exact: bool = False) -> pa.Scalar:
        """A constant to compare a column with; ``is_exact``: of the column's own type."""
        value = self._constant(node)
        if value is None:
            raise self._refused(node, "null is compared with 'is null' and 'is not null'")
        kind = self._schema.field(column).type
        try:
            scalar = _as_value_of(value, kind)
            return scalar.cast(kind) if is_exact else scalar
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            raise InvalidInputError(
                f"a constant of the filter does not fit its column: column={column} type={kind} value={value!r} "
                f"({error}); write texts in quotes and numbers without"
            ) from error

    def _column_name(self, node: ast.expr) -> str | None:
        """The column that a node names; None for what is no name."""
        if isinstance(node, ast.Name) and node.id.lower() not in _CONSTANTS:
            name = node.id
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "col"
            and len(node.args) == 1
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            name = node.args[0].value
        else:
            return None
        if name not in self._schema.names:
            raise InvalidInputError(
                f"the filter names a column that the table does not have: column={name} found={self._schema.names}; "
                "quote texts"
            )
        return name

    def _constant(self, node: ast.expr) -> object:
        if isinstance(node, ast.Name) and node.id.lower() in _CONSTANTS:
            return _CONSTANTS[node.id.lower()]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._constant(node.operand)
            if isinstance(value, int | float):
                return -value
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
            return node.value
        raise self._refused(node, "this is not a constant")

    def _refused(self, node: ast.expr, reason: str) -> InvalidInputError:
        return InvalidInputError(
            f"the filter is not understood: where={self._text!r} at={ast.unparse(node)!r} ({reason}); "
            "write comparisons such as city == 'Oslo' and fare > 10"
        )


def _as_value_of(value: object, kind: pa.DataType) -> pa.Scalar:
    if isinstance(value, str) and not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        if pa.types.is_timestamp(kind):
            return _moment(value, kind)
        return pa.scalar(value).cast(kind)
    if isinstance(value, int | float) and not isinstance(value, bool) and pa.types.is_decimal(kind):
        return pa.scalar(Decimal(repr(value)))
    if isinstance(value, float) and pa.types.is_integer(kind):
        return pa.scalar(value)
    return pa.scalar(value, kind)


def _moment(text: str, kind: pa.DataType) -> pa.Scalar:
    """A time as a text gives it; UTC where it has no offset, as in the table."""
    if kind.tz is None:
        return pa.scalar(text).cast(kind)
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        return pc.assume_timezone(pa.scalar(text).cast(pa.timestamp(kind.unit)), "UTC").cast(kind)


def _normalised(text: str) -> str:
    """The text with what people know from SQL written in Python's way: ``=`` and keywords in capitals."""
    tokens: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokens and token.type == tokens[-1][0] == tokenize.STRING:
            raise ValueError("two texts side by side; a text that holds a quote stands in quotes of the other kind")
        if token.type == tokenize.OP and token.string == "=":
            tokens.append((token.type, "=="))
        elif token.type == tokenize.NAME and token.string.lower() in _KEYWORDS:
            tokens.append((token.type, token.string.lower()))
        else:
            tokens.append((token.type, token.string))
    return tokenize.untokenize(tokens)
