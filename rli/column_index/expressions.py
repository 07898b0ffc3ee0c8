"""Indexes on expressions: what each is of, and which files their bounds prove to hold no record of a filter.

Hudi computes such values in the time zone of a Spark session, and folds letters as Java does. rli has the clock of UTC and the
letters of Unicode. So the bounds that Hudi has stored of a file prove something only for functions that know neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.column_index.key_filters import decoded_filter
from rli.column_index.secondary import sought_values
from rli.column_index.statistics import ByColumn
from rli.column_index.trust import bounds_of_values
from rli.errors import InvalidInputError
from rli.filters.expressions import Shape, known_part, shape_of
from rli.filters.named_values import named_values
from rli.filters.predicates import Predicate, columns_of
from rli.filters.pruning import may_match
from rli.filters.value_expression import ValueExpression
from rli.hudi.metadata.index_definitions import TYPE_OPTION, IndexDefinition, expression_of
from rli.hudi.metadata.keys import bloom_filter_key, column_stats_key
from rli.hudi.metadata.partitions import PartitionKind, is_of_expression
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.records import StoredBloomFilter
from rli.hudi.metadata.secondary_keys import has_index_form
from rli.hudi.metadata.statistic_values import value_type_of
from rli.hudi.metadata.views import DataFile, bloom_filters_in, statistics_in

_SAME_IN_JAVA: Final = frozenset({"trim", "ltrim", "rtrim", "length", "substring"})
_FILTER_TYPE: Final = "filtertype"
OUR_FILTERS: Final = "SIMPLE"
"""The type of the bloom filters of rli; by default, Hudi has another one here."""

_MOST_VALUES: Final = 1_000


@dataclass(frozen=True, slots=True)
class IndexedExpression:
    """An index on an expression of a table.

    Attributes:
        partition: of the metadata table.
        column: that the expression reads.
        value: the expression over the table's records.
        shape: of the expression.
        has_filters: it holds bloom filters, and no bounds.
        trusts_all: what all writers have stored counts, and not what rli has stored alone.
        trusts_ours: what rli has stored can be told from what others have.
    """

    partition: str
    column: str
    value: ValueExpression
    shape: Shape
    has_filters: bool
    trusts_all: bool
    trusts_ours: bool

    @classmethod
    def of(cls, definition: IndexDefinition | None, schema: pa.Schema) -> IndexedExpression | None:
        """The index of a definition; None if rli does not know its function, or not for such records.

        Args:
            definition: of the index.
            schema: of the table's records.
        """
        text = expression_of(definition)
        if definition is None or text is None or schema.names.count(definition.columns[0]) != 1:
            return None
        try:
            value = ValueExpression.of(text, schema)
        except InvalidInputError:
            return None
        shape = shape_of(value.expression)
        has_filters = definition.kind == PartitionKind.BLOOM_FILTERS
        fits = has_index_form(value.kind) if has_filters else has_bounds(value.kind)
        # Bounds that were stored of another type would be read with another meaning.
        is_same = definition.options.get(TYPE_OPTION, str(value.kind)) == str(value.kind)
        if shape is None or not fits or not is_same or {*value.columns} != {(definition.columns[0],)}:
            return None
        trusts_all = definition.function in _SAME_IN_JAVA
        trusts_ours = not has_filters or _FILTER_TYPE not in definition.options
        return cls(definition.name, definition.columns[0], value, shape, has_filters, trusts_all, trusts_ours)

    @property
    def name(self) -> str:
        """Stands for the expression as a column: no column of a table has such a name, but that whose own values are indexed."""
        return self.column if self.shape == shape_of(pc.field(self.column)) else f"\0{self.partition}"

    def key_of(self, file: DataFile) -> str:
        """The key of what the index holds of a file."""
        return bloom_filter_key(*file) if self.has_filters else column_stats_key(self.column, *file)


def has_bounds(kind: pa.DataType) -> bool:
    """Whether an index on an expression of a type can hold bounds."""
    is_unordered = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return value_type_of(kind) is not None and not is_unordered


def indexed_expressions(
    partitions: Iterable[str], definitions: Mapping[str, IndexDefinition], schema: pa.Schema
) -> list[IndexedExpression]:
    """The indexes on expressions among some partitions of the metadata table that rli knows the meaning of."""
    names = sorted(name for name in partitions if is_of_expression(name))
    found = (IndexedExpression.of(definitions.get(name), schema) for name in names)
    return [one for one in found if one is not None]


def files_that_expression_leaves(
    reader: MetadataTableReader, index: IndexedExpression, predicate: Predicate, files: Sequence[DataFile]
) -> list[bool]:
    """Whether each of some files may hold a record for which a predicate is true.

    Args:
        reader: of the metadata table.
        index: on an expression.
        predicate: as ``about`` gives it.
        files: partition paths and names.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    if index.has_filters:
        return _by_filters(reader, index, predicate, files)
    found = statistics_in(reader, index.partition, [index.key_of(file) for file in files])
    bounds = bounds_of_values(found, index.value.kind, trusts_all=index.trusts_all)
    return may_match(predicate, ByColumn(len(files), {index.name: bounds})).tolist()


def about(index: IndexedExpression, expression: pc.Expression) -> Predicate | None:
    """What a filter says of the value of an index, as of a column of the index's name; None if it says nothing of use."""
    predicate = known_part(expression, {index.shape: index.name})
    if index.has_filters:
        return None if _sought(index, predicate) is None else predicate
    return predicate if (index.name,) in columns_of(predicate) else None


def _sought(index: IndexedExpression, predicate: Predicate) -> pa.Array | None:
    """The values of the expression that a filter names, as bloom filters hold them."""
    values = named_values(predicate, index.name)
    return None if values is None or len(values) > _MOST_VALUES else sought_values(values, index.value.kind)


def _by_filters(
    reader: MetadataTableReader, index: IndexedExpression, predicate: Predicate, files: Sequence[DataFile]
) -> list[bool]:
    values, found = _sought(index, predicate), bloom_filters_in(reader, index.partition, files)
    return [values is None or file not in found or _may_hold(index, found[file], values, file) for file in files]


def _may_hold(index: IndexedExpression, stored: StoredBloomFilter, values: pa.Array, file: DataFile) -> bool:
    is_trusted = index.trusts_all or (index.trusts_ours and stored.type_code == OUR_FILTERS)
    found = decoded_filter(stored, file) if is_trusted else None
    return found is None or bool(found.might_contain(values).any())
