"""Where advice reads record keys: the file slices of a table, or Parquet files that are to become one."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rli.errors import InvalidInputError, SettingsError
from rli.hudi.key_generator import KeyGenerator
from rli.hudi.properties import VERSION_OF_NEW_TABLES
from rli.hudi.table_keys import TableKeys
from rli.model import Scope
from rli.settings import MEBIBYTE
from rli.view.file_slice_reader import READ_BATCH_ROWS
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

KEY, PARTITION = "record_key", "partition_path"

KEYED_SCHEMA: Final = pa.schema([(KEY, pa.string()), (PARTITION, pa.string())])

TARGET_FILE_BYTES: Final = 120 * MEBIBYTE
"""Of a base file, unless a table says otherwise."""

_FOOTERS: Final = 2_000
"""Files whose footers are read at most; they stand for the others."""

_ROWS_OF_LAYOUT: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A base file of a table, or of the table that Parquet files would become.

    Attributes:
        partition_path: its partition.
        rows: records in it.
        size: bytes.
        least, greatest: the range of its record keys; None where its footer does not tell.
    """

    partition_path: str
    rows: int
    size: int
    least: str | None
    greatest: str | None


class KeySource(ABC):
    """Files whose record keys can be read.

    Attributes:
        location: names it in messages.
        partition_by: partition columns.
        is_local: whether its files are on this machine.
        version: of the table, or of the table that the files become.
        metadata_partitions: that the table's metadata table lists.
    """

    location: str
    partition_by: tuple[str, ...]
    is_local: bool = True
    version: int = VERSION_OF_NEW_TABLES
    metadata_partitions: tuple[str, ...] = ()

    @property
    @abstractmethod
    def units(self) -> int:
        """How many files there are to read."""

    @property
    @abstractmethod
    def stored_files(self) -> Sequence[StoredFile]:
        """The base files of the table, in the order of the units where each unit is one."""

    @property
    @abstractmethod
    def units_are_files(self) -> bool:
        """Whether unit ``n`` is the file ``n`` of ``stored_files``."""

    @abstractmethod
    def rows_of(self, unit: int) -> int:
        """Records of a unit."""

    @abstractmethod
    def read(self, unit: int) -> Iterator[pa.Table]:
        """The records of a unit in batches, as record keys and partition paths (``KEYED_SCHEMA``)."""

    @abstractmethod
    def keyed(self, records: pa.Table) -> pa.Table:
        """Record keys and partition paths of records that a batch brings (``KEYED_SCHEMA``)."""

    @property
    def open_seconds(self) -> float:
        """What it takes to open a file and read its footer: the median of those that were opened."""
        return 0.0

    @property
    def rows(self) -> int:
        """All records."""
        return sum(file.rows for file in self.stored_files)


class TableSource(KeySource):
    """The live file slices of a table.

    Args:
        snapshot: the table.

    Raises:
        CorruptTableError: a base file is missing or damaged; so do the methods.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.location = snapshot.table.location
        self.partition_by = snapshot.table.properties.partition_fields
        self.is_local = snapshot.table.storage.is_local
        self.version = snapshot.table.properties.version
        self.metadata_partitions = snapshot.table.properties.metadata_partitions
        self._snapshot = snapshot
        self._slices = sorted(snapshot.slices.values(), key=lambda file_slice: file_slice.group)
        self._seconds = list[float]()

    @property
    def units(self) -> int:
        return len(self._slices)

    @property
    def units_are_files(self) -> bool:
        return True

    @cached_property
    def stored_files(self) -> Sequence[StoredFile]:
        read = {number: self._footer(self._slices[number]) for number in evenly(self.units, _FOOTERS)}
        known = sum(file.rows for file in read.values())
        per_byte = known / max(1, sum(file.size for file in read.values()))
        return [read.get(number) or _unread(found, per_byte) for number, found in enumerate(self._slices)]

    @property
    def open_seconds(self) -> float:
        ordered = sorted(self._seconds)
        return ordered[len(ordered) // 2] if ordered else 0.0

    def rows_of(self, unit: int) -> int:
        return self.stored_files[unit].rows

    def read(self, unit: int) -> Iterator[pa.Table]:
        path = pa.scalar(self._slices[unit].group.partition_path, pa.string())
        for keys in self._snapshot.record_keys(self._slices[unit]):
            yield pa.table([keys, pa.repeat(path, len(keys))], schema=KEYED_SCHEMA)

    def keyed(self, records: pa.Table) -> pa.Table:
        return _keyed(self._snapshot.table_keys, records)

    def _footer(self, file_slice: FileSlice) -> StoredFile:
        started = time.perf_counter()
        with self._snapshot.reader(file_slice) as reader:
            least, greatest = reader.key_range(self._snapshot.key_columns(reader.schema)) or (None, None)
            rows = reader.rows
        self._seconds.append(time.perf_counter() - started)
        return StoredFile(file_slice.group.partition_path, rows, file_slice.size, least, greatest)


class ParquetSource(KeySource):
    """Parquet files that are no table yet.

    Args:
        location: names them.
        paths: of the files.
        record_key, partition_by: columns of the table to be.

    Raises:
        InvalidInputError: a file is no Parquet file, or lacks a column.
    """

    def __init__(
        self, location: str, paths: Sequence[str], record_key: Sequence[str], partition_by: Sequence[str]
    ) -> None:
        if not record_key:
            raise SettingsError(
                f"the files do not tell the columns of the record key: files={location}",
                remedy="give record_key=COLUMN",
            )
        self.location = location
        self.partition_by = tuple(partition_by)
        self._paths = paths
        self._generator = KeyGenerator(tuple(record_key), tuple(partition_by), hive_style=False, url_encode=True)
        self._footers = [_parquet_footer(path) for path in paths]

    @property
    def units(self) -> int:
        return len(self._paths)

    @property
    def units_are_files(self) -> bool:
        return False

    def rows_of(self, unit: int) -> int:
        return int(self._footers[unit].num_rows)

    @cached_property
    def stored_files(self) -> Sequence[StoredFile]:
        """Each partition with as many files as its share of the bytes fills."""
        parts: dict[str, _Range] = defaultdict(_Range)
        for unit in within_rows(self, _ROWS_OF_LAYOUT):
            for keyed in self.read(unit):
                for path, keys in _by_partition(keyed):
                    parts[path].add(keys)
        rows = sum(self.rows_of(unit) for unit in range(self.units))
        size = sum(_stored_bytes(footer) for footer in self._footers)
        seen = max(1, sum(part.rows for part in parts.values()))
        return [file for path, part in sorted(parts.items()) for file in part.files(path, rows / seen, size / seen)]

    def read(self, unit: int) -> Iterator[pa.Table]:
        columns = [*self._generator.record_key_fields, *self._generator.partition_fields]
        with _naming(self._paths[unit]), pq.ParquetFile(self._paths[unit]) as file:
            missing = sorted(set(columns) - set(file.schema_arrow.names))
            if missing:
                raise InvalidInputError(
                    f"the file lacks columns of the key: file={self._paths[unit]} columns={missing} "
                    f"found={file.schema_arrow.names}",
                    remedy="name columns that all files have",
                )
            for batch in file.iter_batches(READ_BATCH_ROWS, columns=columns):
                yield self.keyed(pa.table(batch))

    def keyed(self, records: pa.Table) -> pa.Table:
        return _keyed(TableKeys.of(self._generator, None), records)


class _naming:  # noqa: N801  (used as a function)
    """Turns what pyarrow raises for a file that is no Parquet into ``InvalidInputError`` with its name."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowInvalid | OSError):
            raise InvalidInputError(
                f"the file cannot be read as Parquet: file={self._path} ({error})",
                remedy="give a table or Parquet files",
            ) from error


@dataclass(slots=True)
class _Range:
    """What was seen of the records of one partition."""

    rows: int = 0
    least: str | None = None
    greatest: str | None = None

    def add(self, keys: pa.Array) -> None:
        if not len(keys):
            return
        bounds = pc.min_max(keys).as_py()
        self.rows += len(keys)
        self.least = bounds["min"] if self.least is None else min(self.least, bounds["min"])
        self.greatest = bounds["max"] if self.greatest is None else max(self.greatest, bounds["max"])

    def files(self, path: str, rows_per_seen: float, bytes_per_seen: float) -> Iterator[StoredFile]:
        count = max(1, math.ceil(self.rows * bytes_per_seen / TARGET_FILE_BYTES))
        rows, size = self.rows * rows_per_seen / count, self.rows * bytes_per_seen / count
        for _ in range(count):
            yield StoredFile(path, round(rows), round(size), self.least, self.greatest)


def evenly(count: int, most: int) -> list[int]:
    """Some of the numbers below ``count``, as far apart as they can be; all if there are few."""
    return list(range(count)) if count <= most else [number * count // most for number in range(most)]


def within_rows(source: KeySource, most: int) -> list[int]:
    """Some units of a source, far apart, which have about ``most`` records together; at least one if there is any."""
    rows = [source.rows_of(unit) for unit in range(source.units)]
    total = sum(rows)
    return evenly(len(rows), len(rows) if total <= most else max(1, len(rows) * most // total))


def _unread(file_slice: FileSlice, rows_per_byte: float) -> StoredFile:
    """A file whose footer is not read: its size tells about how many records it holds."""
    return StoredFile(
        file_slice.group.partition_path, round(file_slice.size * rows_per_byte), file_slice.size, None, None
    )


def _keyed(keys: TableKeys, records: pa.Table) -> pa.Table:
    paths = keys.partition_paths(records, Scope.GLOBAL).cast(pa.string())
    record_keys = keys.record_keys(records)
    return pa.table([record_keys, paths], schema=KEYED_SCHEMA)


def _by_partition(keyed: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    encoded = keyed.column(PARTITION).combine_chunks().dictionary_encode()
    keys = keyed.column(KEY).combine_chunks()
    for code, path in enumerate(encoded.dictionary.to_pylist()):
        yield path, keys.filter(pc.equal(encoded.indices, code))


def _parquet_footer(path: str) -> Any:
    with _naming(path):
        return pq.read_metadata(path)


def _stored_bytes(footer: Any) -> int:
    return sum(
        footer.row_group(group).column(column).total_compressed_size
        for group in range(footer.num_row_groups)
        for column in range(footer.num_columns)
    )
