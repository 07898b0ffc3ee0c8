"""What comes and goes with a change of the table, partition by partition of its metadata table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rli.hudi.metadata.partitions import PartitionKind
from rli.metadata_table.file_changes import FileChanges, partition_statistics
from rli.metadata_table.live_statistics import LiveStatistics
from rli.metadata_table.partition_change import PartitionChange
from rli.view.file_slices import FileSlice


@dataclass(frozen=True, slots=True)
class Contents:
    """What comes and goes with a change.

    Attributes:
        files: data files.
        live: partition path → the file slices that readers read after the change, as far as they were there before it; None if
            log files of the change add to them.
        locations: makes the change of the record index.
        of_columns: makes the change of each secondary index and of each index on an expression, by its partition.
    """

    files: FileChanges
    live: Mapping[str, Sequence[FileSlice] | None]
    locations: Callable[[], Sequence[PartitionChange]]
    of_columns: Mapping[str, Callable[[], PartitionChange]]

    def changes(self, partition: str, statistics: LiveStatistics) -> Iterator[PartitionChange]:
        """What the change means in one partition of the metadata table that is kept.

        Args:
            partition: its name.
            statistics: of files.
        """
        match partition:
            case PartitionKind.FILES:
                yield self.files.lists()
            case PartitionKind.COLUMN_STATS:
                yield self.files.column_statistics(statistics.columns)
            case PartitionKind.BLOOM_FILTERS:
                yield self.files.bloom_filters()
            case PartitionKind.PARTITION_STATS:
                live = statistics.by_partition(self.live, self.files.records)
                yield partition_statistics(live, statistics.columns)
            case PartitionKind.RECORD_INDEX:
                yield from self.locations()
            case _ if partition in self.of_columns:
                yield self.of_columns[partition]()
