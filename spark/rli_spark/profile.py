"""What a driver learns of tagged rows: the headings of their packets, by which it plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.model import FileGroupId
from rli_spark.row_batches import DATA, HASHES, ROWS, packed, table_of
from rli_spark.tally import Tally

TAGGED: Final = pa.schema(
    [
        (work_rows.CHANGE, pa.int8()),
        (work_rows.PARTITION_PATH, pa.string()),
        (work_rows.FILE_ID, pa.string()),
        (ROWS, pa.int64()),
        (HASHES, pa.int64()),
        (DATA, pa.binary()),
    ]
)
"""Packets of tagged rows: what they do; the file group where their records are stored, or the partition that gains
them; the tally of their keys. Without a change they hold no rows, and tell of keys alone."""

_READ: Final = "read"
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Profile:
    """Counts of tagged rows.

    Attributes:
        new: partition path → records that it gains.
        changed: file group → records that are updated in it or deleted from it.
        leaving: file group → records that move out of it, as far as they are not too late.
        unknown: keys to delete that the table does not hold.
        read: the keys that the tasks have read; of those that occur more than once, each occurrence.
        staying: the keys of rows that the last stage may write as they are.
        moving: the keys of records that move out of a file group, as far as they are not too late.
    """

    new: Mapping[str, int]
    changed: Mapping[FileGroupId, int]
    leaving: Mapping[FileGroupId, int]
    unknown: int
    read: Tally
    staying: Tally
    moving: Tally

    @classmethod
    def of(cls, packets: DataFrame) -> Profile:
        """Compute the packets and count what is in them."""
        new: Counter[str] = Counter()
        changed: Counter[FileGroupId] = Counter()
        leaving: Counter[FileGroupId] = Counter()
        unknown = 0
        read = staying = moving = Tally()
        for change, partition_path, file_id, rows, hashes in packets.drop(DATA).collect():
            tally = Tally(rows, hashes)
            if change is None and partition_path == _READ:
                read += tally
            elif change is None:
                unknown += rows
            elif file_id is None:
                new[partition_path] += rows
                staying += tally
            elif change == Change.MOVE_IN:
                leaving[FileGroupId(partition_path, file_id)] += rows
                moving += tally
            else:
                changed[FileGroupId(partition_path, file_id)] += rows
                staying += tally
        return cls(new, changed, leaving, unknown, read, staying, moving)

    @property
    def origins(self) -> frozenset[FileGroupId]:
        """The file groups that hold records of the write."""
        return frozenset(self.changed) | frozenset(self.leaving)


Packet = tuple[int | None, str | None, str | None, int, int, bytes | None]


def packet(change: Change, partition_path: str, file_id: str | None, rows: pa.Table) -> Packet:
    """A packet of tagged rows that all do the same to one file group, or that one partition gains."""
    tally = Tally.of(rows.column(work_rows.RECORD_KEY))
    return int(change), partition_path, file_id, tally.keys, tally.hashes, packed(rows)


def packet_of_read(tally: Tally) -> Packet:
    """A packet without rows, which tells of the keys that a task has read."""
    return None, _READ, None, tally.keys, tally.hashes, None


def packet_of_unknown(keys: int) -> Packet:
    """A packet without rows, which tells of keys that the table does not hold."""
    return None, _UNKNOWN, None, keys, 0, None


def tagged(packets: Iterable[Packet]) -> pa.Table:
    """Packets as a table of ``TAGGED``."""
    return table_of(packets, TAGGED)
