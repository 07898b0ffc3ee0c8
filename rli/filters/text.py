"""The small language of filters, as in ``rli read --where``: comparisons of columns, joined by ``and``, ``or``, ``not``.

``city == "Oslo" and (fare > 10 or tip is not null)``; ``city in ("Oslo", "Bergen")``. The text is parsed by Python's
parser and never run: whatever is not listed here is refused.
"""

from __future__ import annotations

import ast
import io
import tokenize
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError
from rli.filters.predicates import (
    FLIPPED,
    And,
    ColumnComparison,
    Comparison,
    IsIn,
    IsNull,
    IsTrue,
    Not,
    Predicate,
    all_of,
    any_of,
)

_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_KEYWORDS: Final = frozenset({"and", "or", "not", "in", "is"})
_CONSTANTS: Final[dict[str, object]] = {"null": None, "none": None, "true": True, "false": False}


def parse_where(text: str, schema: pa.Schema) -> Predicate:
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
    """Turns one parsed filter into a predicate."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema

    def condition(self, node: ast.expr) -> Predicate:
        """A predicate."""
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(value) for value in node.values]
            return all_of(parts) if isinstance(node.op, ast.And) else any_of(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return Not(self.condition(node.operand))
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            pairs = zip(operands, node.ops, operands[1:], strict=False)
            return all_of([self._comparison(*pair) for pair in pairs])
        name = self._column_name(node)
        if name is not None:
            if self._schema.field(name).type != pa.bool_():
                raise self._refused(node, "a column alone must hold true or false")
            return IsTrue((name,))
        raise self._refused(node, "this is not a comparison")

    def _comparison(self, left: ast.expr, comparison: ast.cmpop, right: ast.expr) -> Predicate:
        if isinstance(comparison, ast.Is | ast.IsNot):
            is_null = self._null_check(left, right)
            return Not(is_null) if isinstance(comparison, ast.IsNot) else is_null
        if isinstance(comparison, ast.In | ast.NotIn):
            is_in = self._membership(left, right)
            return And((Not(is_in), Not(IsNull(is_in.column)))) if isinstance(comparison, ast.NotIn) else is_in
        symbol = _COMPARISONS[type(comparison)]
        left_column, right_column = self._column_name(left), self._column_name(right)
        if left_column is not None and right_column is not None:
            return ColumnComparison((left_column,), symbol, (right_column,))
        if left_column is not None:
            return Comparison((left_column,), symbol, self._fitting(right, left_column))
        if right_column is not None:
            return Comparison((right_column,), FLIPPED[symbol], self._fitting(left, right_column))
        raise self._refused(left, "a comparison needs a column")

    def _null_check(self, left: ast.expr, right: ast.expr) -> IsNull:
        column = self._column_name(left)
        if column is None or self._constant(right) is not None:
            raise self._refused(left, "'is' compares a column with null")
        return IsNull((column,))

    def _membership(self, left: ast.expr, right: ast.expr) -> IsIn:
        column = self._column_name(left)
        if column is None or not isinstance(right, ast.Tuple | ast.List | ast.Set):
            raise self._refused(left, "'in' compares a column with a list of constants, such as (1, 2)")
        kind = self._schema.field(column).type
        values = [self._fitting(item, column, is_exact=True) for item in right.elts]
        return IsIn.equal((column,), pa.array(values, kind))

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
                f"({error}); write strings in quotes and numbers without"
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
            # Hudi's five meta columns can be named, but nobody has meant one of them.
            found = [known for known in self._schema.names if not known.startswith("_hoodie_")]
            raise InvalidInputError(
                f"the filter names a column that the table does not have: column={name} found={found}; quote strings"
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
            raise ValueError("two strings side by side; a string that holds a quote stands in quotes of the other kind")
        if token.type == tokenize.OP and token.string == "=":
            tokens.append((token.type, "=="))
        elif token.type == tokenize.NAME and token.string.lower() in _KEYWORDS:
            tokens.append((token.type, token.string.lower()))
        else:
            tokens.append((token.type, token.string))
    return tokenize.untokenize(tokens)
