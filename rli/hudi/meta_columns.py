"""Hudi's five meta columns, which stand first in every base file."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from rli.errors import SchemaError

COMMIT_TIME: Final = "_hoodie_commit_time"
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
FILE_NAME: Final = "_hoodie_file_name"

META_COLUMNS: Final = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)

IS_DELETED: Final = "_hoodie_is_deleted"
"""No meta column: a column of records by which Hudi's writers, and rli, know those that are to be deleted."""

RESERVED_PREFIX: Final = "_hoodie_"

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


def without_meta_columns(schema: pa.Schema) -> pa.Schema:
    """The schema of the records in a base file of ``schema``."""
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])


def require_no_reserved_columns(schema: pa.Schema) -> None:
    """Raise ``SchemaError`` if records have columns with names of Hudi's, or a mark of deletes that is not boolean."""
    reserved = [name for name in schema.names if name.casefold().startswith(RESERVED_PREFIX) and name != IS_DELETED]
    if reserved:
        meta = [name for name in reserved if name in META_COLUMNS]
        remedy = (
            "these are meta columns of records that were read from a table of Hudi's: drop them before you write"
            if meta == reserved
            else "rename these columns, or drop them"
        )
        raise SchemaError(f"records have columns with names that Hudi reserves: columns={reserved}", remedy=remedy)
    if IS_DELETED in schema.names:
        kind = schema.field(IS_DELETED).type
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise SchemaError(
                f"the column that marks deletes is not boolean: column={IS_DELETED} type={kind}",
                remedy="cast it to boolean",
            )
