"""Apache Hudi with each of its index types, set as its users on one small machine would set it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.peers.engines import KEY, ORDERING, PARTITION, Engine

_OPTIONS: Final[Mapping[str, str]] = {
    "hoodie.table.name": "peer",
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.datasource.write.precombine.field": ORDERING,
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.embed.timeline.server": "false",
    "hoodie.bulkinsert.shuffle.parallelism": "4",
    "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.delete.shuffle.parallelism": "4",
    "hoodie.bloom.index.parallelism": "4",
    "hoodie.simple.index.parallelism": "4",
    "hoodie.global.simple.index.parallelism": "4",
}

_BY_INDEX: Final[Mapping[str, Mapping[str, str]]] = {
    "RECORD_INDEX": {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.record.index.min.filegroup.count": "4",
        "hoodie.record.index.update.partition.path": "true",
    },
    "GLOBAL_SIMPLE": {"hoodie.simple.index.update.partition.path": "true"},
    "GLOBAL_BLOOM": {"hoodie.bloom.index.update.partition.path": "true"},
    "SIMPLE": {},
    "BLOOM": {},
    "BUCKET": {"hoodie.bucket.index.num.buckets": "1"},
    "HBASE": {"hoodie.hbase.index.update.partition.path": "true"},
}
INDEXES: Final = tuple(_BY_INDEX)

HBASE_TABLE, HBASE_FAMILY = "peer", "_s"
"""Hudi expects to find the table of its index; the family's name is fixed."""

_KEY_SCHEMA: Final = json.dumps(
    {"type": "record", "name": "keys", "fields": [{"name": name, "type": "string"} for name in (KEY, PARTITION)]}
)

_READING: Final[Mapping[str, str]] = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}


class Hudi(Engine):
    """A copy-on-write table of Hudi; the name of the engine is that of the index type."""

    tags = True

    def __init__(self, spark: SparkSession, folder: Path, name: str, options: Mapping[str, str]) -> None:
        super().__init__(spark, folder, name, options)
        self._options = {**_OPTIONS, "hoodie.index.type": name, **_BY_INDEX[name], **options}

    def load(self, rows: DataFrame) -> None:
        self._write(rows, "bulk_insert", "overwrite")

    def upsert(self, rows: DataFrame) -> None:
        self._write(rows, "upsert", "append")

    def delete(self, rows: DataFrame) -> None:
        self._write(rows, "delete", "append")

    def look_up(self, keys: Sequence[str]) -> int:
        found = self.read().where(sql.col(KEY).isin(*keys))
        return len(found.select("_hoodie_partition_path", "_hoodie_file_name", KEY).collect())

    def tag(self, rows: DataFrame) -> None:
        """Hudi's own client looks the keys up; the keys reach it as Java objects, as a write of Hudi makes them."""
        jvm = self.spark._jvm  # noqa: SLF001  (its Java API has no other door)
        assert jvm is not None
        context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(self.spark.sparkContext._jsc)  # noqa: SLF001
        options = jvm.java.util.HashMap()
        for name, value in self._options.items():
            options.put(name, value)
        builder = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
        config = builder.withPath(str(self.folder)).withSchema(_KEY_SCHEMA).withProps(options).build()
        client = jvm.org.apache.hudi.client.SparkRDDReadClient(context, config)
        keys = rows.select(sql.col(KEY).alias("recordKey"), sql.col(PARTITION).alias("partitionPath"))
        bean = jvm.org.apache.spark.sql.Encoders.bean(jvm.org.apache.hudi.common.model.HoodieKey().getClass())
        client.checkExists(getattr(keys._jdf, "as")(bean).javaRDD()).count()  # noqa: SLF001

    def read(self) -> DataFrame:
        return self.spark.read.format("hudi").options(**_READING).load(str(self.folder))

    def _write(self, rows: DataFrame, operation: str, mode: str) -> None:
        options = {**self._options, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**options).mode(mode).save(str(self.folder))


def hbase_options(zookeeper_port: int) -> dict[str, str]:
    """Options that tell Hudi where HBase is."""
    return {
        "hoodie.index.hbase.zkquorum": "localhost",
        "hoodie.index.hbase.zkport": str(zookeeper_port),
        "hoodie.index.hbase.zknode.path": "/hbase",
        "hoodie.index.hbase.table": HBASE_TABLE,
    }
