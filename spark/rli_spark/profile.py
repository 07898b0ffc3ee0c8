"""What a driver learns of the tagged rows: counts, by which it plans. Small, whatever the size of the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli.layout.file_slices import FileSlice
from rli.model import FileGroupId
from rli.table.file_groups import work_rows
from rli.table.file_groups.work_rows import Change
from rli_spark.batches import gathered, map_tables

_COUNTED: Final = [work_rows.CHANGE, work_rows.PARTITION_PATH, *work_rows.PRIOR_FILE_GROUP]
_COUNTS: Final = pa.schema(
    [(_COUNTED[0], pa.int8()), *((name, pa.string()) for name in _COUNTED[1:]), ("rows", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Profile:
    """Counts of tagged rows.

    Attributes:
        new_records: partition path → records that it gains, moves included.
        origins: file groups that records are updated in, move out of or are deleted from.
        arriving: records that change their partition.
        rows: all of them.
    """

    new_records: Mapping[str, int]
    origins: frozenset[FileGroupId]
    arriving: int
    rows: int

    @classmethod
    def of(cls, rows: DataFrame) -> Profile:
        """Count; computes the frame."""
        new_records: Counter[str] = Counter()
        origins: set[FileGroupId] = set()
        arriving = total = 0
        for change, partition_path, prior_partition_path, prior_file_id, count in map_tables(
            rows.select(*_COUNTED), _counts, _COUNTS
        ).collect():
            total += count
            if change in (Change.INSERT, Change.ARRIVE):
                new_records[partition_path] += count
            if change == Change.ARRIVE:
                arriving += count
            if prior_file_id is not None:
                origins.add(FileGroupId(prior_partition_path, prior_file_id))
        return cls(new_records, frozenset(origins), arriving, total)

    def slices(self, live: Mapping[FileGroupId, FileSlice]) -> dict[FileGroupId, FileSlice]:
        """Of the live slices those that a write of the rows may have to read."""
        return {
            group: file_slice
            for group, file_slice in live.items()
            if group in self.origins or group.partition_path in self.new_records
        }


def _counts(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The rows of each kind in each batch; the driver adds them up, which spares a shuffle."""
    for table in gathered(tables):
        counted = table.group_by(_COUNTED).aggregate([([], "count_all")])
        yield counted.rename_columns(_COUNTS.names).cast(_COUNTS)
