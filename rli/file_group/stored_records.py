"""The stored records of the file groups that a write merges rows into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from rli.file_group.merge import Numbers, numbers_of
from rli.view.file_slice_reader import READ_BATCH_ROWS
from rli.view.slice_reader import SliceReader


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """The records of some file groups, in the order of the file groups.

    Attributes:
        readers: of their slices, closed unless some columns are still to be read; None for new file groups.
        known: all records, with the columns that a merge compares, or with all columns.
        of_known: the number of the file group of each record.
    """

    readers: Sequence[SliceReader | None]
    known: pa.Table
    of_known: Numbers

    @classmethod
    def of(cls, parts: Sequence[tuple[SliceReader | None, pa.Table]]) -> Self:
        """The records of readers, with the columns read so far; of several file groups, these are all columns needed."""
        readers, tables = zip(*parts, strict=True)
        return cls(readers, pa.concat_tables(tables).combine_chunks(), numbers_of([part.num_rows for part in tables]))

    def batches(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The records in order, in batches, as ``SliceReader.batches`` gives them; no column is read again."""
        known = self.known.column_names
        others = pa.schema([field for field in schema if field.name not in known])
        if not len(others):
            for start in range(0, self.known.num_rows, READ_BATCH_ROWS):
                yield self.known.slice(start, READ_BATCH_ROWS).select(schema.names)
            return
        (reader,) = self.readers
        start = 0
        for batch in reader.batches(others) if reader else ():
            parts = {False: batch, True: self.known.slice(start, batch.num_rows)}
            yield pa.table([parts[name in known].column(name) for name in schema.names], schema=schema)
            start += batch.num_rows
