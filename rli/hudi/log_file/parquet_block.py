"""Blocks of records in Parquet: a whole file each."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from rli.hudi.avro_schema import from_avro
from rli.hudi.base_file_writer import CALENDAR
from rli.hudi.log_file.base_rows import BaseRows
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header, damaged
from rli.hudi.log_file.reader import LogBlock
from rli.hudi.log_file.records_schema import require_columns

_CODEC: Final = "gzip"
"""Hudi's default for log blocks, and its default for base files."""

_BATCH_ROWS: Final = 32_768
"""Of a block with no more rows, all columns are decoded by the calling thread: others cost more than they gain."""

_READ_AT_ONCE: Final = 8 << 20
"""Bytes of a block that is read whole, and not column by column."""


def parquet_block(
    instant: str,
    records: Iterable[pa.RecordBatch],
    schema: str,
    compression: str = _CODEC,
    base_rows: BaseRows | None = None,
) -> bytes:
    """A block of records.

    Decimals are byte arrays of the schema's size. Hudi 0.15 reads no others; Spark's writer in later releases makes integers of
    small decimals. There are no dictionaries: compression finds repeated values too, and the blocks of small batches are
    smaller and faster to read without.

    Args:
        instant: of the commit.
        records: batches with the columns and types that the schema has, meta columns included.
        schema: Avro schema of the records.
        compression: Parquet codec; by default Hudi's.
        base_rows: the positions of the records in the base file; None if they are not known.

    Raises:
        CorruptTableError: the schema is none.
        InvalidInputError: a batch has other columns, or a null where the schema has none.
    """
    columns = from_avro(schema)
    content = io.BytesIO()
    with pq.ParquetWriter(
        content, columns, compression=compression, store_schema=False, write_page_checksum=True, use_dictionary=False
    ) as writer:
        for batch in records:
            writer.write_batch(require_columns(batch, columns))
        writer.add_key_value_metadata({**CALENDAR, **({} if base_rows is None else base_rows.to_footer())})
    return encode_block(BlockKind.PARQUET, {Header.INSTANT: instant, Header.SCHEMA: schema}, content.getvalue())


def parquet_records(
    block: LogBlock, wanted: Callable[[pa.Schema], Sequence[str]] | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a block, in its order.

    Args:
        block: of the kind ``PARQUET``.
        wanted: names the columns to read, of those that the block has; by default all are read. At least one is.

    Yields:
        Batches of at most 32,768 records with the columns of the file.

    Raises:
        CorruptTableError: the content is damaged.
    """
    try:
        source = pa.BufferReader(block.content()) if block.size <= _READ_AT_ONCE else block.open()
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            stored = file.schema_arrow
            names = stored.names if wanted is None else [name for name in wanted(stored) if name in stored.names]
            # Each column once, and one in any case: without one, nothing would say how many records there are.
            columns = [name for name in stored.names if name in names] or stored.names[:1]
            if file.metadata.num_rows <= _BATCH_ROWS:
                # An iterator takes longer for few rows.
                yield from file.read(columns=columns, use_threads=False).combine_chunks().to_batches()
            else:
                yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(f"a block of records cannot be read as Parquet ({error})") from error
