"""Delta Lake and Apache Iceberg: upserts by MERGE, which joins the batch with the table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

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
    """A table of Delta Lake."""

    @property
    def _table(self) -> str:
        return f"delta.`{self.folder}`"

    def load(self, rows: DataFrame) -> None:
        rows.repartition(PARTITION).write.format("delta").partitionBy(PARTITION).save(str(self.folder))

    def look_up(self, keys: Sequence[str]) -> int:
        return len(self.read().where(sql.col(KEY).isin(*keys)).select(PARTITION, "_metadata.file_path").collect())

    def read(self) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.folder))


class Iceberg(_Merging):
    """A table of Apache Iceberg."""

    @property
    def _table(self) -> str:
        return f"{_CATALOG}.`{self.folder.name}`"

    def load(self, rows: DataFrame) -> None:
        rows.repartition(PARTITION).writeTo(self._table).partitionedBy(sql.col(PARTITION)).create()

    def look_up(self, keys: Sequence[str]) -> int:
        return len(self.read().where(sql.col(KEY).isin(*keys)).select(PARTITION, "_file").collect())

    def read(self) -> DataFrame:
        return self.spark.read.table(self._table)
