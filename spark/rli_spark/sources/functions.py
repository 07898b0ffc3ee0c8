"""Functions of SQL: look-ups by record key, as a table function."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Row, SparkSession

import rli
from rli.errors import InvalidInputError
from rli_spark.session.connect import is_connect
from rli_spark.session.logs import follow_spark
from rli_spark.session.running_task import begin_task
from rli_spark.session.workers import require_same_python

_NAME: Final = "rli_lookup"
_COLUMNS: Final = "record_key string, partition_path string, file_id string, instant_time string"
_KEYS_AT_ONCE: Final = 65_536


def register_functions(spark: SparkSession) -> None:
    """Make the table function ``rli_lookup`` known to a session, for SQL: the location of each record key.

    Its arguments are the path of a table, and a table of keys: a column with record keys or values of the only key column, or all
    record-key columns. The rows are those of ``Table.lookup``: null locations for unknown keys. Spark runs it in tasks, a batch of
    65,536 keys at a time; each batch is as of one moment.

    Args:
        spark: the session; each session registers the function for itself. PySpark 3.5 or later.

    Example:
        >>> rli_spark.register_functions(spark)  # doctest: +SKIP
        >>> spark.sql("SELECT * FROM rli_lookup('trips', TABLE(SELECT id FROM wanted))").show()  # doctest: +SKIP

    Raises:
        SettingsError: Spark's workers run another Python than the driver's.
    """
    follow_spark(spark)
    require_same_python(spark)
    # Each sort of session takes table functions of its own class.
    kinds = import_module("pyspark.sql.connect.udtf" if is_connect(spark) else "pyspark.sql.udtf")
    spark.udtf.register(_NAME, kinds.UserDefinedTableFunction(LookUp, _COLUMNS, _NAME))


class LookUp:
    """What a task does with its share of the keys: it collects rows, and looks a batch of them up at once."""

    def __init__(self) -> None:
        begin_task()
        self._table: rli.Table | None = None
        self._path: str | None = None
        self._rows: list[Row] = []

    def eval(self, path: str, keys: Row) -> Iterator[tuple[Any, ...]]:
        """Take a row of keys."""
        if self._table is None:
            self._path, self._table = path, rli.open_table(path)
        if path != self._path:
            raise InvalidInputError(
                f"the path is not the same in all rows: path={path} before={self._path}", remedy="give one string"
            )
        self._rows.append(keys)
        if len(self._rows) >= _KEYS_AT_ONCE:
            yield from self._found()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """Look the rest up."""
        if self._table is not None:
            with self._table:
                yield from self._found()

    def _found(self) -> Iterator[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        if self._table is not None and rows:
            found = self._table.lookup(_keys_of(rows))
            yield from zip(*(column.to_pylist() for column in found.columns), strict=True)


def _keys_of(rows: list[Row]) -> pa.Array | pa.Table:
    """Keys as ``Table.lookup`` takes them: values of the only column, or a table of the columns."""
    columns = {name: pa.array([row[at] for row in rows]) for at, name in enumerate(rows[0].__fields__)}
    for name, values in columns.items():
        if pa.types.is_timestamp(values.type):
            raise InvalidInputError(
                f"Spark gives times without their zone to table functions: column={name}",
                remedy="look such keys up with rli_spark.read(spark, table, keys=…), or give record keys as strings",
            )
    only = [*columns.values()]
    return only[0] if len(only) == 1 else pa.table(columns)
