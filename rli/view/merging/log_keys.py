"""The record keys in log files, of records and of deletes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from rli.hudi.log_file import delete_records
from rli.hudi.log_file.avro_block import avro_records
from rli.hudi.log_file.delete_records import deleted_records
from rli.hudi.log_file.form import BlockKind
from rli.hudi.log_file.parquet_block import parquet_records
from rli.hudi.log_file.reader import LogBlock, LogFileReader
from rli.hudi.meta_columns import RECORD_KEY
from rli.storage import Storage
from rli.view.file_slices import DataFile

_WITH_KEYS: Final = frozenset({BlockKind.AVRO, BlockKind.PARQUET, BlockKind.DELETE})


def keys_of_logs(storage: Storage, files: Iterable[DataFile]) -> pa.Array | None:
    """The record keys in some log files; None if a block tells more than keys, as that of a rollback. Arguments and errors as ``log_keys``."""
    found = [pa.array([], pa.string())]
    for file in files:
        with storage.filesystem.open_input_file(storage.full_path(file.path)) as source:
            for block in LogFileReader(source, file.size).blocks():
                if block.kind not in _WITH_KEYS:
                    return None
                found += _keys_of(block)
    return pa.concat_arrays(found)


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
            yield from _keys_of(block)


def _keys_of(block: LogBlock) -> Iterator[pa.Array]:
    if block.kind is BlockKind.DELETE:
        for batch in deleted_records(block):
            yield batch[delete_records.RECORD_KEY]
    else:
        records = avro_records(block) if block.kind is BlockKind.AVRO else parquet_records(block)
        for batch in records:
            yield batch[RECORD_KEY]
