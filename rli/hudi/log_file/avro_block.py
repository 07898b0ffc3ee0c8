"""Blocks of records in Avro, by columns.

The content is int32 version 3, int32 number of records, and for each record int32 bytes and the record in Avro's binary
encoding, by the schema in the header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from rli.errors import UnsupportedTableError
from rli.hudi.log_file import avro_values
from rli.hudi.log_file.avro_decoding import decoded
from rli.hudi.log_file.avro_encoding import encoded
from rli.hudi.log_file.avro_plan import plan_of
from rli.hudi.log_file.avro_rows import Numbers, rows_within
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import CONTENT_VERSION, INT, TWO_INTS, BlockKind, Header, damaged
from rli.hudi.log_file.reader import LogBlock
from rli.hudi.log_file.records_schema import require_columns

_BATCH_ROWS: Final = 32_768
"""A batch's places and words fit into the cache of a core."""

_BATCH_BYTES: Final = 64 << 20
_LARGEST_RECORD: Final = 2**31 - 64
"""Bytes: places in a batch are numbers of 32 bits."""


def avro_block(instant: str, records: Iterable[pa.RecordBatch], schema: str) -> bytes:
    """A block of records.

    Args:
        instant: of the commit.
        records: batches with the columns and types that the schema has, meta columns included.
        schema: Avro schema of the records.

    Raises:
        CorruptTableError: the schema is none.
        InvalidInputError: a batch has other columns, or a null where the schema has none.
    """
    contents, count = [], 0
    for batch in records:
        count += batch.num_rows
        step = max(1, min(_BATCH_ROWS, batch.num_rows * _BATCH_BYTES // max(1, batch.nbytes)))
        contents += [_encoded(batch.slice(start, step), schema) for start in range(0, batch.num_rows, step)]
    content = b"".join([TWO_INTS.pack(CONTENT_VERSION, count), *contents])
    return encode_block(BlockKind.AVRO, {Header.INSTANT: instant, Header.SCHEMA: schema}, content)


def avro_records(block: LogBlock) -> Iterator[pa.RecordBatch]:
    """The records of a block, in its order.

    Args:
        block: of the kind ``AVRO``.

    Yields:
        Batches of at most 32,768 records with the columns of the block's schema.

    Raises:
        CorruptTableError: the content or its schema is damaged.
        SchemaError: a column has a type that Arrow cannot hold.
        UnsupportedTableError: the content is in the form of Hudi before 0.14.
    """
    columns, record = plan_of(block.header(Header.SCHEMA))
    content = block.content()
    starts, ends = _bounds(content)
    for first, last in pairwise(_cuts(starts, ends)):
        rows = rows_within(content, starts[first:last], ends[first:last])
        found = decoded(record, rows)
        if (rows.places != rows.ends).any():
            raise damaged("a record is longer than its values")
        yield pa.RecordBatch.from_arrays(found.flatten(), schema=columns)


def _encoded(batch: pa.RecordBatch, schema: str) -> bytes:
    columns, record = plan_of(schema)
    parts = [
        part
        for node, column in zip(record.children, require_columns(batch, columns).columns, strict=True)
        for part in encoded(node, column)
    ]
    records = avro_values.joined(parts)
    return avro_values.with_sizes(records)


def _bounds(content: bytes) -> tuple[Numbers, Numbers]:
    """Where records begin and end."""
    if len(content) < TWO_INTS.size:
        raise damaged(f"a block of records is too short: bytes={len(content)}")
    version, count = TWO_INTS.unpack_from(content)
    if version != CONTENT_VERSION:
        raise UnsupportedTableError(
            f"a log file has records in a form that rli does not read: version={version}",
            remedy="let a newer release of Hudi compact the table",
        )
    place, unpack, head, last = TWO_INTS.size, INT.unpack_from, INT.size, len(content) - INT.size
    ends: list[int] = []
    for _ in range(count):
        if place > last:
            raise damaged(f"a block has fewer records than it says: records={len(ends)} said={count}")
        (size,) = unpack(content, place)
        place += head + size
        if not 0 <= size <= _LARGEST_RECORD or place > len(content):
            raise damaged(f"a record is longer than its block: place={place} bytes={size}")
        ends.append(place)
    if count < 0 or place != len(content):
        raise damaged(f"a block has more than its records: records={count}")
    bounds = np.array([TWO_INTS.size, *ends], np.int64)
    return bounds[:-1] + head, bounds[1:]


def _cuts(starts: Numbers, ends: Numbers) -> Iterator[int]:
    """Bounds of batches, of few enough records and bytes."""
    cut = 0
    while cut < len(starts):
        yield cut
        most = int(np.searchsorted(ends, starts[cut] + _BATCH_BYTES, side="right"))
        cut = min(cut + _BATCH_ROWS, max(most, cut + 1))
    yield len(starts)
