"""Opens file slices of a table, with log files or without."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rli.hudi.meta_columns import with_meta_columns
from rli.view.definition import TableDefinition
from rli.view.file_slice_reader import FileSliceReader
from rli.view.file_slices import FileSlice
from rli.view.key_columns import KeyColumns
from rli.view.merging.known_merges import OF_PROCESS, KnownMerges
from rli.view.merging.merged_reader import MergedReader, MergedTable
from rli.view.merging.rules import MergeRules
from rli.view.slice_reader import SliceReader


@dataclass(frozen=True, slots=True)
class SliceReaders:
    """Opens slices of one state of a table. Picklable.

    Attributes:
        table: the definition of the table.
        schema: of its records without meta columns; None in a table that was never written.
    """

    table: TableDefinition
    schema: pa.Schema | None

    def open(self, file_slice: FileSlice, known: KnownMerges = OF_PROCESS) -> SliceReader:
        """Opens a file slice.

        Args:
            file_slice: the slice.
            known: results of earlier merges, which need not be read again.

        Raises:
            CorruptTableError: a file is missing or damaged.
            UnsupportedTableError: the slice has log files, and rli does not know how the table merges them.
        """
        storage = self.table.storage
        if not file_slice.logs:
            return FileSliceReader(storage, file_slice)
        schema = with_meta_columns(self.schema or pa.schema([]))
        rules = MergeRules.of(self.table.properties)
        return MergedReader(MergedTable(storage, rules, schema, self.key_columns, known), file_slice)

    def key_columns(self, stored: pa.Schema) -> KeyColumns:
        """As ``KeyColumns.of``."""
        return KeyColumns.of(self.table, lambda: self.schema, stored)
