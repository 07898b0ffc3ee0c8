"""Writing a stream into a table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.state import GroupStateTimeout

from rli import InvalidInputError, SettingsError, Table
from rli.codec.key_codec import HASHES, routing_hashes
from rli.file_group import work_rows
from rli.index.contract import FileIndex
from rli.index.placing import PlacesRecords
from rli.view.caller_metadata import ComparedBy
from rli.view.definition import TableDefinition
from rli.view.given_keys import table_keys
from rli.view.paths import stream_folder
from rli.write.choices import one_of
from rli.write.engine.contract import Engine
from rli.write.operations.insert import insert as write_insert
from rli.write.operations.upsert import upsert as write_upsert
from rli.write.options import WriteOptions, pass_over
from rli.write.rows.keying import FirstRecordKeying, Keying, RecordKeying
from rli.write.rows.tally import Tally
from rli_spark.engine import SparkEngine
from rli_spark.requests.tie_breaker import Tied
from rli_spark.rows.row_batches import packed, unpack
from rli_spark.session.arguments import require_frame_and_table
from rli_spark.session.batches import arrow_schema, for_look_ups, map_tables
from rli_spark.session.connect import is_connect
from rli_spark.session.micro_batches import for_replays, query_of
from rli_spark.streams.base import build_base, load_base
from rli_spark.streams.location_state import STATE_SCHEMA
from rli_spark.streams.request import StreamEngine
from rli_spark.streams.tagger import BUCKET, CELLS, TAGGED_CELLS, BucketTagger

_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class StreamMode(StrEnum):
    """What becomes of the records of a stream."""

    UPSERT = "upsert"
    INSERT = "insert"


class TagBy(StrEnum):
    """Where a stream looks the keys of its records up."""

    INDEX = "index"
    STATE = "state"


def write_stream(
    df: DataFrame,
    table: Table,
    *,
    checkpoint: str,
    mode: StreamMode | str = StreamMode.UPSERT,
    tag_by: TagBy | str = TagBy.INDEX,
    ttl: timedelta | None = None,
) -> DataStreamWriter:
    """Write a stream into a table, each micro-batch exactly once.

    Each micro-batch is a commit, with the id of the query and the number of the batch as its transaction. Other writers
    may write the same table meanwhile. Where Spark replays a batch that was committed, nothing is written: the query must give
    the same record keys again, and may give other values. Other keys are an error: Spark's checkpoint is older than the table,
    or the query is not deterministic.

    With ``tag_by="state"``, Spark's state store keeps the location of each key, so that a table without a store needs
    not be searched for every batch. The first call reads all record keys of the table. The state follows the commits of
    all writers of rli. Where it cannot tell, for example behind a commit of another engine, the batch is tagged with
    the table's own index, and the keys are read again.

    Args:
        df: the records: a streaming frame.
        table: the table; with ``tag_by="state"`` one whose index is its own files, such as ``global-simple:``.
        checkpoint: Spark's checkpoint location of the query.
        mode: "upsert", or "insert", which skips records of known keys.
        tag_by: "index" looks keys up in the table's index, "state" in Spark's state.
        ttl: with ``tag_by="state"``, how long the state keeps the location of a key that no record comes for. A record
            that comes later is tagged with the table's own index. None: for ever.

    Returns:
        Spark's writer: set a trigger, and ``start()`` it.

    Raises:
        InvalidInputError: the frame is no stream, or an argument does not fit.
        SettingsError: the session or the table's index does not serve for ``tag_by="state"``; says what to set.
        SchemaError: the records do not fit the table.
        CorruptTableError: a base file is damaged.
        TransactionMismatchError: ends the query: a batch was committed with another mode or other record keys.
    """
    require_frame_and_table(df, table)
    chosen, tags = one_of(StreamMode, "mode", mode), one_of(TagBy, "tag_by", tag_by)
    if not df.isStreaming:
        raise InvalidInputError("the frame is no stream: make one with spark.readStream, or call rli_spark.upsert")
    if is_connect(df.sparkSession):
        raise SettingsError("Spark Connect cannot write streams of rli: use a session of Spark itself")
    if tags is TagBy.INDEX:
        if ttl is not None:
            raise InvalidInputError(f'ttl is of the state: ttl={ttl}; give tag_by="state", or leave it out')
        return _writer(df, _batch_writer(table, chosen, SparkEngine), checkpoint)
    return _tagged_by_state(df, table, chosen, checkpoint, ttl)


def _tagged_by_state(
    df: DataFrame, table: Table, mode: StreamMode, checkpoint: str, ttl: timedelta | None
) -> DataStreamWriter:
    spark = df.sparkSession
    definition, index = table.refreshed()
    _require_rocksdb(spark)
    if ttl is not None and ttl <= timedelta(0):
        raise InvalidInputError(f"ttl must be longer than nothing: ttl={ttl}; leave it out to keep all keys")
    if not isinstance(index, FileIndex) or isinstance(index, PlacesRecords):
        raise SettingsError(
            f'the table has an index that needs no state: index={index.url}; leave tag_by="state" out, or give the table '
            "an index that searches its files: rli index migrate TABLE --to global-simple:"
        )
    folder = stream_folder(hashlib.sha256(checkpoint.encode()).hexdigest()[:32])
    base = load_base(definition.storage, folder) or build_base(spark, definition, index, folder)
    rows, keying = _keyed_frame(df, definition, mode, index)
    schema = keying.schema(keying.keyed(arrow_schema(rows).empty_table()).schema)
    cells = map_tables(rows, lambda tables: _by_bucket(tables, keying, base.buckets), CELLS)
    # PySpark 3.5 fails with recent releases of PyArrow where a group has more than one row.
    whole = map_tables(cells.repartition(BUCKET), _one_for_each_bucket, CELLS)
    tagger = BucketTagger(definition, folder, base.buckets, None if ttl is None else ttl.total_seconds())
    tagged = whole.groupBy(BUCKET).applyInPandasWithState(
        tagger, TAGGED_CELLS, STATE_SCHEMA, "update", GroupStateTimeout.NoTimeout
    )

    def write_batch(batch: DataFrame, number: int) -> None:
        engine = StreamEngine(batch.sparkSession, schema, index.scope, [])
        _batch_writer(table, mode, lambda _: engine)(batch, number)
        present = table.index
        if any(known.is_wanting for known in engine.requested) and isinstance(present, FileIndex):
            build_base(batch.sparkSession, definition.reloaded(), present, folder, base.buckets)

    return _writer(tagged, write_batch, checkpoint).outputMode("update")


def _keyed_frame(df: DataFrame, table: TableDefinition, mode: StreamMode, index: FileIndex) -> tuple[DataFrame, Keying]:
    """The frame that is keyed, and what keys its rows."""
    kind = RecordKeying if mode is StreamMode.UPSERT else FirstRecordKeying
    keying = kind(table_keys(table), table.properties.ordering_field, index.scope, compared_by=ComparedBy.KEYS)
    return df, Tied(keying)


def _by_bucket(tables: Iterator[pa.Table], keying: Keying, buckets: int) -> Iterator[pa.Table]:
    """Row batches of keyed rows."""
    for table in for_look_ups(tables):
        given = keying.keyed(table)
        keyed, received = keying.distinct(given), keying.received(given)
        hashes = routing_hashes(keyed.column(work_rows.RECORD_KEY).combine_chunks())
        numbers = hashes.astype(np.int64) // (HASHES // buckets)
        order = np.argsort(numbers, kind="stable")
        arranged = keyed.take(pa.array(order))
        found, starts = np.unique(numbers[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        cells = [packed(arranged.slice(start, end - start)) for start, end in zip(starts.tolist(), ends, strict=True)]
        # What was received is added up over all buckets, so it may go with the first one.
        told = [[number, *[0] * (len(cells) - 1)] for number in (received.keys, received.hashes)]
        yield pa.table([pa.array(found, pa.int32()), pa.array(cells, pa.binary()), *told], schema=CELLS)


def _one_for_each_bucket(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The row batches of each bucket as one."""
    cells: dict[int, list[pa.Table]] = {}
    received: dict[int, Tally] = {}
    for table in tables:
        for bucket, content, rows, hashes in table.select(CELLS.names).to_pandas().itertuples(index=False):
            cells.setdefault(bucket, []).append(unpack(content))
            received[bucket] = received.get(bucket, Tally()) + Tally(rows, hashes)
    for bucket, parts in cells.items():
        content, tally = packed(pa.concat_tables(parts)), received[bucket]
        yield pa.table([[bucket], [content], [tally.keys], [tally.hashes]], schema=CELLS)


def _batch_writer(
    table: Table, mode: StreamMode, engine_for: Callable[[SparkSession], Engine]
) -> Callable[[DataFrame, int], None]:
    """Writes a micro-batch as one transaction of its query."""

    def write_batch(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        query = query_of(spark)
        if query is None:
            raise InvalidInputError("a micro-batch belongs to no query: start the writer that write_stream returns")
        options = for_replays(WriteOptions.of(None, (query, number), None, pass_over), spark)
        write, engine = write_upsert if mode is StreamMode.UPSERT else write_insert, engine_for(spark)
        table.write_with(lambda definition, index: write(definition, index, engine, batch, options))

    return write_batch


def _writer(df: DataFrame, write_batch: Callable[[DataFrame, int], None], checkpoint: str) -> DataStreamWriter:
    return df.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)


def _require_rocksdb(spark: SparkSession) -> None:
    provider = spark.conf.get(_PROVIDER)
    if provider != _ROCKSDB:
        raise SettingsError(
            f"the state of a stream that tags by state belongs into RocksDB: {_PROVIDER}={provider}; "
            f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")'
        )
