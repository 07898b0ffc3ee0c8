"""Writing a stream into a table."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from rli import InvalidInputError, SettingsError, Table
from rli.write.choices import one_of
from rli_spark.engine import SparkEngine
from rli_spark.session.arguments import require_frame_and_table
from rli_spark.session.connect import is_connect
from rli_spark.streams.batch_writer import StreamMode, StreamVerb, batch_writer, writer_of
from rli_spark.streams.by_state import tagged_by_state


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
    op: str | None = None,
    when: str | None = None,
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
        mode: "upsert"; "insert", which skips records of known keys; or "merge", which also deletes, see ``rli_spark.merge``.
        op: with ``mode="merge"``, the column of operations; by default as ``Table.merge`` finds out.
        when: with ``mode="merge"``, the condition on changes of stored records; see ``Table.merge``.
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
    verb, tags = StreamVerb(one_of(StreamMode, "mode", mode), op, when), one_of(TagBy, "tag_by", tag_by)
    if (op, when) != (None, None) and verb.mode is not StreamMode.MERGE:
        raise InvalidInputError(
            f"op and when are of a merge: op={op} when={when} mode={verb.mode}",
            remedy='give mode="merge", or leave them out',
        )
    if not df.isStreaming:
        raise InvalidInputError(
            "the frame is no stream", remedy="make one with spark.readStream, or call rli_spark.upsert"
        )
    if is_connect(df.sparkSession):
        raise SettingsError("Spark Connect cannot write streams of rli", remedy="use a session of Spark itself")
    if tags is TagBy.INDEX:
        if ttl is not None:
            raise InvalidInputError(f"ttl is of the state: ttl={ttl}", remedy='give tag_by="state", or leave it out')
        return writer_of(df, batch_writer(table, verb, SparkEngine), checkpoint)
    return tagged_by_state(df, table, verb, checkpoint, ttl)
