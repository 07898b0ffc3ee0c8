"""The contract of readers of a file slice, with log files or without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.footer_bounds import RowGroupChoice
from rli.view.key_columns import KeyColumns


class FoundRecords(NamedTuple):
    """Records of a file slice that were sought by their keys.

    Attributes:
        keys: their record keys, shape (n,).
        records: with the columns that were asked for, n rows.
        base_rows: positions in the base file of the records with these keys, shape (n,); ``UNKNOWN`` for a key that it lacks.
    """

    keys: pa.Array
    records: pa.Table
    base_rows: NDArray[np.int64]


class SliceReader(Protocol):
    """Reads the records of one file slice. All methods raise ``CorruptTableError`` for a file that is missing or damaged."""

    @property
    def rows(self) -> int:
        """Records in the slice."""

    @property
    def schema(self) -> pa.Schema:
        """Of the records as they are stored, meta columns included where there are any."""

    @property
    def has_few_rows(self) -> bool:
        """Whether the slice is known to have so few records that ``batches`` holds all of them in memory at once."""

    @property
    def rows_about(self) -> int:
        """About how many records the files hold, replaced and deleted ones included; told without a look into log files."""

    def deletes_any(self, record_keys: pa.Array) -> bool:
        """Whether the last change of any of some distinct keys in log files is a delete."""

    @property
    def has_repeats(self) -> bool:
        """Whether records that were read so far share their key with a record of the base file that log files replace or delete.

        Only the first of them is replaced or deleted.
        """

    @property
    def bloom_filter(self) -> BloomFilter | None:
        """Of the stored record keys; None if the slice has none."""

    def key_range(self, columns: KeyColumns) -> tuple[str, str] | None:
        """The least and the greatest record key, in the order of their bytes; None if they are unknown without reading the keys."""

    @property
    def written_key_range(self) -> tuple[str, str] | None:
        """The least and the greatest record key as the writer has noted them; None if it has not."""

    def read_columns(self, schema: pa.Schema) -> pa.Table:
        """All records, reduced to the columns of ``schema`` and made to fit it, in the order of ``batches``."""

    def batches(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The records in batches, made to fit ``schema``."""

    def batches_that_may(self, choose: RowGroupChoice, schema: pa.Schema) -> Iterator[pa.Table]:
        """As ``batches``, without records of row groups of the base file that a caller does not choose."""

    def find(
        self,
        record_keys: pa.Array,
        columns: KeyColumns,
        schema: pa.Schema,
        *,
        finds_first: bool = False,
        are_stored: bool = False,
    ) -> Iterator[FoundRecords]:
        """The records of some distinct keys, for parts of the slice.

        A base file of another engine may hold a key more than once. All its records are found, unless the caller is content with the
        first one of each key (``finds_first``): what follows the last of them may not be read then. Where the index places all the keys
        in the slice (``are_stored``), their records may be found by hashes alone.
        """

    def records_at(self, positions: NDArray[np.intp], schema: pa.Schema) -> Iterator[pa.Table]:
        """The records at some positions (in rising order) of those that ``batches`` gives, made to fit ``schema``."""

    def close(self) -> None:
        """Close the files."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
