"""A filter in the two forms that a read needs: for pyarrow to apply, and for the planner to understand."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError, SchemaError
from rli.filters.expressions import known_part
from rli.filters.predicates import Column, Predicate, columns_of, has_unknown
from rli.filters.text import parse_where
from rli.filters.tuples import parse_tuples
from rli.filters.value_expression import computed


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records a read gives.

    Attributes:
        expression: it is true for these records.
        predicate: its meaning, as far as it is known.
    """

    expression: pc.Expression
    predicate: Predicate

    @classmethod
    def of(cls, filters: object, schema: pa.Schema) -> Filter | None:
        """The filter that a caller gives.

        Args:
            filters: a text as ``parse_where`` takes it, tuples as ``parse_tuples`` takes them, or a
                ``pyarrow.compute.Expression``; None for no filter.
            schema: of the records, with meta columns.

        Raises:
            SchemaError: it is not a filter, names an unknown column, or compares values that cannot be compared.
            InvalidInputError: the text is not understood.
        """
        if filters is None:
            return None
        if isinstance(filters, pc.Expression):
            found = cls(filters, known_part(filters))
        else:
            predicate = parse_where(filters, schema) if isinstance(filters, str) else parse_tuples(filters)
            found = cls(predicate.expression(), predicate)
        try:
            schema.empty_table().filter(found.expression)
        except (pa.ArrowException, TypeError) as error:
            raise SchemaError(
                f"the filter does not fit the table: filter={found.expression} ({error})",
                remedy="check names and types",
            ) from error
        return found

    @property
    def columns(self) -> tuple[Column, ...]:
        """Which columns the predicate reads; those of unknown parts are missing."""
        return tuple(dict.fromkeys(columns_of(self.predicate)))

    def names_in(self, schema: pa.Schema) -> list[str]:
        """Names of the columns of a schema that the filter may read: all of them where a part of it is not known."""
        return schema.names if has_unknown(self.predicate) else [*dict.fromkeys(name for name, *_ in self.columns)]

    def mask(self, records: pa.Table) -> pa.ChunkedArray:
        """Whether each record of a table passes, in order: true or false, never null.

        Raises:
            InvalidInputError: a value of the filter cannot be computed for a record.
        """
        try:
            return pc.fill_null(computed(self.expression, records), False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidInputError(
                f"the filter cannot be computed for a record: filter={self.expression} ({error})",
                remedy="choose the records, or write it otherwise",
            ) from error
