"""The keyed rows of a micro-batch by the buckets of the stream's state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rli.codec.key_codec import HASHES, routing_hashes
from rli.file_group import work_rows
from rli.write.rows.keying import Keying
from rli.write.rows.tally import Tally
from rli_spark.rows.row_batches import packed, unpack
from rli_spark.session.batches import for_look_ups
from rli_spark.streams.tagger import CELLS


def by_bucket(tables: Iterator[pa.Table], keying: Keying, buckets: int) -> Iterator[pa.Table]:
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


def one_for_each_bucket(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
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
