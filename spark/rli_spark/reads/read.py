"""Reading a table with Spark's own Parquet reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)
from pyspark.sql.types import StructType

from rli import Query, Table
from rli.errors import InvalidInputError
from rli.filters.filter import Filter
from rli.hudi.meta_columns import with_meta_columns
from rli.index.contract import LOOKUP_SECONDS
from rli.storage import Storage
from rli.table.table import opened_table
from rli.view.file_slice_reader import only_base_file
from rli.view.file_slices import FileSlice
from rli.view.snapshot import FindsValues, Snapshot
from rli.view.stored_types import slices_by_types
from rli_spark.reads.by_value import distinct_values, narrowed
from rli_spark.reads.columns import implied_filter
from rli_spark.reads.filters import Condition, passing, require_portable
from rli_spark.reads.hadoop_paths import hadoop_paths
from rli_spark.reads.listing import listing_in_few_tasks
from rli_spark.reads.merged import merged_records
from rli_spark.reads.point_reads import look_up
from rli_spark.session.arguments import is_of_spark, require_session_and_table
from rli_spark.session.batches import spark_schema

_CALENDAR: Final = {"datetimeRebaseMode": "CORRECTED"}
"""Dates and times of files that do not name their calendar are Gregorian at all times, as Hudi's writers and rli store
them. Spark 3 would refuse those before 1582 and 1900."""


def read(  # noqa: PLR0913  (the choices of a read)
    spark: SparkSession,
    table: Table,
    columns: Sequence[str] | None = None,
    filters: Column | str | Sequence[Condition | Sequence[Condition]] | None = None,
    as_of: str | datetime | None = None,
    *,
    keys: DataFrame | None = None,
    on: str | None = None,
    timeout: float = LOOKUP_SECONDS,
    query: Query | str = Query.SNAPSHOT,
) -> DataFrame:
    """The table's records, now or as of an instant, read at Spark's native speed from exactly the live files.

    With ``keys`` only the records of these keys, found by the index: the keys are looked up at once, by a Spark job, and
    the files that hold them are read when the frame is computed. Each record comes once, however often its key is given.

    Args:
        spark: the session.
        table: the table.
        columns: names; by default all but Hudi's meta columns, which can be named.
        filters: SQL such as ``fare > 10 and lower(city) = 'oslo'``, or tuples (column, operator, value), all of which hold,
            or a list of such lists, of which one holds. They pass the same records as in
            ``Table.read``. Files whose partition path or column statistics show that no record passes are not opened by
            Spark. Filters that follow on the frame itself are pushed into the files by Spark. Or a column of Spark, such as
            ``F.hour("ts") == 3``: Spark applies it, with its own meaning, as ``where`` on the frame does. The parts of it that rli
            understands choose the files, but not with Spark Connect.
        as_of: an instant of the timeline, or a time; not with ``keys``, since the index knows the present alone.
        keys: has the table's record-key columns; others are passed over. With ``on``, it has that column.
        on: a column: the records that have one of the values of ``keys`` in it, each once. A secondary index of the column tells which
            files hold them, as for filters.
        timeout: of the look-ups of ``keys``, as for ``tag``.
        query: as for ``Table.read``. File groups with log files are merged in Python tasks. Records of ``keys`` without ``on`` are those of
            a snapshot.

    Raises:
        InvalidInputError: ``columns`` is a string, ``filters`` is not understood or a pyarrow expression, ``keys`` is no
            frame, or given with ``as_of`` or, in a merge-on-read table, with another query than a snapshot.
        IndexNotReadyError: with ``keys``: the index has not seen all commits of the table after that time.
        SchemaError: a column does not exist, or a filter does not fit.
        pyspark.errors.AnalysisException: a column of Spark does not fit.
        CorruptTableError: the timeline cannot be read, or a base file's footer.
        UnsupportedTableError: rli does not know the rule by which the table's log files are merged. Log files that rli does not merge
            are an error of the task that reads them.
    """
    require_session_and_table(spark, table)
    opened = opened_table(table)
    wanted = _Wanted(columns, filters, query, opened.values)
    if on is not None:
        require_portable(filters)
        values = distinct_values(keys, on)
        return opened.told(as_of, lambda snapshot: _read_values(spark, snapshot, wanted, values))
    if keys is not None:
        if as_of is not None:
            raise InvalidInputError(
                f"the index knows the present alone: as_of={as_of!r}", remedy="read without keys, then join the frames"
            )
        if query != Query.SNAPSHOT and not opened.definition.properties.is_copy_on_write:
            raise InvalidInputError(
                f"records of keys are those of a snapshot: query={query}",
                remedy="leave the query out, or read without keys, then join the frames",
            )
        return _read_keys(table, keys, columns, filters, timeout)
    require_portable(filters)
    return opened.told(as_of, lambda snapshot: _read_state(spark, snapshot, wanted))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a caller wants of the records, see ``read``; and who finds them by values."""

    columns: Sequence[str] | None
    filters: Column | str | Sequence[Condition | Sequence[Condition]] | None
    query: Query | str
    values: FindsValues


def _read_state(
    spark: SparkSession, snapshot: Snapshot, wanted: _Wanted, live: Sequence[FileSlice] | None = None
) -> DataFrame:
    if snapshot.schema is None:
        return spark.createDataFrame([], StructType())
    full = with_meta_columns(snapshot.schema)
    if is_of_spark(wanted.filters, Column):
        # The column may name any column of the table. Spark reads those that it needs.
        if live is None:
            told = _told_filter(spark, wanted.filters, snapshot)
            live = snapshot.scan(None, told, wanted.query, wanted.values).matching_slices()
        every = _read_state(spark, snapshot, replace(wanted, columns=full.names, filters=None), live)
        return _columns_of(every.where(wanted.filters), snapshot.scan(wanted.columns).schema.names)
    scan = snapshot.scan(wanted.columns, wanted.filters, wanted.query, wanted.values)
    live = scan.matching_slices() if live is None else live
    names = scan.schema.names if scan.filter is None else _tested_names(scan.schema.names, scan.filter)
    types = pa.schema([full.field(name) for name in names])
    frame = _columns_of(_of_base_files(spark, snapshot, [one for one in live if not one.logs], full), names)
    logged = [one for one in live if one.logs]
    if logged:
        frame = frame.union(merged_records(spark, scan, logged, types))
    if scan.filter is not None:
        frame = passing(frame, scan.filter, types)
    return _columns_of(frame, scan.schema.names)


def _read_values(spark: SparkSession, snapshot: Snapshot, wanted: _Wanted, values: DataFrame) -> DataFrame:
    """The records that have one of some values in a column, the only one of ``values``."""
    if snapshot.schema is None:
        return spark.createDataFrame([], StructType())
    [on] = values.columns
    kind = snapshot.scan([on]).schema.field(on).type
    narrow = narrowed(values, kind, _told_filter(spark, wanted.filters, snapshot))
    live = snapshot.scan([on], narrow, wanted.query, wanted.values).matching_slices()
    names = snapshot.scan(wanted.columns).schema.names
    found = _read_state(spark, snapshot, replace(wanted, columns=[*dict.fromkeys([*names, on])]), live)
    return _columns_of(found.join(values, on, "left_semi"), names)


def _told_filter(spark: SparkSession, filters: object, snapshot: Snapshot) -> object:
    """A filter of rli for files: of a column of Spark what is understood, else the filter itself."""
    return (
        implied_filter(spark, filters, with_meta_columns(snapshot.schema)) if is_of_spark(filters, Column) else filters
    )


def _of_base_files(spark: SparkSession, snapshot: Snapshot, live: Sequence[FileSlice], full: pa.Schema) -> DataFrame:
    if not live:
        return spark.createDataFrame([], spark_schema(full))
    storage = snapshot.table.storage
    by_types = slices_by_types(storage, live, full)
    try:
        with listing_in_few_tasks(spark, len(live)):
            return reduce(DataFrame.union, (_files(spark, storage, one, stored, full) for stored, one in by_types))
    except AnalysisException:
        # Spark looks for the files at once.
        snapshot.require_not_removed(live)
        raise


def _files(
    spark: SparkSession, storage: Storage, slices: Sequence[FileSlice], stored: pa.Schema, schema: pa.Schema
) -> DataFrame:
    """The records of some file slices whose files have the types of ``stored``, in those of ``schema``."""
    paths = hadoop_paths(spark, storage, (only_base_file(file_slice).path for file_slice in slices))
    frame = spark.read.options(**_CALENDAR).schema(spark_schema(stored)).parquet(*paths)
    if stored.equals(schema):
        return frame
    # Spark 3 reads no integer as a wider one, nor a float as a double.
    return frame.select(
        *(F.col(f"`{field.name}`").cast(field.dataType).alias(field.name) for field in spark_schema(schema))
    )


def _read_keys(
    table: Table,
    keys: DataFrame,
    columns: Sequence[str] | None,
    filters: Column | str | Sequence[Condition | Sequence[Condition]] | None,
    timeout: float,
) -> DataFrame:
    if not hasattr(keys, "mapInArrow"):
        raise InvalidInputError(
            f"the keys are no Spark frame: type={type(keys).__name__}", remedy="call spark.createDataFrame"
        )
    require_portable(filters)
    located = look_up(table, keys, timeout)
    if located.snapshot.schema is None:
        return keys.sparkSession.createDataFrame([], StructType())
    full = with_meta_columns(located.snapshot.schema)
    if is_of_spark(filters, Column):
        found = located.records(full.names).where(filters)
        return _columns_of(found, located.snapshot.scan(columns).schema.names)
    scan = located.snapshot.scan(columns, filters)
    wanted = scan.schema.names
    if scan.filter is None:
        return located.records(wanted)
    names = _tested_names(wanted, scan.filter)
    types = pa.schema([full.field(name) for name in names])
    return _columns_of(passing(located.records(names), scan.filter, types), wanted)


def _tested_names(wanted: Sequence[str], passes: Filter) -> list[str]:
    """The wanted columns and those that a filter reads, each once."""
    return [*dict.fromkeys([*wanted, *(name for name, *_ in passes.columns)])]


def _columns_of(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    return frame.select(*(F.col(f"`{name}`") for name in names))
