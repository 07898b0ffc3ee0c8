"""The format ``rli`` as PySpark 4 wants it. PySpark 3 cannot import this module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, ClassVar

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # type: ignore[import-not-found]
from pyspark.sql.types import StructType

from rli.errors import InvalidInputError, SettingsError
from rli_spark.session.batches import arrow_schema_of, spark_schema
from rli_spark.session.running_task import begin_task
from rli_spark.sources.options import SourceOptions
from rli_spark.sources.plans import parts_of, rows_of, schema_of
from rli_spark.sources.stream import ChangesStream


class Source(DataSource):  # type: ignore[misc]
    """A table. ``source_for`` makes the class that a session registers.

    Attributes:
        cores: how many tasks the session runs at a time.
        pushes_filters: whether the session gives filters to Python data sources.
    """

    cores: ClassVar[int] = 1
    pushes_filters: ClassVar[bool] = False
    options: Mapping[str, str]

    @classmethod
    def name(cls) -> str:
        """Of the format."""
        return "rli"

    def schema(self) -> StructType:
        """Of the view."""
        return spark_schema(schema_of(SourceOptions.of(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the view."""
        options = SourceOptions.of(self.options)
        if options.max_commits_per_batch is not None:
            raise InvalidInputError(
                f"only a stream has batches: max_commits_per_batch={options.max_commits_per_batch}",
                remedy="use spark.readStream, or leave it out",
            )
        kind = FilteringReader if self.pushes_filters else Reader
        return kind(options, schema, self.cores)

    def streamReader(self, schema: StructType) -> ChangesStream:  # noqa: N802  (Spark's name)
        """Follows the view ``changes``."""
        options = SourceOptions.of(self.options)
        if find_spec("pyspark.sql.streaming.datasource") is not None:
            from rli_spark.sources.limited_stream import LimitedStream  # noqa: PLC0415  (PySpark before 4.2 cannot import it)

            return LimitedStream(options, schema, self.cores)
        if options.max_commits_per_batch is not None:
            raise SettingsError(
                f"this release of PySpark does not limit batches of Python sources: pyspark={pyspark.__version__}",
                remedy="leave max_commits_per_batch out, or install PySpark 4.2 or later",
            )
        return ChangesStream(options, schema, self.cores)


def source_for(cores: int, *, pushes_filters: bool) -> type[Source]:
    """The source of a session; see ``Source``."""
    return type("RliSource", (Source,), {"cores": cores, "pushes_filters": pushes_filters})


class Reader(DataSourceReader):  # type: ignore[misc]
    """Reads a view, in tasks that have about the same work.

    Args:
        options: say which one.
        schema: that Spark wants.
        cores: how many tasks run at a time.
    """

    def __init__(self, options: SourceOptions, schema: StructType, cores: int) -> None:
        self._options = options
        self._schema = arrow_schema_of(schema)
        self._cores = cores
        self._pushed: list[Any] = []

    def partitions(self) -> list[InputPartition]:
        """A part of the view for each task."""
        return [InputPartition(part) for part in parts_of(self._options, self._schema.names, self._pushed, self._cores)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part; of none, where Spark asks for the only part of an empty view."""
        begin_task()
        if partition.value is not None:
            yield from rows_of(partition.value, self._schema)


class FilteringReader(Reader):
    """Also passes over files and rows by Spark's filters, which Spark tests again."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802  (Spark's name)
        """Take filters; Spark is told to test all of them."""
        self._pushed = filters
        return filters
