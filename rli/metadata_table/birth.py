"""Files of new partitions of the metadata table, written where nobody reads them yet.

Each file group gets an empty log file, and a base file if it has records. Readers count the file groups of a partition by
the names of its files, so that file groups without records need one, too.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import RepeatedKeyError
from rli.hudi.file_names import LogFileName
from rli.hudi.java_properties import format_properties
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block
from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.table_properties import metadata_table_properties
from rli.hudi.properties import PROPERTIES_PATH
from rli.hudi.timeline.commit_metadata import BULK_INSERT, CommitMetadata, WriteStat
from rli.hudi.timeline.instant import Action, new_instant_time
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import Timeline, load_timeline
from rli.metadata_table.cell_sorter import CellSorter
from rli.metadata_table.initial_records import InitialRecords
from rli.metadata_table.new_files import NewFiles
from rli.view.file_slices import PARTITION_METADATA

_FIRST_INSTANT: Final = "0" * 17
_FIRST_INSTANT_OF_LAYOUT_1: Final = "0" * 14
_FIRST_SUFFIX: Final = 10


@dataclass(frozen=True)
class Birth:
    """New partitions of a metadata table, as files below a folder.

    Attributes:
        records: what the partitions hold.
        new: the files; their instant is that of the deltacommit that makes the partitions.
        completion_time: of that deltacommit.
        is_first: the metadata table itself is new.
    """

    records: InitialRecords
    new: NewFiles
    completion_time: str
    is_first: bool

    @classmethod
    def of(cls, records: InitialRecords, folder: str) -> Self:
        """A birth that begins now.

        Args:
            records: what the partitions hold; with ``files`` among them the metadata table itself is new.
            folder: for the files, relative to the table; nobody else uses it.
        """
        table, data = records.snapshot.table, records.snapshot.timeline
        metadata = load_timeline(table.storage, metadata_layout(table.timeline_layout))
        used = max(data.latest_time or "", metadata.latest_time or "")
        now = new_instant_time(table.now(), used or None)
        is_first = PartitionKind.FILES in records.kinds
        instant = _first_instant(data) if is_first else _instant_of_birth(data, metadata, now)
        new = NewFiles(table, folder, instant, now)
        return cls(records, new, new_instant_time(table.now(), now), is_first)

    def write(self, layout: TimelineLayout) -> list[str]:
        """Write the files, from what was read.

        Args:
            layout: of the timeline of the metadata table, relative to the metadata table.

        Returns:
            The files below the folder, in the order in which they are to come into the metadata table.

        Raises:
            ConflictError, CorruptTableError: as ``InitialRecords.add_to``.
            RepeatedKeyError: the record index is global, and a record key is in two file groups.
        """
        files, stats = [], []
        with ExitStack() as stack:
            sorters = {kind: stack.enter_context(CellSorter()) for kind in self.records.kinds}
            self.records.add_to(sorters)
            for kind, sorter in sorters.items():
                for file_id in self.records.file_ids(kind):
                    files.append(self._write_log(kind, file_id))
                    if file_id in sorter.file_ids:
                        stats.append(self.new.write_base(kind, file_id, unrepeated(sorter.sorted(file_id), kind)))
                files.append(self._write_marker(kind))
        files += [stat.path for stat in stats]
        if self.is_first:
            properties = metadata_table_properties(self.records.snapshot.table.properties)
            files.append(self.new.write(PROPERTIES_PATH, format_properties(properties)))
        return files + self._write_instant(layout, stats)

    def _write_log(self, kind: str, file_id: str) -> str:
        instant = self.new.instant
        name = LogFileName(file_id, instant, 1, self.new.token)
        return self.new.write(posixpath.join(kind, str(name)), delete_block(instant, NO_DELETES))

    def _write_marker(self, kind: str) -> str:
        content = f"#partition metadata\ncommitTime={self.new.instant}\npartitionDepth=1\n"
        return self.new.write(posixpath.join(kind, PARTITION_METADATA), content.encode())

    def _write_instant(self, layout: TimelineLayout, stats: Sequence[WriteStat]) -> list[str]:
        metadata = CommitMetadata(tuple(stats), avro_schema=self.new.schema, operation=BULK_INSERT)
        pending = self.new.write_pending(layout, Action.DELTA_COMMIT)
        completed = layout.completed_path(self.new.instant, Action.DELTA_COMMIT, self.completion_time)
        return [*pending, self.new.write(completed, layout.encode(metadata))]


def unrepeated(batches: Iterable[pa.RecordBatch], kind: str) -> Iterator[pa.RecordBatch]:
    """The same cells, each key of which occurs once.

    Args:
        batches: of ``CELLS``, in the order of their keys.
        kind: the partition, for errors.

    Raises:
        RepeatedKeyError: a key occurs twice.
    """
    last: bytes | None = None
    for batch in batches:
        keys = batch["key"]
        repeated = keys[1:].filter(pc.equal(keys[1:], keys[:-1]))
        if len(repeated) or keys[0].as_py() == last:
            key = (repeated if len(repeated) else keys)[0].as_py()
            raise RepeatedKeyError(
                f"a key occurs twice in a new partition of the metadata table: partition={kind} "
                f"key={key.decode(errors='replace')!r}",
                remedy=(
                    "a record index of the whole table knows one place for each record key: run rli deduplicate TABLE, leave "
                    "record_index out, or give the table an index with ?scope=partition"
                ),
            )
        last = keys[-1].as_py()
        yield batch


def _first_instant(data: Timeline) -> str:
    """Before all instants of the table: its commits stand above the base files."""
    if data.layout.keeps_completion_times:
        return _FIRST_INSTANT
    last = max((instant.time for instant in data.completed_writes), default=_FIRST_INSTANT_OF_LAYOUT_1)
    return f"{last}{_FIRST_SUFFIX:03d}"


def _instant_of_birth(data: Timeline, metadata: Timeline, now: str) -> str:
    """For a partition that joins others: above what is there, and the last completion of the table if that will do.

    A later one would be taken for that of a commit which the reader of a state of the table does not know yet. The instant of a
    pending write is that of its own deltacommit: a write that is given up would take the partition with it.
    """
    if data.layout.keeps_completion_times:
        last = max((instant.completion_time or "" for instant in data.completed), default="")
        return last if last > (metadata.latest_time or "") else now
    last = max((instant.time for instant in data.completed_writes), default=_FIRST_INSTANT_OF_LAYOUT_1)
    taken = {instant.time for instant in metadata.instants}
    return next(f"{last}{n:03d}" for n in range(_FIRST_SUFFIX, 1000) if f"{last}{n:03d}" not in taken)
