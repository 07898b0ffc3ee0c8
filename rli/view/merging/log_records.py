"""The records of log blocks, by columns: as changes to fold, and as records of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.arrow_arrays import one_array
from rli.errors import UnsupportedTableError
from rli.hudi.log_file.avro_block import avro_records
from rli.hudi.log_file.base_rows import UNKNOWN, BaseRows
from rli.hudi.log_file.delete_records import ORDERING, RECORD_KEY, behind_list, deleted_records
from rli.hudi.log_file.form import BlockKind
from rli.hudi.log_file.parquet_block import parquet_records
from rli.hudi.meta_columns import IS_DELETED
from rli.hudi.schema import conform
from rli.view.key_columns import KeyColumns
from rli.view.merging.known_merges import Changes, KnownMerges
from rli.view.merging.latest_changes import NO_RECORD, POSITION, changes, with_base_rows
from rli.view.merging.log_blocks import DataBlock
from rli.view.merging.ordering import comparable, require_known

_OPERATION: Final = "_hoodie_operation"
_MOST_HELD: Final = 64 << 20
"""Bytes of decoded records that are held for the second pass over the blocks; others are decoded again."""

_ALWAYS: Final = 0
"""As an ``int``, the ordering value of a delete that wins over all changes before it, whatever the column's type is."""


@dataclass
class LogRecords:
    """The records of some blocks, read in two passes: ``changes``, then ``take``.

    Attributes:
        blocks: the blocks that count, in order.
        table: location of the table, which identifies a block together with its path.
        schema: of the records that are wanted.
        keys_of: where the keys stand in records of a schema.
        ordering: the ordering column with its type in the table; None if the last change of a key always counts.
        base: name of the slice's base file, and number of its records; None if there is none.
        known: the changes of blocks that were read before.
        takes_all: whether most records will be taken, so that the first pass reads them whole.
        records: number of records of each block; the first pass tells it.
    """

    blocks: Sequence[DataBlock]
    table: str
    schema: pa.Schema
    keys_of: Callable[[pa.Schema], KeyColumns]
    ordering: pa.Field | None
    base: tuple[str, int] | None
    known: KnownMerges
    takes_all: bool
    records: tuple[int, ...] = ()
    _held: dict[int, list[pa.Table]] = field(default_factory=dict)
    _bytes: int = 0

    def changes(self) -> Iterator[pa.Table]:
        """The changes of all blocks, in order.

        Raises:
            CorruptTableError: a block is damaged.
            UnsupportedTableError: a block has records that rli does not merge.
        """
        counts = list[int]()
        for number, one in enumerate(self.blocks):
            found = self._changes_of(number, one)
            if found.rows.num_rows:
                yield _moved(found.rows, sum(counts))
            counts.append(found.records)
        self.records = tuple(counts)

    def take(self, positions: NDArray[np.int64]) -> Iterator[pa.Table]:
        """The records at some positions (in rising order), made to fit the schema: reads only the blocks that hold one."""
        first = 0
        for number, (one, count) in enumerate(zip(self.blocks, self.records, strict=True)):
            inside = positions[np.searchsorted(positions, first) : np.searchsorted(positions, first + count)] - first
            first += count
            if not len(inside):
                continue
            held, start = self._held.get(number), 0
            for batch in map(self._fitting, self._read(one, lambda _: self.schema.names)) if held is None else held:
                some = inside[np.searchsorted(inside, start) : np.searchsorted(inside, start + batch.num_rows)]
                if len(some):
                    yield batch if len(some) == batch.num_rows else batch.take(pa.array(some - start))
                start += batch.num_rows

    def _changes_of(self, number: int, one: DataBlock) -> Changes:
        """The changes of a block, with positions that count from its first record."""
        key = (self.table, one.identity, str(self.ordering), self.base)
        found = self.known.blocks.get(key)
        if found is not None:
            return found
        some, count, base_rows = list[pa.Table](), 0, None
        if one.block.kind is BlockKind.DELETE:
            some += map(self._deletes, deleted_records(one.block))
            base_rows = BaseRows.from_tail(behind_list(one.block), sum(part.num_rows for part in some))
        else:
            footer = None
            for batch in self._read(one, self._wanted if self.takes_all else self._of_changes):
                footer = batch.schema.metadata
                some.append(self._updates(batch, count, one))
                count += batch.num_rows
                if self.takes_all:
                    self._hold(number, batch)
            base_rows = BaseRows.from_footer(footer, count)
        rows = with_base_rows(pa.concat_tables(some), self._rows_of(base_rows)) if some else pa.table({})
        found = Changes(count, rows)
        self.known.blocks.keep(key, found)
        return found

    def _rows_of(self, told: BaseRows | None) -> NDArray[np.int64] | None:
        """The positions that a block tells, if they are those of the slice's base file."""
        if told is None or self.base is None:
            return None
        name, records = self.base
        is_of_base = told.file_name == name and told.rows.min() >= UNKNOWN and told.rows.max() < records
        return told.rows if is_of_base else None

    def _read(self, one: DataBlock, wanted: Callable[[pa.Schema], Sequence[str]]) -> Iterator[pa.Table]:
        is_avro = one.block.kind is BlockKind.AVRO
        for batch in avro_records(one.block) if is_avro else parquet_records(one.block, wanted):
            yield pa.Table.from_batches([batch])

    def _of_changes(self, stored: pa.Schema) -> Sequence[str]:
        """The columns of a block's records that tell the changes."""
        ordering = [] if self.ordering is None else [self.ordering.name]
        return [*self.keys_of(stored).schema.names, *ordering, IS_DELETED, _OPERATION]

    def _wanted(self, stored: pa.Schema) -> Sequence[str]:
        return [*self.schema.names, *self._of_changes(stored)]

    def _fitting(self, batch: pa.Table) -> pa.Table:
        return conform(batch, self.schema)

    def _hold(self, number: int, batch: pa.Table) -> None:
        """Keep a batch for the second pass, unless those kept have too many bytes."""
        if self._bytes < _MOST_HELD:
            fitting = self._fitting(batch)
            self._held.setdefault(number, []).append(fitting)
            self._bytes += fitting.nbytes
        if self._bytes >= _MOST_HELD:
            # A block is held as a whole.
            self._held.pop(number, None)

    def _updates(self, batch: pa.Table, position: int, one: DataBlock) -> pa.Table:
        if _OPERATION in batch.column_names:
            raise UnsupportedTableError(
                f"records of a log file tell their operation, rli does not merge that: file={one.path} column={_OPERATION}",
                remedy="let Hudi compact the table",
            )
        columns = self.keys_of(batch.schema)
        keys = columns.keys_of(conform(batch.select(columns.schema.names), columns.schema))
        positions = np.arange(position, position + batch.num_rows)
        is_deleted = np.zeros(batch.num_rows, np.bool_)
        if IS_DELETED in batch.column_names:
            is_deleted = pc.fill_null(one_array(batch[IS_DELETED]), False).to_numpy(zero_copy_only=False)
            positions = np.where(is_deleted, NO_RECORD, positions)
        if self.ordering is None:
            return changes(keys, pa.nulls(batch.num_rows), np.zeros_like(is_deleted), positions, of_records=True)
        values = one_array(conform(batch, pa.schema([self.ordering]))[0])
        require_known(values.filter(pa.array(~is_deleted)))
        return changes(keys, comparable(values), is_deleted & _always(values), positions, of_records=True)

    def _deletes(self, deleted: pa.RecordBatch) -> pa.Table:
        values = deleted[ORDERING]
        positions = np.full(len(values), NO_RECORD)
        if self.ordering is None:
            return changes(
                deleted[RECORD_KEY], pa.nulls(len(values)), np.zeros(len(values), np.bool_), positions, of_records=False
            )
        always = _always(values)
        if always.all():
            # The 0 does not fit an ordering column of another type than a number.
            values = pa.nulls(len(values), self.ordering.type)
        fitting = conform(pa.table([values], names=[self.ordering.name]), pa.schema([self.ordering]))
        return changes(deleted[RECORD_KEY], comparable(one_array(fitting[0])), always, positions, of_records=False)


def _moved(rows: pa.Table, records: int) -> pa.Table:
    """Changes of a block behind others that have so many records."""
    if not records:
        return rows
    positions = rows[POSITION].to_numpy()
    moved = pa.array(np.where(positions == NO_RECORD, NO_RECORD, positions + records))
    return rows.set_column(rows.schema.get_field_index(POSITION), POSITION, moved)


def _always(values: pa.Array) -> NDArray[np.bool_]:
    """Which deletes win over all changes before them, by their ordering values: null, or 0 as an ``int``; shape (n,)."""
    if values.type != pa.int32():
        return np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    return np.asarray(pc.fill_null(pc.equal(values, _ALWAYS), True).to_numpy(zero_copy_only=False))
