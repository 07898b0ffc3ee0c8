"""Reading file slices: every read of a table's records goes through here.

A slice is its base file today. Log files (merge-on-read) will be merged here, and nothing above will notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import UnsupportedTableError
from rli.hudi.base_file_reader import BaseFileReader, corrupt_unless_parquet
from rli.hudi.bloom_filter import BloomFilter
from rli.storage import Storage
from rli.view.file_slices import DataFile, FileSlice

READ_BATCH_ROWS: Final = 65_536


class FileSliceReader:
    """Reads the records of one file slice; memory is bounded by a batch and a row group's columns.

    Args:
        storage: of the table.
        file_slice: the slice.

    Raises:
        CorruptTableError: a file is missing or damaged. All methods raise it.
        UnsupportedTableError: the slice has log files.
    """

    def __init__(self, storage: Storage, file_slice: FileSlice) -> None:
        self._base = BaseFileReader(storage, only_base_file(file_slice).path)

    @property
    def rows(self) -> int:
        """Records in the slice."""
        return self._base.rows

    @property
    def schema(self) -> pa.Schema:
        """Of the records as they are stored, meta columns included where there are any."""
        return self._base.schema

    @property
    def bloom_filter(self) -> BloomFilter | None:
        """Of the stored record keys; None if the slice has none."""
        return self._base.bloom_filter()

    def read_columns(self, schema: pa.Schema) -> pa.Table:
        """All records, reduced to the columns of ``schema`` and made to fit it."""
        return self._base.read_columns(schema)

    def batches(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The records in order, in batches of ``READ_BATCH_ROWS``, made to fit ``schema``."""
        return self._base.batches(schema, READ_BATCH_ROWS)

    def close(self) -> None:
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def dataset_of(
    storage: Storage, slices: Sequence[FileSlice], schema: pa.Schema, guarantee: Callable[[FileSlice], pc.Expression]
) -> Any:
    """The records of some slices as a ``pyarrow.dataset.Dataset`` with a fragment for each slice.

    Args:
        storage: of the table.
        slices: one or more.
        schema: of the records.
        guarantee: what holds for all records of a slice.
    """
    import pyarrow.dataset as ds  # noqa: PLC0415  (it loads pandas where that is installed)

    parquet = ds.ParquetFileFormat()
    fragments = [
        parquet.make_fragment(
            storage.full_path(only_base_file(file_slice).path), storage.filesystem, guarantee(file_slice)
        )
        for file_slice in slices
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, storage.filesystem)


def require_readable(storage: Storage, slices: Sequence[FileSlice], schema: pa.Schema) -> None:
    """Raise ``CorruptTableError`` for the first slice that cannot be read, if there is one."""
    for file_slice in slices:
        with corrupt_unless_parquet(only_base_file(file_slice).path), FileSliceReader(storage, file_slice) as reader:
            for _ in reader.batches(schema):
                pass


def only_base_file(file_slice: FileSlice) -> DataFile:
    """The base file of a slice that has nothing else; raises ``UnsupportedTableError`` for others."""
    if file_slice.base is None or file_slice.logs:
        raise UnsupportedTableError(
            f"the file group has log files: partition={file_slice.group.partition_path} "
            f"file_id={file_slice.group.file_id}; rli reads copy-on-write tables, run Hudi's compaction first"
        )
    return file_slice.base
