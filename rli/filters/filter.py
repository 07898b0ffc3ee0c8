"""A filter in the two forms that a read needs: for pyarrow to apply, and for the planner to understand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError, SchemaError
from rli.filters.expressions import known_part
from rli.filters.predicates import Column, IsIn, Predicate, all_of, columns_of, has_unknown
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
                ``pyarrow.compute.Expression``, or ``WithValues``; None for no filter.
            schema: of the records, with meta columns.

        Raises:
            SchemaError: it is not a filter, names an unknown column, or compares values that cannot be compared.
            InvalidInputError: the text is not understood.
        """
        if filters is None:
            return None
        if isinstance(filters, WithValues):
            return filters.filter(schema)
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


@dataclass(frozen=True, slots=True)
class WithValues:
    """The records that have one of some values in each of some columns, and pass a filter.

    Attributes:
        where: column → its values.
        filters: as ``Filter.of`` takes them.
    """

    where: Mapping[str, Collection[Any]]
    filters: object = None

    def filter(self, schema: pa.Schema) -> Filter | None:
        """Both as one filter; raises as ``Filter.of``."""
        # Filters may be strings, so a caller may give one here.
        if not isinstance(self.where, Mapping):
            raise InvalidInputError(
                f"columns and their values are not given as a mapping: where={self.where!r}",
                remedy="give one such as {'email': ['a@b']}; for a condition, use filters",
            )
        others = Filter.of(self.filters, schema)
        chosen = [Filter(part.expression(), part) for part in (self._is_in(schema, name) for name in self.where)]
        parts = [*chosen, *([] if others is None else [others])]
        if not parts:
            return None
        expression = parts[0].expression
        for part in parts[1:]:
            expression = expression & part.expression
        return Filter(expression, all_of([part.predicate for part in parts]))

    def _is_in(self, schema: pa.Schema, name: str) -> IsIn:
        values: object = self.where[name]
        if isinstance(values, str | bytes) or not isinstance(values, Iterable) or None in values:
            raise InvalidInputError(
                f"the values of a column are no list of values: column={name} values={values!r}",
                remedy="give a list without None, such as {'email': ['a@b']}; for nulls, use filters",
            )
        if schema.names.count(name) != 1:
            raise SchemaError(
                f"the table has no such column: column={name} found={schema.names}", remedy="check the name"
            )
        kind = schema.field(name).type
        try:
            return IsIn.equal((name,), pa.array([*values], kind))
        except (pa.ArrowException, TypeError) as error:
            raise SchemaError(
                f"a value does not fit the column: column={name} type={kind} ({error})", remedy="check the values"
            ) from error
