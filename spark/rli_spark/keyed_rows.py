"""The keyed rows of a frame: each task of the frame is computed once, and its rows are kept (P19)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from rli.write.engine import META_COLUMNS, Keying, RequestFolder
from rli_spark.batches import arrow_schema, for_look_ups, map_tables
from rli_spark.errors import unwrapped_errors
from rli_spark.request_files import PARTS, Parts, write_part
from rli_spark.tie_breaker import Tied, with_tie_breaker


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Keyed rows, which outlive the executors that made them.

    Spark's cache would be no place for them: what is lost of it is computed again, and a frame may give other rows then.

    Attributes:
        keying: what formed the rows.
        schema: of the records.
        parts: the rows of each task.
    """

    keying: Keying
    schema: pa.Schema
    parts: Parts

    @classmethod
    def of(cls, frame: DataFrame, keying: Keying, folder: RequestFolder, brings: int) -> KeyedRows:
        """Compute the keyed rows of a frame.

        Args:
            frame: the input.
            keying: forms them.
            folder: takes the files.
            brings: about how many bytes of rows may come to the driver.
        """
        storage, path = folder.storage, folder.path
        if keying.has_records:
            frame = frame.drop(*META_COLUMNS)
        # Fails here, on no records, if a column is missing or of a wrong type.
        schema = keying.schema(keying.keyed(arrow_schema(frame).empty_table()).schema)
        if keying.has_records:
            frame, keying = with_tie_breaker(frame), Tied(keying)

        def keyed(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
            for table in for_look_ups(tables):
                yield keying.distinct(keying.keyed(table))

        with unwrapped_errors():
            parts = map_tables(frame, lambda tables: write_part(storage, path, keyed(tables), brings), PARTS)
            return cls(keying, schema, Parts.accepted(parts.collect(), path))
