"""Whether what an index on an expression keeps of a base file is right."""

from __future__ import annotations

import posixpath

from rli.column_index.expressions import OUR_FILTERS
from rli.column_index.key_filters import decoded_filter
from rli.hudi.metadata.records import ColumnStatistics, MetadataRecord, StoredBloomFilter
from rli.hudi.metadata.secondary_keys import index_form
from rli.metadata_table.expression_values import ExpressionValues
from rli.view.file_slices import FileSlice


def is_ours(record: MetadataRecord) -> bool:
    """Whether rli has written what an index on an expression keeps of a file."""
    if isinstance(record, ColumnStatistics):
        return record.total_size == record.total_uncompressed_size
    return isinstance(record, StoredBloomFilter) and record.type_code == OUR_FILTERS


def what_is_wrong(
    stored: MetadataRecord, expected: MetadataRecord, values: ExpressionValues, file_slice: FileSlice
) -> str:
    """What is wrong with what is kept of the base file of a slice; "" if it is right.

    Args:
        stored: what is kept.
        expected: what would be kept of a new file.
        values: computes those of the expression.
        file_slice: the slice.
    """
    if isinstance(stored, StoredBloomFilter) and isinstance(expected, StoredBloomFilter):
        # A filter may have values of former files, too.
        return "the filter denies values of the file" if _is_denied(stored, values, file_slice) else ""
    return "" if stored == expected else f"table={expected} metadata={stored}"


def _is_denied(stored: StoredBloomFilter, values: ExpressionValues, file_slice: FileSlice) -> bool:
    name = "" if file_slice.base is None else posixpath.basename(file_slice.base.path)
    known = decoded_filter(stored, (file_slice.group.partition_path, name))
    keys = (index_form(some.combine_chunks()).drop_null() for some in values.of_slice(file_slice))
    return known is None or not all(known.might_contain(some).all() for some in keys)
