"""The stored records of the file groups that a write merges rows into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.file_group.merge import Numbers, numbers_of
from rli.view.file_slice_reader import READ_BATCH_ROWS
from rli.view.key_columns import META_KEYS
from rli.view.slice_reader import FoundRecords, SliceReader


class SoughtKeys(NamedTuple):
    """Keys that are sought in a file group.

    Attributes:
        record_keys: distinct string array, shape (n,).
        are_stored: whether the index places all of them in the file group.
    """

    record_keys: pa.Array
    are_stored: bool = False

    def found_by(self, reader: SliceReader, schema: pa.Schema) -> Iterator[FoundRecords]:
        """Their records, with the columns of ``schema``; in the same order for other columns."""
        return reader.find(self.record_keys, META_KEYS, schema, are_stored=self.are_stored)


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """The records of some file groups, in the order of the file groups.

    Attributes:
        readers: of their slices, closed unless some columns are still to be read; None for new file groups.
        known: the records, with the columns that a merge compares, or with all columns.
        of_known: the number of the file group of each record.
        sought: the keys whose records these are, of a single file group; None if these are all records.
        base_rows: positions in the base file of the records with the keys of these, of a single file group, shape (n,); None if they
            are not known.
    """

    readers: Sequence[SliceReader | None]
    known: pa.Table
    of_known: Numbers
    sought: SoughtKeys | None = None
    base_rows: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, parts: Sequence[tuple[SliceReader | None, pa.Table]]) -> Self:
        """The records of readers, with the columns read so far; of several file groups, these are all columns needed."""
        readers, tables = zip(*parts, strict=True)
        return cls(readers, pa.concat_tables(tables).combine_chunks(), numbers_of([part.num_rows for part in tables]))

    @classmethod
    def of_keys(cls, reader: SliceReader, sought: SoughtKeys, schema: pa.Schema) -> Self:
        """The records of some keys of a file group, with the columns of ``schema``."""
        found = [*sought.found_by(reader, schema)]
        known = pa.concat_tables([schema.empty_table(), *(part.records for part in found)]).combine_chunks()
        base_rows = np.concatenate([np.empty(0, np.int64), *(part.base_rows for part in found)])
        return cls([reader], known, numbers_of([known.num_rows]), sought, base_rows)

    def with_others(self, schema: pa.Schema) -> Self:
        """All records of the same readers, with the columns of ``schema``."""
        return self.of([(one, one.read_columns(schema) if one else schema.empty_table()) for one in self.readers])

    def batches(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The records in order, in batches; no column is read again."""
        known = self.known.column_names
        others = pa.schema([field for field in schema if field.name not in known])
        if not len(others):
            for start in range(0, self.known.num_rows, READ_BATCH_ROWS):
                yield self.known.slice(start, READ_BATCH_ROWS).select(schema.names)
            return
        start = 0
        for batch in self._read(others):
            parts = {False: batch, True: self.known.slice(start, batch.num_rows)}
            yield pa.table([parts[name in known].column(name) for name in schema.names], schema=schema)
            start += batch.num_rows

    def _read(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The records of the only reader, in order, with other columns than those read so far."""
        (reader,) = self.readers
        if reader is None:
            return iter(())
        if self.sought is None:
            return reader.batches(schema)
        return (found.records for found in self.sought.found_by(reader, schema))


def records_of(reader: SliceReader, record_keys: pa.Array, schema: pa.Schema) -> pa.Table:
    """Some columns of the records of some distinct keys: in the same order for other columns.

    Args:
        reader: of a slice with meta columns.
        record_keys: string array, shape (n,).
        schema: of the columns.
    """
    found = SoughtKeys(record_keys).found_by(reader, schema)
    return pa.concat_tables([schema.empty_table(), *(part.records for part in found)]).combine_chunks()
