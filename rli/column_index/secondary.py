"""The records of some values by file group, told by a secondary index and the record index of the metadata table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from rli.filters.named_values import named_prefix
from rli.filters.predicates import Predicate
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.record_index import located_keys
from rli.hudi.metadata.secondary_keys import has_index_form, index_form, record_keys_of
from rli.locations import KeysByGroup, keys_by_group

_MOST_VALUES: Final = 10_000
_MOST_RECORDS: Final = 100_000
"""With more of them, statistics and footers tell as much in less time."""


def sought_values(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Values that a filter names, as a secondary index prints them; None if the index cannot be asked for them.

    Args:
        values: of the filter, without nulls.
        kind: the type of the column in the table.
    """
    is_same = values.type == kind or (pa.types.is_integer(values.type) and pa.types.is_signed_integer(kind))
    if not has_index_form(kind) or not is_same or not 0 < len(values) <= _MOST_VALUES:
        return None
    # An integer prints alike in all types.
    return values.cast(pa.string()) if pa.types.is_integer(values.type) else index_form(values)


def sought_prefix(predicate: Predicate, column: str, kind: pa.DataType) -> str | None:
    """A common prefix of all strings of a column that pass a filter; None if the index cannot be asked for a prefix.

    Args:
        predicate: of the filter.
        column: with the index.
        kind: the type of the column in the table: only strings are stored in the order of their values.
    """
    return named_prefix(predicate, column) if pa.types.is_string(kind) else None


def keys_with(reader: MetadataTableReader, partition: str, sought: pa.Array | str) -> KeysByGroup | None:
    """The keys of all records with one of some values, and perhaps of others; None if they are too many to look up.

    Args:
        reader: of the metadata table.
        partition: of the secondary index.
        sought: values of ``sought_values``, or a prefix of ``sought_prefix``.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    found, count = list[pa.Array](), 0
    for keys in _record_keys(reader, partition, sought):
        found.append(keys)
        count += len(keys)
        if count > _MOST_RECORDS:
            return None
    keys = pa.concat_arrays([pa.array([], pa.string()), *found])
    return keys_by_group(located_keys(reader.lookup_everywhere(PartitionKind.RECORD_INDEX, keys)))


def _record_keys(reader: MetadataTableReader, partition: str, sought: pa.Array | str) -> Iterator[pa.Array]:
    is_prefix = isinstance(sought, str)
    for cells in reader.entries_beginning(partition, sought) if is_prefix else reader.entries_of(partition, sought):
        yield record_keys_of(cells["key"])
