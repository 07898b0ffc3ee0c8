"""Blocks of records in Parquet: a whole file each."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from rli.hudi.avro_schema import from_avro
from rli.hudi.base_file_writer import CALENDAR
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header, damaged
from rli.hudi.log_file.reader import LogBlock
from rli.hudi.log_file.records_schema import require_columns

_CODEC: Final = "gzip"
"""Hudi's default for log blocks, and its default for base files."""

_BATCH_ROWS: Final = 32_768


def parquet_block(instant: str, records: Iterable[pa.RecordBatch], schema: str, compression: str = _CODEC) -> bytes:
    """A block of records.

    Decimals are byte arrays of the schema's size. Hudi 0.15 reads no others; Spark's writer in later releases makes integers of
    small decimals.

    Args:
        instant: of the commit.
        records: batches with the columns and types that the schema has, meta columns included.
        schema: Avro schema of the records.
        compression: Parquet codec; by default Hudi's.

    Raises:
        CorruptTableError: the schema is none.
        InvalidInputError: a batch has other columns, or a null where the schema has none.
    """
    columns = from_avro(schema)
    content = io.BytesIO()
    with pq.ParquetWriter(
        content, columns, compression=compression, store_schema=False, write_page_checksum=True
    ) as writer:
        for batch in records:
            writer.write_batch(require_columns(batch, columns))
        writer.add_key_value_metadata(CALENDAR)
    return encode_block(BlockKind.PARQUET, {Header.INSTANT: instant, Header.SCHEMA: schema}, content.getvalue())


def parquet_records(block: LogBlock) -> Iterator[pa.RecordBatch]:
    """The records of a block, in its order.

    Args:
        block: of the kind ``PARQUET``.

    Yields:
        Batches of at most 32,768 records with the columns of the file.

    Raises:
        CorruptTableError: the content is damaged.
    """
    try:
        with pq.ParquetFile(block.open(), page_checksum_verification=True) as file:
            yield from file.iter_batches(batch_size=_BATCH_ROWS)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(f"a block of records cannot be read as Parquet ({error})") from error
