"""Building the indexes of a table, changing and comparing them, with executors."""

from __future__ import annotations

from pyspark.sql import SparkSession

from rli import ColumnIndex, IndexHome, IndexUse, KeyMode, MigrationResult, OnRepeatedKey, Table, VerifyReport
from rli.index.contract import LOOKUP_SECONDS
from rli.table.table import opened_table
from rli_spark.session.arguments import require_session_and_table
from rli_spark.session.executors import require_reachable
from rli_spark.tasks import SparkTasks


def bootstrap_index(
    spark: SparkSession,
    table: Table,
    url: str | None = None,
    *,
    shards: int | None = None,
    key_mode: KeyMode | str = KeyMode.EXACT,
    timeout: float | None = None,
    on_duplicate: OnRepeatedKey | str = OnRepeatedKey.FAIL,
) -> int:
    """Build the index again from the table's files, a base file in each task; see ``Table.bootstrap_index``.

    The driver removes surplus records of repeated keys.
    """
    require_session_and_table(spark, table)
    return table.bootstrap_index(
        url, shards=shards, key_mode=key_mode, tasks=SparkTasks(spark), timeout=timeout, on_duplicate=on_duplicate
    )


def migrate_index(
    spark: SparkSession,
    table: Table,
    to: str,
    *,
    shards: int | None = None,
    key_mode: KeyMode | str = KeyMode.EXACT,
    drop_old: bool = False,
    timeout: float | None = None,
) -> MigrationResult:
    """Give the table another index, built and compared a base file in each task; see ``Table.migrate_index``."""
    require_session_and_table(spark, table)
    return table.migrate_index(
        to, shards=shards, key_mode=key_mode, drop_old=drop_old, tasks=SparkTasks(spark), timeout=timeout
    )


def create_index(  # noqa: PLR0913  (the choices of an index)
    spark: SparkSession,
    table: Table,
    name: str,
    on: str,
    using: IndexUse | str | None = None,
    *,
    expression: str | None = None,
    home: IndexHome | str | None = None,
    unique: bool = False,
    wait: bool = True,
    timeout: float | None = None,
) -> ColumnIndex:
    """Make an index on a column; see ``Table.create_index``. The driver builds it, from the files of the table."""
    require_session_and_table(spark, table)
    return table.create_index(
        name, on, using, expression=expression, home=home, unique=unique, wait=wait, timeout=timeout
    )


def verify_index(spark: SparkSession, table: Table, *, timeout: float = LOOKUP_SECONDS) -> VerifyReport:
    """Compare index and table, a base file or a part of the index in each task; see ``Table.verify_index``."""
    require_session_and_table(spark, table)
    require_reachable(spark, opened_table(table).refreshed()[1])
    return table.verify_index(SparkTasks(spark), timeout=timeout)
