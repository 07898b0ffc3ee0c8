"""The changes of a table as a stream of Spark. Its offsets are positions of a reader of changes, which Spark keeps in checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition  # type: ignore[import-not-found]
from pyspark.sql.types import StructType

import rli
from rli.errors import InvalidInputError
from rli_spark.session.batches import arrow_schema_of
from rli_spark.session.running_task import begin_task
from rli_spark.sources.options import SourceOptions, View
from rli_spark.sources.plans import latest_position, parts_of_changes, planned_changes, rows_of

SINCE: Final = "since"
"""Of an offset: the position."""


class ChangesStream(DataSourceStreamReader):  # type: ignore[misc]
    """Reads each change once: a batch has the commits between two positions, and a batch that Spark repeats has the same.

    Args:
        options: of the view ``changes``.
        schema: that Spark wants.
        cores: how many tasks run at a time.

    Raises:
        InvalidInputError: the options are of another view, or have an end.
    """

    def __init__(self, options: SourceOptions, schema: StructType, cores: int) -> None:
        if options.view is not View.CHANGES or options.until is not None:
            raise InvalidInputError(
                f"a stream reads all changes that come: view={options.view} until={options.until}",
                remedy='write .option("view", "changes"), and leave until out',
            )
        self._options = options
        self._schema = arrow_schema_of(schema)
        self._cores = cores

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  (Spark's name)
        """Where a query without a checkpoint begins."""
        return {SINCE: self._options.since or ""}

    def latestOffset(self) -> dict[str, str]:  # noqa: N802  (Spark's name)
        """The last commit; where a query begins, if there is none."""
        with rli.open_table(self._options.path) as table:
            return {SINCE: latest_position(table) or self._options.since or ""}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The changes between two positions in parts; raises as ``Table.changes``."""
        if start == end:
            return []
        with rli.open_table(self._options.path) as table:
            planned = planned_changes(table, self._options, start[SINCE], end[SINCE])
            return [InputPartition(part) for part in parts_of_changes(planned, self._cores)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of a part."""
        begin_task()
        yield from rows_of(partition.value, self._schema)
