"""All locations of a table as of one state, in files: what fills the state of a stream.

The files are arranged by the hash of the keys, as those of requests are, so that a task reads no more than it needs.
They lie in the table's folder, which executors reach. A later base takes the place of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from rli.errors import CorruptTableError
from rli.file_group import work_rows
from rli.index.contract import FileIndex, SyncOptions
from rli.index.following import Position
from rli.index.locators import FileLocator
from rli.storage import Storage
from rli.view.definition import TableDefinition
from rli.view.second_look import OVERTAKEN, SecondLook
from rli_spark.planning.resources import parallelism_of
from rli_spark.requests.file_probes import shared_slices
from rli_spark.requests.request_files import RequestFile, key_range, read_rows, tally_of_files
from rli_spark.requests.request_parts import PARTS, Parts, files_of_table, table_of_files, write_part
from rli_spark.rows.row_batches import packed, unpack
from rli_spark.session.batches import map_numbers
from rli_spark.session.jobs import jobs
from rli_spark.tasks import SparkTasks

LOCATION: Final = ("record_key", "partition_path", "file_id")
LOCATIONS: Final = pa.schema([(name, pa.string()) for name in LOCATION])
_COLUMNS: Final = (work_rows.RECORD_KEY, "partition_path", "file_id")

_POINTER: Final = "base.arrow"
_VERSION: Final = b"2"

_KEYS_PER_BUCKET: Final = 65_536
"""About: a call of Spark's for a bucket costs as much as some hundred thousand keys in it."""

_LEAST_BUCKETS: Final = 16
_MOST_BUCKETS: Final = 4096


@dataclass(frozen=True, slots=True)
class LocationBase:
    """Locations in files. Picklable.

    Attributes:
        position: the state of the table.
        buckets: of the stream's state: a power of two.
        files: with the locations.
    """

    position: Position
    buckets: int
    files: tuple[RequestFile, ...]

    def of_bucket(self, storage: Storage, bucket: int) -> pa.Table | None:
        """The locations of all keys of a bucket; None where a later base has taken the place of this one."""
        names = dict(zip(_COLUMNS, LOCATION, strict=True))
        try:
            found = list(read_rows(storage, self.files, *key_range(bucket, self.buckets)))
        except (CorruptTableError, FileNotFoundError):
            return None
        named = (table.rename_columns(names).select(LOCATION).cast(LOCATIONS) for table in found)
        return pa.concat_tables([LOCATIONS.empty_table(), *named])


def load_base(storage: Storage, folder: str) -> LocationBase | None:
    """The base in a stream's folder; None where there is none that can be read."""
    content = storage.read_bytes(f"{folder}/{_POINTER}")
    if content is None:
        return None
    try:
        table = unpack(content)
        # Who writes the table's folder may have changed the file. Arrow would read wherever its offsets lead.
        table.validate(full=True)
        told = table.schema.metadata or {}
        if told.get(b"version") != _VERSION:
            return None
        position, buckets = Position.from_string(told[b"position"].decode()), int(told[b"buckets"])
        return LocationBase(position, buckets, files_of_table(table))
    except (pa.ArrowException, ValueError, TypeError, KeyError, AttributeError):
        return None


def build_base(
    spark: SparkSession, table: TableDefinition, index: FileIndex, folder: str, buckets: int | None = None
) -> LocationBase:
    """Read all record keys of a table, and put their locations down as a stream's base.

    Args:
        spark: the session.
        table: the table.
        index: of the table.
        folder: of the stream.
        buckets: of the stream's state; by default as suits the table.

    Raises:
        CorruptTableError: a file is damaged.
    """
    second = SecondLook(table)
    while True:
        try:
            locator = index.locator_of(index.sync(table, SyncOptions(SparkTasks(spark))).snapshot)
            files = _write_locations(spark, table.storage, locator, f"{folder}/{uuid4().hex}")
        except OVERTAKEN as problem:
            second.require_change(problem)
            continue
        position = Position.of(locator.snapshot)
        base = LocationBase(position, buckets or _buckets_for(tally_of_files(files).keys), files)
        _replace_base(table.storage, folder, base)
        return base


def _write_locations(spark: SparkSession, storage: Storage, locator: FileLocator, path: str) -> tuple[RequestFile, ...]:
    slices = locator.candidates(None)
    if not slices:
        return ()
    storage.make_folder(path)
    shares = shared_slices(slices, parallelism_of(spark).for_files(len(slices)))

    def stored(numbers: Iterator[int]) -> Iterator[pa.Table]:
        for number in numbers:
            for locations in locator.stored(shares[number]):
                yield locations.select(LOCATION).rename_columns(list(_COLUMNS))

    with jobs(spark, "read locations"):
        written = map_numbers(spark, len(shares), lambda numbers: write_part(storage, path, stored(numbers)), PARTS)
        return Parts.accepted(written.collect(), path).files


def _replace_base(storage: Storage, folder: str, base: LocationBase) -> None:
    """Name the files of a base; those that no base names are removed."""
    told = {"version": _VERSION, "position": base.position.to_string(), "buckets": str(base.buckets)}
    storage.make_folder(folder)
    storage.write_bytes(f"{folder}/{_POINTER}", packed(table_of_files(base.files).replace_schema_metadata(told)))
    named = {file.path.rpartition("/")[0] for file in base.files}
    for other in storage.list_folders(folder):
        if other not in named:
            storage.delete_folder(other)


def _buckets_for(keys: int) -> int:
    wanted = max(_LEAST_BUCKETS, min(keys // _KEYS_PER_BUCKET, _MOST_BUCKETS))
    return 1 << (wanted - 1).bit_length()
