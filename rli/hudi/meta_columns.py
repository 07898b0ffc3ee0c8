"""Hudi's five meta columns, which stand first in every base file."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

COMMIT_TIME: Final = "_hoodie_commit_time"
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
FILE_NAME: Final = "_hoodie_file_name"

META_COLUMNS: Final = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)

_OF_RECORDS: Final = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY)

DISTINCT: Final = (COMMIT_SEQNO, RECORD_KEY)
"""No value of these repeats within a base file."""

MIN_RECORD_KEY: Final = "hoodie_min_record_key"
MAX_RECORD_KEY: Final = "hoodie_max_record_key"
"""Entries of a base file's footer: between which two values its record keys are."""


def with_meta_columns(schema: pa.Schema) -> pa.Schema:
    """The schema of a base file that holds records of ``schema``."""
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])


def with_record_meta_columns(schema: pa.Schema) -> pa.Schema:
    """The same without the meta columns that are equal in all records of a base file: its partition path and its name."""
    return pa.schema([*(pa.field(name, pa.string()) for name in _OF_RECORDS), *schema])


def without_meta_columns(table: pa.Table) -> pa.Table:
    """The records alone."""
    present = [name for name in META_COLUMNS if name in table.column_names]
    return table.drop_columns(present) if present else table
