"""Records of the metadata table, one type for each kind of content.

The key of a record is that of its cell (``rli.hudi.metadata.keys``), and no part of these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

DECIMAL_ORDINAL: Final = 10

BoundValue: TypeAlias = bool | int | float | bytes | str | Decimal


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file in a list; in the list of partitions a partition.

    Attributes:
        size: bytes; 0 for partitions and for removed files.
        is_deleted: the file was removed after an older record listed it.
    """

    size: int
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class FileList:
    """The files of one partition, or the list of partitions.

    Attributes:
        files: name → file; log files with their leading dot.
        lists_partitions: this is the list of partitions.
    """

    files: Mapping[str, ListedFile]
    lists_partitions: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """A smallest or greatest value as the metadata table stores it.

    Attributes:
        wrapper: name of the Avro record around the value, such as ``LongWrapper``.
        value: of the wrapper; see ``rli.hudi.metadata.statistic_values`` for its meaning.
    """

    wrapper: str
    value: BoundValue


@dataclass(frozen=True, slots=True)
class ValueType:
    """Type of the bounds of statistics of version 2.

    Attributes:
        ordinal: Hudi's number of the type.
        details: precision and scale of a decimal, ``12,2``; None for other types.
    """

    ordinal: int
    details: str | None = None

    @property
    def is_decimal(self) -> bool:
        """True if bounds are unscaled numbers, as big-endian bytes in two's complement."""
        return self.ordinal == DECIMAL_ORDINAL


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of a column in a file or in a partition of the table.

    Attributes:
        file_name: of the file; of statistics of a partition the partition path.
        column: name of the column, with dots for nested ones.
        minimum: the smallest value or a lower bound; None if all values are null.
        maximum: the greatest value or an upper bound; None if all values are null.
        value_count: values, nulls included; None if unknown.
        null_count: nulls; None if unknown.
        total_size: compressed bytes; None if unknown.
        total_uncompressed_size: bytes; None if unknown.
        value_type: of the bounds; None in statistics of version 1.
        of_partition: these are statistics of a partition.
        is_tight: the bounds are values of the current files; otherwise newer records widen older ones.
        is_deleted: the file is gone.
    """

    file_name: str | None
    column: str | None
    minimum: Bound | None
    maximum: Bound | None
    value_count: int | None
    null_count: int | None
    total_size: int | None
    total_uncompressed_size: int | None
    value_type: ValueType | None = None
    of_partition: bool = False
    is_tight: bool = False
    is_deleted: bool = False

    @property
    def is_unknown(self) -> bool:
        """True if nothing is known of the values, as after a merge of bounds without a common order.

        Bounds that are missing beside a count say that there are only nulls.
        """
        return not self.is_deleted and self.minimum is None and self.maximum is None and self.value_count is None


@dataclass(frozen=True, slots=True)
class StoredBloomFilter:
    """The bloom filter of a file.

    Attributes:
        type_code: ``SIMPLE`` or ``DYNAMIC_V0``.
        instant: that wrote the file.
        content: the string of the file's footer, as bytes.
        is_deleted: the file is gone.
    """

    type_code: str
    instant: str
    content: bytes
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """Where a record is: an entry of the record index.

    Attributes:
        partition_path: of the record; "" in a table without partitions.
        file_id: file group of the record.
        instant: that put the record there.
    """

    partition_path: str
    file_id: str
    instant: str


@dataclass(frozen=True, slots=True)
class SecondaryEntry:
    """An entry of a secondary index; all it says is in its key.

    Attributes:
        is_deleted: the entry is void.
    """

    is_deleted: bool = False


MetadataRecord: TypeAlias = FileList | ColumnStatistics | StoredBloomFilter | RecordLocation | SecondaryEntry
