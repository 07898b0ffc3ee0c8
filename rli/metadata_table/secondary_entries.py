"""What the records of file slices, and changes of them, mean for a secondary index.

An entry says no more than that a record has a value. So of a change, only the records that come, go or get another value
matter, wherever they are. A reader looks at the records that it finds: an entry too many costs time, one too few hides a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError
from rli.file_group.changed_values import ChangedValues
from rli.hudi.hfile.cell_format import LONGEST_KEY
from rli.hudi.hfile.cells import CELLS, removals
from rli.hudi.meta_columns import COMMIT_TIME
from rli.hudi.metadata.index_definitions import IndexDefinition, indexed_column
from rli.hudi.metadata.record_codec import encode_record
from rli.hudi.metadata.records import SecondaryEntry
from rli.hudi.metadata.secondary_keys import entry_keys, has_index_form
from rli.metadata_table.partition_change import PartitionChange
from rli.model import FileGroupId
from rli.tasks import InThreads
from rli.view.column_values import ColumnValues, copied_records, keyed_values
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange
from rli.view.written_slices import written_slice

_SLICES_AT_A_TIME: Final = 16
"""Whose entries are in memory."""


def why_not_kept(definition: IndexDefinition | None, schema: pa.Schema | None) -> str:
    """Why rli does not keep a secondary index with the records of a schema; "" if it does."""
    column = indexed_column(definition)
    if column is None:
        return "the index has a form that rli does not keep"
    if schema is None:
        return ""
    if schema.names.count(column) != 1:
        return f"the table has no column {column}"
    kind = schema.field(column).type
    return "" if has_index_form(kind) else f"rli keeps no secondary index of type {kind}"


@dataclass(frozen=True, slots=True)
class SecondaryEntries:
    """The entries of one secondary index.

    Attributes:
        partition: of the metadata table.
        column: that is indexed.
        snapshot: a state of the table.
        schema: of its records, without meta columns.
    """

    partition: str
    column: str
    snapshot: Snapshot
    schema: pa.Schema

    def of_slice(self, file_slice: FileSlice) -> pa.Array:
        """The keys of the entries of a slice's records: string array."""
        return self._keyed(self._rows(file_slice))

    def cells_of(self, slices: Sequence[FileSlice]) -> Iterator[pa.RecordBatch]:
        """Cells that put the entries of the records of some slices: batches of ``CELLS``, one for each slice."""
        for start in range(0, len(slices), _SLICES_AT_A_TIME):
            yield from map(_puts, InThreads().run(self.of_slice, slices[start : start + _SLICES_AT_A_TIME]))

    def of_write(self, instant: str, change: TableChange, changed: ChangedValues | None = None) -> PartitionChange:
        """What a write means whose files are not in the table yet; the snapshot is the state before it.

        Args:
            instant: of the write.
            change: of the table.
            changed: the changed values that its process has noted; None if they are not known.
        """
        if change.keeps_records:
            return PartitionChange(self.partition, [])
        if changed is not None and changed.has(self.column):
            rows = (keyed_values(some, self.column) for some in (changed.before, changed.after))
            return PartitionChange(self.partition, self._replaced(*rows))
        before = self.snapshot.slices.of_groups(change.superseded)
        written = {stat.group: written_slice(instant, stat) for stat in change.written}
        appended = [written_slice(instant, stat) for stat in change.appended]
        groups: list[FileGroupId] = sorted({*before, *written})
        parts = list(InThreads().run(lambda group: self._of_group(before.get(group), written.get(group)), groups))
        # A record that goes from one file group to another keeps its entry. What a log file changes leaves entries behind: to
        # know the former values, the whole file group would have to be read.
        come = [*(new for _, new in parts), *self.cells_of(appended)]
        return PartitionChange(self.partition, [*(gone for gone, _ in parts), *come])

    def _of_group(self, old: FileSlice | None, new: FileSlice | None) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The entries that go from a file group, and those that come."""
        before, after = self._rows(old), self._rows(new)
        if old is not None and new is not None and COMMIT_TIME in after.column_names:
            # What the write has only copied has its entry.
            is_copied = copied_records(after, new.instant)
            copied = after["key"].filter(is_copied).combine_chunks()
            before = before.filter(pc.invert(pc.is_in(before["key"], value_set=copied)))
            after = after.filter(pc.invert(is_copied))
        return self._replaced(before, after)

    def _replaced(self, before: pa.Table, after: pa.Table) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The entries that go with records, and those that come with others."""
        gone, come = self._keyed(before), self._keyed(after)
        return (
            removals(gone.filter(pc.invert(pc.is_in(gone, value_set=come)))),
            _puts(come.filter(pc.invert(pc.is_in(come, value_set=gone)))),
        )

    def _rows(self, file_slice: FileSlice | None) -> pa.Table:
        return ColumnValues(self.snapshot.table, self.schema, self.column).of_slice(file_slice)

    def _keyed(self, rows: pa.Table) -> pa.Array:
        """The keys of the entries of some rows."""
        keys, values = (rows[name].combine_chunks() for name in ("key", "value"))
        found = entry_keys(values, keys)
        longest = pc.max(pc.binary_length(found)).as_py() or 0
        if longest > LONGEST_KEY:
            raise InvalidInputError(
                f"a value is too long for the secondary index of its column: column={self.column} "
                f"partition={self.partition} bytes={longest}, with its record key",
                remedy=f"write values of less than {LONGEST_KEY} bytes, or drop the index: rli index drop TABLE NAME",
            )
        return found


def kept_entries(
    kept: Iterable[str], definitions: Mapping[str, IndexDefinition], snapshot: Snapshot, schema: pa.Schema | None
) -> dict[str, SecondaryEntries]:
    """The secondary indexes among some partitions of the metadata table; none of a table without records."""
    if schema is None:
        return {}
    columns = {name: indexed_column(definitions.get(name)) for name in kept}
    return {
        name: SecondaryEntries(name, column, snapshot, schema) for name, column in columns.items() if column is not None
    }


_ENTRY: Final = encode_record(SecondaryEntry())


def _puts(keys: pa.Array) -> pa.RecordBatch:
    values = pa.repeat(pa.scalar(_ENTRY, pa.binary()), len(keys))
    return pa.record_batch([keys.cast(pa.binary()), values], schema=CELLS)
