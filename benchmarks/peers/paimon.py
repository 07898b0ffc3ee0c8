"""Apache Paimon: a table keeps its files sorted by key, and readers merge them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from benchmarks.peers.engines import KEY, PARTITION, Engine

_CATALOG: Final = "peers"

PAIMON_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
    f"spark.sql.catalog.{_CATALOG}": "org.apache.paimon.spark.SparkCatalog",
    f"spark.sql.catalog.{_CATALOG}.warehouse": "{folder}",
}

_PROPERTIES: Final[Mapping[str, str]] = {
    # Without the partition, and with buckets that Paimon chooses: a record with a new partition value moves.
    "primary-key": KEY,
    "bucket": "-1",
    "file.format": "parquet",
    "file.compression": "zstd",
}


class Paimon(Engine):
    """A primary-key table of Apache Paimon, merge-on-read, in the mode that Paimon calls cross-partition upsert.

    Each write reads the keys of the whole table, because Paimon keeps no index of them between Spark jobs. The later
    write wins, whatever its ordering value: Paimon refuses ``sequence.field`` in this mode.
    """

    properties: ClassVar[Mapping[str, str]] = {}

    @property
    def _table(self) -> str:
        return f"{_CATALOG}.default.`{self.folder.name}`"

    def load(self, rows: DataFrame) -> None:
        writer = rows.writeTo(self._table).partitionedBy(sql.col(PARTITION))
        for name, value in {**_PROPERTIES, **self.properties}.items():
            writer = writer.tableProperty(name, value)
        writer.create()

    def upsert(self, rows: DataFrame) -> float | None:
        rows.writeTo(self._table).append()
        return None

    def delete(self, rows: DataFrame) -> None:
        rows.createOrReplaceTempView("batch")
        statement = f"DELETE FROM {self._table} WHERE {KEY} IN (SELECT {KEY} FROM batch)"  # noqa: S608  (the names are ours)
        self.spark.sql(statement)

    def read(self) -> DataFrame:
        return self.spark.read.table(self._table)

    def drop(self) -> None:
        self.spark.sql(f"DROP TABLE {self._table}")


class PaimonWithDeletionVectors(Paimon):
    """The same with deletion vectors: a write finds and marks the old rows, so readers merge nothing."""

    properties: ClassVar[Mapping[str, str]] = {"deletion-vectors.enabled": "true"}
