"""Reading file slices as a whole: is each record what its key columns, its meta columns and its place say?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError, InvalidKeyError, SchemaError
from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.meta_columns import COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY, with_meta_columns
from rli.hudi.partition_values import partition_values
from rli.hudi.properties import KeyGeneratorKind
from rli.model import FileGroupId
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.file_slice_reader import FileSliceReader, only_base_file
from rli.view.file_slices import FileSlice
from rli.view.merging.known_merges import KnownMerges
from rli.view.slice_readers import SliceReaders
from rli.view.snapshot import Snapshot
from rli.view.time_travel import verified_snapshot

_KEY_KINDS: Final = (KeyGeneratorKind.SIMPLE, KeyGeneratorKind.COMPLEX, KeyGeneratorKind.NONPARTITIONED)


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with one base file.

    Attributes:
        path: of the file, relative to the table.
        problems: what is wrong, each once.
    """

    path: str
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path}: {'; '.join(self.problems)}"


def damaged_files(table: TableDefinition, tasks: TaskRunner) -> list[Damage]:
    """Read every live base file as a whole, and the log files over it, and say what is wrong with them. Writers may go on.

    File groups whose files are cleaned before they are read are read in a later version.

    Args:
        table: the table.
        tasks: runs the work on each file.

    Raises:
        CorruptTableError: a base file is lost, or a commit cannot be read.
    """
    found: list[Damage] = []
    left: Collection[FileGroupId] | None = None
    while left is None or left:
        snapshot = verified_snapshot(table)
        slices = snapshot.slices.values() if left is None else snapshot.slices.of_groups(left).values()
        gone: list[FileGroupId] = []
        for file_slice, problems in tasks.run(partial(_checked, snapshot), list(slices)):
            if problems is None:
                gone.append(file_slice.group)
            elif problems:
                found.append(Damage(file_slice.files[0].path, tuple(problems)))
        left = gone
    return sorted(found, key=lambda damage: damage.path)


def _checked(snapshot: Snapshot, file_slice: FileSlice) -> tuple[FileSlice, Sequence[str] | None]:
    """The slice, and what is wrong with it; None if it was cleaned before it was read. A task."""
    try:
        return file_slice, list(dict.fromkeys(_problems_of(snapshot, file_slice)))
    except CorruptTableError as error:
        if not snapshot.slices.has_files(file_slice):
            return file_slice, None
        return file_slice, [str(error)]
    except UnicodeDecodeError as error:
        return file_slice, [f"the file holds a string that is not UTF-8 ({error})"]


def _problems_of(snapshot: Snapshot, file_slice: FileSlice) -> Iterator[str]:
    if file_slice.logs:
        # Without results of earlier merges, all log files are read.
        with SliceReaders(snapshot.table, snapshot.schema).open(file_slice, KnownMerges()) as merged:
            for _ in merged.batches(with_meta_columns(snapshot.schema or pa.schema([]))):
                pass
    if file_slice.base is not None:
        yield from _problems_of_base_file(snapshot, file_slice.without_logs())


def _problems_of_base_file(snapshot: Snapshot, file_slice: FileSlice) -> Iterator[str]:
    with FileSliceReader(snapshot.table.storage, file_slice, verifies_checksums=True) as reader:
        schema, bloom_filter = reader.schema, reader.bloom_filter
        rows = 0
        for batch in reader.batches(schema):
            rows += batch.num_rows
            # Tables without meta fields may have the columns all the same, holding nulls.
            if snapshot.table.properties.populate_meta_fields:
                yield from _in_meta_columns(file_slice, batch)
            yield from _in_keys(snapshot, batch, bloom_filter)
            yield from _in_partition(snapshot, file_slice, batch)
        if rows != reader.rows:
            yield f"the footer names another number of records: records={rows} footer={reader.rows}"


def _in_meta_columns(file_slice: FileSlice, batch: pa.Table) -> Iterator[str]:
    name = only_base_file(file_slice).path.rpartition("/")[2]
    for column, expected in ((PARTITION_PATH, file_slice.group.partition_path), (FILE_NAME, name)):
        if column in batch.column_names and (count := _wrong(pc.not_equal(batch.column(column), expected))):
            yield f"{column} does not fit the file: records={count}"
    if COMMIT_TIME in batch.column_names and pc.all(pc.is_null(batch.column(COMMIT_TIME))).as_py() is not True:
        times = batch.column(COMMIT_TIME)
        strange = pc.or_(pc.greater(times, file_slice.instant), pc.invert(pc.match_substring_regex(times, "^[0-9]+$")))
        if count := _wrong(strange):
            yield f"{COMMIT_TIME} is no time of the file or before: records={count}"


def _in_keys(snapshot: Snapshot, batch: pa.Table, bloom_filter: BloomFilter | None) -> Iterator[str]:
    properties = snapshot.table.properties
    if RECORD_KEY not in batch.column_names or not properties.populate_meta_fields:
        return
    keys = batch.column(RECORD_KEY).combine_chunks()
    if keys.null_count:
        yield f"records have no key: records={keys.null_count}"
        return
    if bloom_filter is not None and not bloom_filter.might_contain(keys).all():
        yield "the bloom filter of the file lacks keys"
    fields = properties.record_key_fields
    if properties.key_generator not in _KEY_KINDS or not all(_is_plain(batch, name) for name in fields):
        return
    try:
        formed = snapshot.table.key_generator.record_keys(batch)
    except (InvalidKeyError, SchemaError) as error:
        yield f"no keys can be formed of the key columns ({error})"
        return
    differs = pc.not_equal(formed, keys)
    if len(fields) == 1:
        # Releases of Hudi differ in the keys that its generator for several columns makes of one.
        named = pc.binary_join_element_wise(fields[0], formed, ":")
        differs = pc.and_(differs, pc.not_equal(named, keys))
    if count := _wrong(differs):
        yield f"{RECORD_KEY} differs from the key columns: records={count} columns={list(fields)}"


def _in_partition(snapshot: Snapshot, file_slice: FileSlice, batch: pa.Table) -> Iterator[str]:
    values = partition_values(snapshot.table.properties, batch.schema, file_slice.group.partition_path)
    for name, value in values.items():
        if count := _wrong(pc.not_equal(batch.column(name), value)):
            yield f"partition columns do not fit the partition: column={name} records={count}"


def _is_plain(batch: pa.Table, name: str) -> bool:
    """Whether all engines write the values of a column as the same text."""
    if name not in batch.column_names:
        return False
    kind = batch.schema.field(name).type
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _wrong(mask: pa.ChunkedArray) -> int:
    """How many values are true, or null."""
    return int(pc.sum(pc.fill_null(mask, True)).as_py() or 0)
