"""The values of one column in file slices, each with the key of its record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY
from rli.hudi.metadata.secondary_keys import index_form
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.slice_readers import SliceReaders

NAMES: Final = ("key", "value")


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """Reads the values of a column. Picklable.

    Attributes:
        table: the definition of the table.
        schema: of its records, without meta columns.
        column: that is read; it passes ``has_index_form``.
    """

    table: TableDefinition
    schema: pa.Schema
    column: str

    def of_slice(self, file_slice: FileSlice | None, *, with_instants: bool = True) -> pa.Table:
        """Record keys (``key``) and values (``value``, as ``index_form`` prints them) of the records of a slice.

        If the table has meta columns, the instants of the commits that wrote the records (``_hoodie_commit_time``) are beside
        them.

        Args:
            file_slice: that is read; None for no records.
            with_instants: False leaves the instants out, which take a third of the reading.

        Raises:
            CorruptTableError: a file is missing or damaged.
            UnsupportedTableError: the keys cannot be formed again, or rli does not know how the table merges log files.
        """
        if file_slice is None:
            return pa.table([pa.array([], pa.string())] * len(NAMES), NAMES)
        readers = SliceReaders(self.table, self.schema)
        with readers.open(file_slice) as reader:
            keys = readers.key_columns(reader.schema)
            fields = {field.name: field for field in keys.schema}
            fields |= {self.column: self.schema.field(self.column)}
            if with_instants and self.table.properties.populate_meta_fields:
                fields |= {COMMIT_TIME: pa.field(COMMIT_TIME, pa.string())}
            schema = pa.schema([*fields.values()])
            stored = pa.concat_tables([schema.empty_table(), *reader.batches(schema)])
        columns = [keys.keys_of(stored.select(keys.schema.names)), index_form(stored[self.column].combine_chunks())]
        if COMMIT_TIME not in fields:
            return pa.table(columns, NAMES)
        return pa.table([*columns, stored[COMMIT_TIME].combine_chunks()], [*NAMES, COMMIT_TIME])


def keyed_values(records: pa.Table, column: str) -> pa.Table:
    """Record keys and values of records, as ``ColumnValues.of_slice`` gives them, without the instants of commits.

    Args:
        records: with ``_hoodie_record_key`` and the column.
        column: that passes ``has_index_form``.
    """
    keys, values = (records[name].combine_chunks() for name in (RECORD_KEY, column))
    return pa.table([keys, index_form(values)], NAMES)


def copied_records(rows: pa.Table, instant: str) -> pa.ChunkedArray:
    """Whether a commit has only copied each of some records of its files, as their ``_hoodie_commit_time`` tells.

    Args:
        rows: as ``of_slice`` gives them, of a table with meta columns.
        instant: of the commit.
    """
    return pc.fill_null(pc.not_equal(rows[COMMIT_TIME], instant), False)
