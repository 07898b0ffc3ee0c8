"""Bloom filters of the base files that a write replaces: the next files' filters can go on from them.

A filter that claims too much costs time alone. A commit of few records adds their values in a small part of the time in which all values
of a file are read and hashed again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from rli.column_index.expressions import OUR_FILTERS, IndexedExpression
from rli.column_index.key_filters import decoded_filter
from rli.file_group.changed_values import ChangedValues
from rli.hudi.bloom_filter import FALSE_POSITIVE_RATE, BloomFilter
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.views import DataFile, bloom_filters_in
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice


@dataclass(frozen=True, slots=True)
class FormerFilter:
    """The filter of a base file that a write replaces.

    Attributes:
        filter: of the values that the file has.
        after: the records that the write has written into the next file, and not only copied.
    """

    filter: BloomFilter
    after: pa.Table

    def takes(self, count: int) -> bool:
        """Whether so many more values make the filter claim at most twice as many foreign ones as a new filter does."""
        return self.filter.room(2 * FALSE_POSITIVE_RATE) >= count


@dataclass(frozen=True, slots=True)
class FormerFilters:
    """What is known of the files that a write replaces.

    Attributes:
        reader: of the metadata table, before the write.
        files: of file groups without log files, the base files that the write replaces.
        changed: changed values of file groups, where the process of the write has noted them.
    """

    reader: MetadataTableReader
    files: Mapping[FileGroupId, DataFile] = field(default_factory=dict)
    changed: Mapping[FileGroupId, ChangedValues] = field(default_factory=dict)

    @classmethod
    def of(
        cls, reader: MetadataTableReader, slices: Iterable[FileSlice], changed: Mapping[FileGroupId, ChangedValues]
    ) -> FormerFilters:
        """What is known of slices that a write replaces.

        Args:
            reader: of the metadata table, before the write.
            slices: in the state before the write.
            changed: changed values of file groups.
        """
        files = {
            one.group: (one.group.partition_path, posixpath.basename(one.base.path))
            for one in slices
            if one.base is not None and not one.logs and one.group in changed
        }
        return cls(reader, files, changed)

    def of_index(self, index: IndexedExpression) -> dict[FileGroupId, FormerFilter]:
        """The filters that rli has stored of the values of an expression."""
        files = {
            group: file
            for group, file in self.files.items()
            if index.has_filters and self.changed[group].has(index.column)
        }
        stored = bloom_filters_in(self.reader, index.partition, files.values()) if files else {}
        found = {}
        for group, file in files.items():
            own = stored.get(file)
            is_ours = index.trusts_ours and own is not None and own.type_code == OUR_FILTERS
            decoded = decoded_filter(own, file) if own is not None and is_ours else None
            if decoded is not None:
                found[group] = FormerFilter(decoded, self.changed[group].after)
        return found
