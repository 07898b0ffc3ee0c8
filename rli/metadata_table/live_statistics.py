"""Statistics of the files that readers read after a change, for the statistics of partitions."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rli.errors import UnsupportedTableError
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.records import ColumnStatistics
from rli.hudi.metadata.views import DataFile, column_statistics
from rli.metadata_table.base_file_records import BaseFileRecords, base_file_records
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.storage import Storage
from rli.view.file_slices import FileSlice

_OfFile = Mapping[str, ColumnStatistics]
"""Statistics by column."""


@dataclass(frozen=True, slots=True)
class LiveStatistics:
    """Knows the statistics of files: as the metadata table keeps them, and by their footers where it does not.

    Attributes:
        storage: of the table.
        reader: of the metadata table.
        columns: that may have statistics.
    """

    storage: Storage
    reader: MetadataTableReader
    columns: IndexedColumns

    def by_partition(
        self, live: Mapping[str, Sequence[FileSlice] | None], added: Mapping[DataFile, BaseFileRecords]
    ) -> dict[str, Sequence[_OfFile] | None]:
        """Partition path → statistics of each file with rows; None if they are not known.

        Args:
            live: partition path → file slices that were there before; None if log files add to them.
            added: base files that come.
        """
        coming: dict[str, list[_OfFile]] = defaultdict(list)
        for (path, _), records in added.items():
            if records.rows:
                coming[path].append(records.statistics)
        found: dict[str, Sequence[_OfFile] | None] = {}
        for path, slices in live.items():
            # What log files say may lie outside of the base file's bounds.
            is_known = slices is not None and not any(part.logs for part in slices)
            found[path] = [*self._of_slices(slices or ()), *coming[path]] if is_known else None
        return found

    def _of_slices(self, slices: Sequence[FileSlice]) -> Iterator[_OfFile]:
        files = [posixpath.split(part.base.path) for part in slices if part.base is not None]
        known = self._kept(files)
        for file in files:
            if file in known:
                yield known[file]
                continue
            records = base_file_records(self.storage, posixpath.join(*file), self.columns)
            if records.rows:
                yield records.statistics

    def _kept(self, files: Sequence[DataFile]) -> Mapping[DataFile, _OfFile]:
        if not files or PartitionKind.COLUMN_STATS not in self.reader.partitions:
            return {}
        try:
            return column_statistics(self.reader, self.columns.names, files)
        except UnsupportedTableError:
            # They lie in log files in a form that rli writes to, and does not read.
            return {}
