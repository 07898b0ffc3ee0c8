"""Files of new partitions of the metadata table, written where nobody reads them yet.

Each file group gets an empty log file, and a base file if it has records. Readers count the file groups of a partition by
the names of its files, so that file groups without records need one, too.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError
from rli.hudi.file_names import HFILE, BaseFileName, LogFileName
from rli.hudi.hfile.writer import write_hfile
from rli.hudi.java_properties import format_properties
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.schema import METADATA_SCHEMA_TEXT
from rli.hudi.metadata.table_properties import metadata_table_properties
from rli.hudi.properties import PROPERTIES_PATH
from rli.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from rli.hudi.timeline.instant import Action, State
from rli.hudi.timeline.layouts import TimelineLayout
from rli.metadata_table.cell_sorter import CellSorter
from rli.metadata_table.initial_records import InitialRecords
from rli.storage import Storage
from rli.view.file_slices import PARTITION_METADATA

_OPERATION: Final = "BULK_INSERT_PREPPED"


@dataclass(frozen=True)
class Birth:
    """New partitions of a metadata table, as files below a folder.

    Attributes:
        records: what the partitions hold.
        kinds: the new partitions.
        storage: of the table.
        folder: where the files are written: it stands for the folder of the metadata table.
        instant: of the deltacommit that makes the partitions.
        completion_time: of that deltacommit.
        token: in the names of files; no other attempt has it.
        is_first: the metadata table itself is new.
    """

    records: InitialRecords
    kinds: Sequence[PartitionKind]
    storage: Storage
    folder: str
    instant: str
    completion_time: str
    token: str
    is_first: bool

    def write(self, layout: TimelineLayout, on_file: Callable[[], None] = lambda: None) -> list[str]:
        """Write the files.

        Args:
            layout: of the timeline of the metadata table, relative to the metadata table.
            on_file: called for each data file of the table that was read.

        Returns:
            The files below the folder, in the order in which they are to come into the metadata table.

        Raises:
            CorruptTableError: a base file of the table is missing or damaged.
            InvalidInputError: the record index is global, and a record key is in two file groups.
            UnsupportedTableError: an instant of the table is no time, so that no record index can name it.
        """
        files, stats = [], []
        with ExitStack() as stack:
            sorters = {kind: stack.enter_context(CellSorter()) for kind in self.kinds}
            self.records.add_to(sorters, on_file)
            for kind, sorter in sorters.items():
                for file_id in self.records.file_ids(kind):
                    files.append(self._write_log(kind, file_id))
                    if file_id in sorter.file_ids:
                        stats.append(self._write_base(kind, file_id, sorter))
                files.append(self._write_marker(kind))
        files += [stat.path for stat in stats]
        if self.is_first:
            properties = metadata_table_properties(self.records.snapshot.table.properties)
            files.append(self._write(PROPERTIES_PATH, format_properties(properties)))
        return files + self._write_instant(layout, stats)

    def _write_log(self, kind: PartitionKind, file_id: str) -> str:
        name = LogFileName(file_id, self.instant, 1, self.token)
        return self._write(posixpath.join(kind, str(name)), delete_block(self.instant, NO_DELETES))

    def _write_marker(self, kind: PartitionKind) -> str:
        content = f"#partition metadata\ncommitTime={self.instant}\npartitionDepth=1\n"
        return self._write(posixpath.join(kind, PARTITION_METADATA), content.encode())

    def _write_base(self, kind: PartitionKind, file_id: str, sorter: CellSorter) -> WriteStat:
        path = posixpath.join(kind, str(BaseFileName(file_id, self.token, self.instant, HFILE)))
        full_path = self.storage.full_path(posixpath.join(self.folder, path))
        counts: list[int] = []
        with self.storage.filesystem.open_output_stream(full_path) as sink:
            write_hfile(sink, counted_once(sorter.sorted(file_id), kind, counts.append), METADATA_SCHEMA_TEXT)
            size = sink.tell()
        cells = sum(counts)
        return WriteStat(file_id, path, kind, None, cells, cells, 0, 0, size, size)

    def _write_instant(self, layout: TimelineLayout, stats: Sequence[WriteStat]) -> list[str]:
        metadata = CommitMetadata(tuple(stats), avro_schema=METADATA_SCHEMA_TEXT, operation=_OPERATION)
        pending = [
            layout.pending_path(self.instant, Action.DELTA_COMMIT, state) for state in (State.REQUESTED, State.INFLIGHT)
        ]
        completed = layout.completed_path(self.instant, Action.DELTA_COMMIT, self.completion_time)
        return [*(self._write(path, b"") for path in pending), self._write(completed, layout.encode(metadata))]

    def _write(self, path: str, content: bytes) -> str:
        target = posixpath.join(self.folder, path)
        self.storage.make_folder(posixpath.dirname(target))
        self.storage.unflushed().write_bytes(target, content)
        return path


def counted_once(
    batches: Iterable[pa.RecordBatch], kind: PartitionKind, count: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The same cells, counted.

    Args:
        batches: of ``CELLS``, in the order of their keys.
        kind: the partition, for errors.
        count: called with the number of cells of each batch.

    Raises:
        InvalidInputError: a key occurs twice.
    """
    last: bytes | None = None
    for batch in batches:
        keys = batch["key"]
        repeated = keys[1:].filter(pc.equal(keys[1:], keys[:-1]))
        if len(repeated) or keys[0].as_py() == last:
            key = (repeated if len(repeated) else keys)[0].as_py()
            raise InvalidInputError(
                f"a key occurs twice in a new partition of the metadata table: partition={kind} "
                f"key={key.decode(errors='replace')!r}",
                remedy=(
                    "a record index of the whole table knows one place for each record key: leave record_index out, or "
                    "give the table an index with ?scope=partition"
                ),
            )
        last = keys[-1].as_py()
        count(batch.num_rows)
        yield batch
