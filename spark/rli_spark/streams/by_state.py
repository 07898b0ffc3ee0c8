"""Streams whose keys are located by Spark's state, and not by the table's index."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.state import GroupStateTimeout

from rli import InvalidInputError, SettingsError, Table
from rli.index.contract import FileIndex
from rli.index.placing import PlacesRecords
from rli.table.table import opened_table
from rli.view.caller_metadata import ComparedBy
from rli.view.definition import TableDefinition
from rli.view.given_keys import table_keys
from rli.view.paths import stream_folder
from rli.write.operations.merge import of_operations
from rli.write.rows.change_keying import ChangeKeying
from rli.write.rows.keying import FirstRecordKeying, Keying, RecordKeying
from rli_spark.requests.tie_breaker import Tied
from rli_spark.session.batches import arrow_schema, map_tables
from rli_spark.streams.base import build_base, load_base
from rli_spark.streams.batch_writer import StreamMode, StreamVerb, batch_writer, writer_of
from rli_spark.streams.buckets import by_bucket, one_for_each_bucket
from rli_spark.streams.location_state import STATE_SCHEMA
from rli_spark.streams.request import StreamEngine
from rli_spark.streams.tagger import BUCKET, CELLS, TAGGED_CELLS, BucketTagger

_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def tagged_by_state(
    df: DataFrame, table: Table, verb: StreamVerb, checkpoint: str, ttl: timedelta | None
) -> DataStreamWriter:
    """Spark's writer of a stream that Spark's state tags; see ``write_stream``."""
    spark = df.sparkSession
    definition, index = opened_table(table).refreshed()
    _require_rocksdb(spark)
    if ttl is not None and ttl <= timedelta(0):
        raise InvalidInputError(f"ttl must be longer than nothing: ttl={ttl}", remedy="leave it out to keep all keys")
    if not isinstance(index, FileIndex) or isinstance(index, PlacesRecords):
        raise SettingsError(
            f"the table has an index that needs no state: index={index.url}",
            remedy=(
                'leave tag_by="state" out, or give the table '
                "an index that searches its files: rli index migrate TABLE --to global-simple:"
            ),
        )
    folder = stream_folder(hashlib.sha256(checkpoint.encode()).hexdigest()[:32])
    base = load_base(definition.storage, folder) or build_base(spark, definition, index, folder)
    keying = _keying(definition, verb, index)
    schema = keying.schema(keying.keyed(arrow_schema(df).empty_table()).schema)
    cells = map_tables(df, lambda tables: by_bucket(tables, keying, base.buckets), CELLS)
    # PySpark 3.5 fails with recent releases of PyArrow where a group has more than one row.
    whole = map_tables(cells.repartition(BUCKET), one_for_each_bucket, CELLS)
    tagger = BucketTagger(definition, folder, base.buckets, None if ttl is None else ttl.total_seconds())
    tagged = whole.groupBy(BUCKET).applyInPandasWithState(
        tagger, TAGGED_CELLS, STATE_SCHEMA, "update", GroupStateTimeout.NoTimeout
    )

    def write_batch(batch: DataFrame, number: int) -> None:
        engine = StreamEngine(batch.sparkSession, schema, index.scope, [])
        batch_writer(table, verb, lambda _: engine)(batch, number)
        present = opened_table(table).index
        if any(known.is_wanting for known in engine.requested) and isinstance(present, FileIndex):
            build_base(batch.sparkSession, definition.reloaded(), present, folder, base.buckets)

    return writer_of(tagged, write_batch, checkpoint).outputMode("update")


def _keying(table: TableDefinition, verb: StreamVerb, index: FileIndex) -> Keying:
    """What keys the rows of the frame."""
    kinds = {StreamMode.UPSERT: RecordKeying, StreamMode.INSERT: FirstRecordKeying, StreamMode.MERGE: ChangeKeying}
    ordering, keys = table.properties.ordering_field, table_keys(table)
    keying = kinds[verb.mode](keys, ordering, index.scope, compared_by=ComparedBy.KEYS)
    return Tied(of_operations(keying, table, verb.op) if isinstance(keying, ChangeKeying) else keying)


def _require_rocksdb(spark: SparkSession) -> None:
    provider = spark.conf.get(_PROVIDER)
    if provider != _ROCKSDB:
        raise SettingsError(
            f"the state of a stream that tags by state belongs into RocksDB: {_PROVIDER}={provider}",
            remedy=f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")',
        )
