"""The files of a command, read as records of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rli.cli.files.column_types import ExpectedColumns
from rli.cli.files.input import FileKind, RecordFile
from rli.cli.files.placing import failures_placed
from rli.errors import InvalidInputError
from rli.table.table import Table


@dataclass(frozen=True, slots=True)
class Source:
    """Files of records for a table, and how they are read.

    Attributes:
        table: that takes the records.
        files: paths.
        rename_columns: whether names of columns are made simple.
        declared: types of new columns.
        kind: format of the files; None to tell it by each file's name or content.
    """

    table: Table
    files: Sequence[str]
    rename_columns: bool
    declared: Mapping[str, pa.DataType]
    kind: FileKind | None

    def records(self, batch: RecordFile) -> pa.Table:
        """The records of one of the files, with the types of the table's columns.

        Raises:
            InvalidInputError: the file cannot be read.
        """
        expected = ExpectedColumns.of(self.table, self.declared)
        return batch.read(expected, rename_columns=self.rename_columns)

    def all_records(self) -> pa.Table:
        """The records of all files.

        Raises:
            InvalidInputError: a file cannot be read, or the files have columns of different types.
        """
        parts = []
        for path in self.files:
            batch = RecordFile.at(path, self.kind)
            with failures_placed(batch.file, batch.place):
                parts.append(self.records(batch))
        try:
            return pa.concat_tables(parts, promote_options="default")
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"the files have columns of different types: files={list(self.files)} ({error})",
                remedy="name their types with --column-type",
            ) from error
