"""Appending to file groups of merge-on-read tables: what becomes a log file, and when a base file is written instead.

A log file is appended where a write updates and removes records of an existing file group. Its records must win in the merge of
all readers, which compares ordering values: where they would not, the caller writes the next base file. Removed records are
listed with the ordering values of the stored ones. With the 0 that wins always, a later record with a lower ordering value
would bring the record of the base file back, in all readers (``rli.view.merging``).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.file_group import work_rows
from rli.file_group.merge import MergePlan
from rli.file_group.work_rows import Change
from rli.hudi.avro_schema import from_avro, to_avro
from rli.hudi.file_names import LogFileName, token_begin
from rli.hudi.log_file.avro_block import avro_block
from rli.hudi.log_file.base_rows import BaseRows
from rli.hudi.log_file.delete_block import delete_block, deletes
from rli.hudi.log_file.parquet_block import parquet_block
from rli.hudi.meta_columns import FILE_NAME, PARTITION_PATH, RECORD_KEY, with_meta_columns
from rli.hudi.schema import conform
from rli.hudi.timeline.commit_metadata import AppendedTo
from rli.model import FileGroupId
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.merging.ordering import comparable, is_at_least
from rli.view.merging.rules import MergeRules
from rli.view.slice_reader import SliceReader
from rli.view.slice_readers import SliceReaders

_ADDS: Final = work_rows.told_apart([Change.INSERT, Change.MOVE_IN])
_AS_INT: Final = (pa.int8(), pa.int16())
_BITS_OF_TOKEN: Final = 0x7FFFFFFF

_MOST_BYTES_OF_BLOCK: Final = 64 << 20
"""Of the records of a block in memory, unless a single record has more: readers of all engines may hold a block as a whole."""

_ORDERINGS_OF_DELETES: Final = (
    pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.binary(), pa.string(),
)  # fmt: skip
"""Types of ordering values that a block of deletes takes."""


class PlacedRecords(NamedTuple):
    """Records that go to a log file.

    Attributes:
        records: the records.
        base_rows: their positions in the base file; None if they are not known.
    """

    records: pa.Table
    base_rows: BaseRows | None


@dataclass(frozen=True, slots=True)
class LogAppending:
    """How a write appends to the file groups of its table. Picklable.

    Attributes:
        readers: of the state that the write builds on.
        schema: Avro schema of the records after the write, with meta columns.
        ordering: the column by which readers merge; None if the later record wins.
        names_commit: whether the name of a log file has the instant of its commit: from table version 8 on. Before, it has that
            of its slice.
        log_format: of records.
        compression: Parquet codec.
        takes_new: whether records that are new in a file group may be appended: the index finds the file group of a key without
            looking into base files.
        compactions: file group → the instant of a compaction that is planned for it and has not completed.
        most_logs: a slice with so many log files gets a base file, unless a compaction is planned for it; 0: each slice gets one;
            None: a slice may have any number of log files.
    """

    readers: SliceReaders
    schema: str
    ordering: str | None
    names_commit: bool
    log_format: Literal["parquet", "avro"]
    compression: str
    takes_new: bool
    compactions: Mapping[FileGroupId, str]
    most_logs: int | None

    @classmethod
    def of(
        cls,
        table: TableDefinition,
        stored: pa.Schema | None,
        schema: pa.Schema,
        *,
        takes_new: bool,
        compactions: Mapping[FileGroupId, str],
    ) -> Self:
        """How a write appends.

        Args:
            table: the table, which is merge-on-read.
            stored: schema of the records before the write; None in a table that was never written.
            schema: of the records after the write.
            takes_new: see the attribute.
            compactions: see the attribute.

        Raises:
            UnsupportedTableError: rli does not know how the table's records are merged.
        """
        settings = table.require_settings()
        return cls(
            SliceReaders(table, stored),
            to_avro(with_meta_columns(schema), table.properties.name),
            MergeRules.of(table.properties).ordering,
            table.timeline_layout.keeps_completion_times,
            settings.log_format,
            settings.compression,
            takes_new,
            compactions,
            None if settings.maintenance.is_off else settings.maintenance.compaction_inline_max_log_files,
        )

    def may_append(self, base: FileSlice | None, reader: SliceReader | None, changes: NDArray[np.int8]) -> bool:
        """Whether work rows may become a log file of a file group.

        Args:
            base: its newest slice; None for a new file group.
            reader: of the slice.
            changes: what the rows do, shape (n,).
        """
        if base is None or reader is None or self._is_deep(base):
            return False
        return self.takes_new or not _ADDS[changes].any()

    def _is_deep(self, base: FileSlice) -> bool:
        """Whether a slice has so many log files that none is added. A planned compaction merges them, so its slice takes more."""
        if self.most_logs is None or len(base.logs) < self.most_logs:
            return False
        return self.most_logs == 0 or base.group not in self.compactions

    def wins(self, plan: MergePlan, stored: pa.Table, reader: SliceReader) -> bool:
        """Whether all readers give the records of a plan, if these are appended to the stored ones.

        Args:
            plan: of one file group.
            stored: its records, with the ordering column.
            reader: of its slice.
        """
        if len(plan.added):
            added = plan.rows.column(work_rows.RECORD_KEY).take(pa.array(plan.added)).combine_chunks()
            removed = stored.column(RECORD_KEY).take(pa.array(plan.removed_records)).combine_chunks()
            if not self._takes(added, removed, reader):
                return False
        touched = pa.array(np.concatenate([plan.replaced_records, plan.removed_records]))
        # Of records of a base file that share a key, log files change the first one alone.
        if reader.has_repeats or _share_keys(stored.column(RECORD_KEY), touched):
            return False
        if self.ordering is None:
            return True
        before = stored.column(self.ordering).combine_chunks()
        if before.take(touched).null_count:
            return False
        replaced = pa.array(plan.replaced_records)
        arriving = plan.rows.column(self.ordering).combine_chunks().take(pa.array(plan.fates[plan.replaced_records]))
        return bool(is_at_least(comparable(arriving), comparable(before.take(replaced))).all())

    def _takes(self, added: pa.Array, removed: pa.Array, reader: SliceReader) -> bool:
        """Whether readers give new records that are appended.

        Args:
            added: their keys.
            removed: the keys of stored records that the same log file deletes. The block of deletes is its last: so a record that
                takes the place of an expired one would be deleted.
            reader: of the slice. A record that its log files delete may be in the base file still, with a greater ordering value than
                a record that comes again.
        """
        return self.takes_new and not pc.is_in(added, removed).true_count and not reader.deletes_any(added)

    def name(self, base: FileSlice, instant: str, token: str) -> tuple[LogFileName, AppendedTo]:
        """The name of a log file, and what a commit says of its slice.

        Args:
            base: the slice that it is appended to.
            instant: of the commit.
            token: of the attempt: three numbers, ``1-2-3``.
        """
        file_id = base.group.file_id
        if self.names_commit:
            own = LogFileName(file_id, instant, 1, token)
            return own, AppendedTo("", (str(own),))
        # The records of a log file that names the base file are lost once a planned compaction completes.
        began = self.compactions.get(base.group, base.instant)
        names = [LogFileName.parse(log.path.rpartition("/")[2]) for log in base.logs]
        earlier = [name for name in names if name.instant == began]
        # A number that no other log file of the slice has, of dead writers neither. Names tell the instant by the token alone.
        version = max((name.version for name in earlier), default=0) + 1
        attempt = zlib.crc32(token.encode()) & _BITS_OF_TOKEN
        own = LogFileName(file_id, began, version, f"{token_begin(instant)}{attempt}")
        is_of_base = base.base is not None and began == base.instant
        base_file = base.base.path.rpartition("/")[2] if base.base is not None and is_of_base else ""
        return own, AppendedTo(base_file, (*map(str, earlier), str(own)))

    def content(self, instant: str, group: FileGroupId, written: PlacedRecords, removed: PlacedRecords) -> bytes:
        """The content of a log file: blocks of records, and a block of deletes, as far as there are any.

        Args:
            instant: of the commit.
            group: the file group.
            written: records with ``with_record_meta_columns``.
            removed: record keys, and ordering values if the table has a column of them.
        """
        blocks = []
        records = written.records
        if records.num_rows:
            columns = from_avro(self.schema)
            constants = {PARTITION_PATH: group.partition_path, FILE_NAME: group.file_id}
            for name, value in constants.items():
                records = records.append_column(name, pa.repeat(pa.scalar(value, pa.string()), records.num_rows))
            start = 0
            for part in _parts_of(conform(records.select(columns.names), columns)):
                batches = part.combine_chunks().to_batches()
                if self.log_format == "avro":
                    blocks.append(avro_block(instant, batches, self.schema))
                else:
                    rows = written.base_rows
                    own = None if rows is None else rows.part(start, part.num_rows)
                    blocks.append(parquet_block(instant, batches, self.schema, self.compression, own))
                start += part.num_rows
        gone = removed.records
        if gone.num_rows:
            keys = gone.column(RECORD_KEY).combine_chunks()
            ordering = None if self.ordering is None else _of_deletes(gone.column(self.ordering).combine_chunks())
            deleted = deletes(keys, group.partition_path, ordering)
            blocks.append(delete_block(instant, deleted, self.schema, removed.base_rows))
        return b"".join(blocks)


def _parts_of(records: pa.Table) -> Iterator[pa.Table]:
    """Records in their order, in parts for a block each."""
    if records.nbytes <= _MOST_BYTES_OF_BLOCK or records.num_rows <= 1:
        yield records
        return
    half = records.num_rows // 2
    yield from _parts_of(records.slice(0, half))
    yield from _parts_of(records.slice(half))


def _of_deletes(values: pa.Array) -> pa.Array | None:
    """Ordering values in a type that deletes have; None for other types, whose deletes always win."""
    if values.type in _AS_INT:
        return values.cast(pa.int32())
    return values if values.type in _ORDERINGS_OF_DELETES else None


def _share_keys(keys: pa.ChunkedArray, touched: pa.Array) -> bool:
    """Whether any of the touched records has its key in common with another record, touched or not.

    Args:
        keys: of the stored records, shape (n,).
        touched: positions among them, shape (m,).
    """
    sought = keys.take(touched).combine_chunks()
    return (pc.sum(pc.is_in(keys, value_set=sought)).as_py() or 0) > len(sought.unique())
