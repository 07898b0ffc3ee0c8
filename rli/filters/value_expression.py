"""A value expression that is computed over tables of records, in whatever process these are."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError
from rli.filters.constants import UNFIT
from rli.filters.predicates import Column
from rli.filters.text import parse_value
from rli.filters.values import Guard, Value, cast


@dataclass(frozen=True, slots=True)
class ValueExpression:
    """A value for each record. Picklable.

    Attributes:
        text: as it was given.
        expression: computes the value.
        kind: its type.
        columns: which it reads.
    """

    text: str
    expression: pc.Expression
    kind: pa.DataType
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, text: str, schema: pa.Schema) -> ValueExpression:
        """The expression of a text over records of a schema; raises as ``parse_value``."""
        value = parse_value(text, schema)
        return cls(text, value.expression, value.kind, value.columns)

    @classmethod
    def assigned(cls, text: str, schema: pa.Schema, field: pa.Field) -> ValueExpression:
        """The expression of a text whose values a column is set to: no value may change by its type.

        Args:
            text: of the expression.
            schema: of the records.
            field: the column.

        Raises:
            InvalidInputError: as ``parse_value``; or values of the text's type do not go into the column without a cast.
        """
        value = parse_value(text, schema)
        try:
            fitted = _assigned(value, field.type)
        except ValueError as error:
            raise InvalidInputError(
                f"the value does not fit its column: column={field.name} type={field.type} expression={text!r} "
                f"({error})",
                remedy="round it, or cast it",
            ) from error
        return cls(text, fitted.expression, field.type, fitted.columns)

    def of_table(self, records: pa.Table) -> pa.ChunkedArray:
        """The value of each record of a table, in order.

        Raises:
            InvalidInputError: a value cannot be computed: it would overflow, or would change by a conversion.
        """
        try:
            values = computed(self.expression, records)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidInputError(
                f"an expression cannot be computed for a record: expression={self.text!r} ({error})",
                remedy="choose the records, or write it otherwise",
            ) from error
        return self._narrowed(values) if values.type != self.kind else values

    def _narrowed(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Floating-point numbers in fewer bits, if none of them changes. pyarrow does not check it."""
        narrow = values.cast(self.kind, safe=False)
        is_same = pc.equal(narrow.cast(values.type), values)
        if not pc.all(pc.or_kleene(is_same, pc.is_nan(values)), min_count=0).as_py():
            raise InvalidInputError(
                f"a value changes in its column: expression={self.text!r} type={self.kind}",
                remedy="write it so that the value fits",
            )
        return narrow


def computed(expression: pc.Expression, records: pa.Table) -> pa.ChunkedArray:
    """What pyarrow computes for each record of a table, in order."""
    from pyarrow import acero  # noqa: PLC0415  (it loads pandas where that is installed)

    plan = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(records)),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
    ]
    return acero.Declaration.from_sequence(plan).to_table(use_threads=False).column(0)


def _assigned(value: Value, kind: pa.DataType) -> Value:
    """A value in the type of a column; floating-point numbers may keep more bits than the column has."""
    if value.literal is not None or value.is_null or value.kind == kind:
        return cast(value, kind, Guard())
    if pa.types.is_floating(value.kind) and pa.types.is_floating(kind):
        return cast(value, kind, Guard()) if kind.bit_width > value.kind.bit_width else value
    if not _keeps_values(value.kind, kind):
        raise ValueError(f"it is of type {value.kind}")
    try:
        return cast(value, kind, Guard())
    except UNFIT as error:
        raise ValueError(str(error)) from error


def _keeps_values(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether pyarrow converts each value of a type into another one without loss, or fails."""
    is_integer, is_decimal = pa.types.is_integer, pa.types.is_decimal
    if is_integer(source):
        return is_integer(target) or is_decimal(target) or pa.types.is_floating(target)
    if is_decimal(source):
        return is_integer(target) or is_decimal(target)
    if pa.types.is_floating(source):
        return bool(is_integer(target))
    if pa.types.is_timestamp(source):
        return pa.types.is_timestamp(target) and (source.tz is None) == (target.tz is None)
    return bool(pa.types.is_date(source) and pa.types.is_timestamp(target))
