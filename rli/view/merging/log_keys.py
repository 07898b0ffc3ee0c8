"""The record keys in a log file that rli wrote, of records and of deletes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rli.hudi.log_file import delete_records
from rli.hudi.log_file.avro_block import avro_records
from rli.hudi.log_file.delete_records import deleted_records
from rli.hudi.log_file.form import BlockKind
from rli.hudi.log_file.parquet_block import parquet_records
from rli.hudi.log_file.reader import LogFileReader
from rli.hudi.meta_columns import RECORD_KEY
from rli.storage import Storage
from rli.view.file_slices import DataFile


def log_keys(storage: Storage, file: DataFile) -> Iterator[pa.Array]:
    """The record keys in a log file, in batches.

    Args:
        storage: of the table.
        file: the log file, with records that have meta columns.

    Raises:
        CorruptTableError: it is damaged.
    """
    with storage.filesystem.open_input_file(storage.full_path(file.path)) as source:
        for block in LogFileReader(source, file.size).blocks():
            if block.kind is BlockKind.DELETE:
                for batch in deleted_records(block):
                    yield batch[delete_records.RECORD_KEY]
            else:
                records = avro_records(block) if block.kind is BlockKind.AVRO else parquet_records(block)
                for batch in records:
                    yield batch[RECORD_KEY]
