"""The request of a write: its records, or the keys that it deletes, computed once for all attempts to write them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)
from pyspark.storagelevel import StorageLevel

from rli.codec.key_codec import hash_keys
from rli.table.file_groups import work_rows
from rli.table.file_groups.tagging import split_by_code
from rli_spark.batches import TableFunction, for_look_ups, map_tables, tasks_for
from rli_spark.errors import unwrapped_errors
from rli_spark.packets import DATA, ROUTE, ROWS, packed, routes, sent, table_of

_FEWEST_BUCKETS: Final = 256
_BUCKETS_PER_CORE: Final = 4
"""Keys are shared out into buckets by their hash, before it is known how many there are."""

_SEED: Final = 0x7461736B
_BUCKET: Final = "bucket"
_PACKETS: Final = pa.schema([(_BUCKET, pa.int32()), (ROWS, pa.int64()), (DATA, pa.binary())])


@dataclass(frozen=True, slots=True)
class Request:
    """Keyed rows in packets, which Spark keeps.

    Attributes:
        packets: each of one bucket of keys.
        buckets: how many; no more tasks than these take part in tagging.
        rows: how many; of those with one key some may have been left out already.
        size: bytes of the packets.
    """

    packets: DataFrame
    buckets: int
    rows: int
    size: int

    @classmethod
    def of(cls, frame: DataFrame, keyed: TableFunction, kept: ExitStack) -> Request:
        """Compute and keep the keyed rows of a frame.

        Args:
            frame: the input.
            keyed: as for ``map_tables``; gives tables with the column ``work_rows.RECORD_KEY``.
            kept: forgets the packets in the end.
        """
        buckets = max(_FEWEST_BUCKETS, _BUCKETS_PER_CORE * frame.sparkSession.sparkContext.defaultParallelism)
        with unwrapped_errors():
            packets = map_tables(frame, lambda tables: _in_buckets(keyed(for_look_ups(tables)), buckets), _PACKETS)
            keep(packets, kept)
            rows, size = packets.agg(F.sum(ROWS), F.sum(F.length(DATA))).collect()[0]
        return cls(packets, buckets, rows or 0, size or 0)

    @property
    def bytes_per_row(self) -> float:
        return self.size / max(self.rows, 1)

    def by_key(self) -> DataFrame:
        """The packets, all rows of one key in the same Spark partition."""
        tasks = min(self.buckets, tasks_for(self.packets.sparkSession, self.size))
        ways = F.array(*(F.lit(route) for route in routes(tasks)))
        way = F.element_at(ways, (F.col(_BUCKET) * tasks / self.buckets).cast("int") + 1)
        return sent(self.packets.withColumn(ROUTE, way), tasks)


def keep(frame: DataFrame, kept: ExitStack) -> DataFrame:
    """A frame that is computed once, as long as Spark keeps its blocks; it may be computed again without harm."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    kept.callback(frame.unpersist)
    return frame


def _in_buckets(tables: Iterator[pa.Table], buckets: int) -> Iterator[pa.Table]:
    for table in tables:
        chosen = hash_keys(table.column(work_rows.RECORD_KEY).combine_chunks(), _SEED) % buckets
        parts = enumerate(split_by_code(table, chosen, buckets))
        yield table_of(((bucket, part.num_rows, packed(part)) for bucket, part in parts if part.num_rows), _PACKETS)
