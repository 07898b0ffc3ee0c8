"""Reading file slices without log files; ``rli.view.merging`` reads slices with log files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import UnsupportedTableError
from rli.hudi.base_file_reader import BaseFileReader, corrupt_unless_parquet
from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.footer_bounds import RowGroupChoice
from rli.storage import Storage
from rli.view.file_slices import DataFile, FileSlice
from rli.view.key_columns import KeyColumns
from rli.view.key_search import KeySearch, records_at
from rli.view.slice_reader import FoundRecords

READ_BATCH_ROWS: Final = 65_536


class FileSliceReader:
    """Reads the records of one file slice; memory is bounded by a batch and a row group's columns.

    Args:
        storage: of the table.
        file_slice: the slice.
        verifies_checksums: whether a page that differs from its checksum, where it has one, is an error.

    Raises:
        CorruptTableError: a file is missing or damaged. All methods raise it.
        UnsupportedTableError: the slice has log files.
    """

    def __init__(self, storage: Storage, file_slice: FileSlice, *, verifies_checksums: bool = False) -> None:
        base = only_base_file(file_slice)
        self._base = BaseFileReader(storage, base.path, base.size, verifies_checksums=verifies_checksums)

    @property
    def rows(self) -> int:
        """Records in the slice."""
        return self._base.rows

    @property
    def has_few_rows(self) -> bool:
        """Whether the slice has so few records that ``batches`` holds all of them in memory at once."""
        return self._base.has_few_rows

    @property
    def rows_about(self) -> int:
        """As ``rows``: there are no log files."""
        return self.rows

    def deletes_any(self, record_keys: pa.Array) -> bool:  # noqa: ARG002  (as in the protocol)
        """No: there are no log files."""
        return False

    @property
    def has_repeats(self) -> bool:
        """No: there are no log files."""
        return False

    @property
    def schema(self) -> pa.Schema:
        """Of the records as they are stored, meta columns included where there are any."""
        return self._base.schema

    @property
    def bloom_filter(self) -> BloomFilter | None:
        """Of the stored record keys; None if the slice has none."""
        return self._base.bloom_filter()

    def key_range(self, columns: KeyColumns) -> tuple[str, str] | None:
        """The least and the greatest record key, in the order of their bytes; None where the footers do not tell.

        Args:
            columns: where the keys of this slice stand.
        """
        if columns.ordered_as_keys is None:
            return None
        bounds = [self._base.bounds(group, columns.ordered_as_keys) for group in range(self._base.row_groups)]
        known = [found for found in bounds if found is not None]
        if not known or len(known) < len(bounds):
            return None
        return min(least for least, _ in known), max(greatest for _, greatest in known)

    @property
    def written_key_range(self) -> tuple[str, str] | None:
        """The least and the greatest record key as the writer has noted them; None if it has not.

        In the order of UTF-8 bytes or of UTF-16 code units: writers differ.
        """
        return self._base.key_range()

    def read_columns(self, schema: pa.Schema) -> pa.Table:
        """All records, reduced to the columns of ``schema`` and made to fit it."""
        return self._base.read_columns(schema)

    def batches(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The records in order, in batches of ``READ_BATCH_ROWS``, made to fit ``schema``."""
        return self._base.batches(schema, READ_BATCH_ROWS)

    def places_of(self, choose: RowGroupChoice) -> dict[int, range]:
        """The row groups that a caller chooses, by number, each with the positions of its records."""
        ends = self._base.row_group_starts
        return {number: range(ends[number], ends[number + 1]) for number in self._base.row_groups_of(choose)}

    def batches_that_may(self, choose: RowGroupChoice, schema: pa.Schema) -> Iterator[pa.Table]:
        """As ``batches``, without records of row groups that a caller does not choose."""
        return self.batches_of([*self.places_of(choose)], schema)

    def batches_of(self, row_groups: Sequence[int], schema: pa.Schema) -> Iterator[pa.Table]:
        """As ``batches``, of some row groups alone, by their numbers in rising order."""
        return self._base.batches(schema, READ_BATCH_ROWS, row_groups) if row_groups else iter(())

    def find(
        self,
        record_keys: pa.Array,
        columns: KeyColumns,
        schema: pa.Schema,
        *,
        finds_first: bool = False,
        are_stored: bool = False,
    ) -> Iterator[FoundRecords]:
        """The records of some keys: reads no more than the row groups that may hold one.

        Args:
            record_keys: distinct string array, shape (n,).
            columns: where the keys of this slice stand.
            schema: of the records.
            finds_first: whether the first record of each key will do: others, and what follows the last of these, may be left out.
            are_stored: whether the index places all the keys in this file. Then a row with hash and tail of a key is its record, if no
                other row has both: no key is read.

        Returns:
            Parts of the slice, in its order.
        """
        search = KeySearch(self._base, columns, schema)
        return search.found(record_keys, finds_first=finds_first, are_stored=are_stored)

    def records_at(self, positions: NDArray[np.intp], schema: pa.Schema) -> Iterator[pa.Table]:
        """The records at some positions (in rising order), made to fit ``schema``: reads only the row groups that hold one."""
        for row_group, (start, end) in enumerate(pairwise(self._base.row_group_starts)):
            inside = positions[np.searchsorted(positions, start) : np.searchsorted(positions, end)]
            if len(inside):
                yield records_at(self._base, row_group, inside - start, schema)

    def close(self) -> None:
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fragment_of(storage: Storage, file_slice: FileSlice, guarantee: pc.Expression) -> Any:
    """The records of a slice as a ``pyarrow.dataset.Fragment``.

    Args:
        storage: of the table.
        file_slice: the slice.
        guarantee: gives the values of columns that the slice's files leave out. pyarrow takes it for true.
    """
    path = storage.full_path(only_base_file(file_slice).path)
    return _parquet().make_fragment(path, storage.filesystem, guarantee)


def dataset_of(storage: Storage, fragments: Sequence[Any], schema: pa.Schema) -> Any:
    """The records of some fragments as a ``pyarrow.dataset.Dataset``; ``schema`` is that of the records."""
    import pyarrow.dataset as ds  # noqa: PLC0415  (it loads pandas where that is installed)

    return ds.FileSystemDataset(fragments, schema, _parquet(), storage.filesystem)


def _parquet() -> Any:
    import pyarrow.dataset as ds  # noqa: PLC0415  (it loads pandas where that is installed)

    return ds.ParquetFileFormat()


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
            "the file group has log files, so its base file alone does not tell its records: "
            f"partition={file_slice.group.partition_path} file_id={file_slice.group.file_id}",
            remedy="read with query='read_optimized', or run Hudi's compaction first",
        )
    return file_slice.base
