"""Delta Lake and Apache Iceberg: upserts by MERGE, which joins the batch with the table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from benchmarks.peers.engines import KEY, ORDERING, PARTITION, Engine

DELTA_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

_CATALOG: Final = "peers"

ICEBERG_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    f"spark.sql.catalog.{_CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
    f"spark.sql.catalog.{_CATALOG}.type": "hadoop",
    f"spark.sql.catalog.{_CATALOG}.warehouse": "{folder}",
}


class _Merging(Engine):
    """A table that is changed by MERGE."""

    @property
    @abstractmethod
    def _table(self) -> str:
        """As SQL names it."""

    def upsert(self, rows: DataFrame) -> float | None:
        rows.createOrReplaceTempView("batch")
        self.spark.sql(
            f"MERGE INTO {self._table} t USING batch b ON t.{KEY} = b.{KEY} "
            f"WHEN MATCHED AND b.{ORDERING} >= t.{ORDERING} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        return None

    def delete(self, rows: DataFrame) -> None:
        rows.createOrReplaceTempView("batch")
        self.spark.sql(f"MERGE INTO {self._table} t USING batch b ON t.{KEY} = b.{KEY} WHEN MATCHED THEN DELETE")


class Delta(_Merging):
    """A table of Delta Lake, copy-on-write."""

    properties: ClassVar[Mapping[str, str]] = {}

    @property
    def _table(self) -> str:
        return f"delta.`{self.folder}`"

    def load(self, rows: DataFrame) -> None:
        writer = rows.repartition(PARTITION).write.format("delta").partitionBy(PARTITION)
        writer.options(**self.properties).save(str(self.folder))

    def read(self) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.folder))


class DeltaWithDeletionVectors(Delta):
    """The same with deletion vectors: changed rows are marked, and written to new files."""

    properties: ClassVar[Mapping[str, str]] = {"delta.enableDeletionVectors": "true"}


class Iceberg(_Merging):
    """A table of Apache Iceberg, copy-on-write."""

    properties: ClassVar[Mapping[str, str]] = {}

    @property
    def _table(self) -> str:
        return f"{_CATALOG}.`{self.folder.name}`"

    def load(self, rows: DataFrame) -> None:
        writer = rows.repartition(PARTITION).writeTo(self._table).partitionedBy(sql.col(PARTITION))
        for name, value in self.properties.items():
            writer = writer.tableProperty(name, value)
        writer.create()

    def read(self) -> DataFrame:
        return self.spark.read.table(self._table)

    def drop(self) -> None:
        self.spark.sql(f"DROP TABLE {self._table} PURGE")


class IcebergMergeOnRead(Iceberg):
    """The same with files of deleted positions."""

    properties: ClassVar[Mapping[str, str]] = {
        f"write.{operation}.mode": "merge-on-read" for operation in ("delete", "update", "merge")
    }
