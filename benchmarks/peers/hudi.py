"""Apache Hudi with each of its index types, set as its users on one small machine would set it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks.peers.engines import KEY, ORDERING, PARTITION, Engine

_TABLE: Final = "peer"

OPTIONS: Final[Mapping[str, str]] = {
    "hoodie.table.name": _TABLE,
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.datasource.write.precombine.field": ORDERING,
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.parquet.compression.codec": "zstd",
    # What an upsert of rli does not do either.
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.bulkinsert.shuffle.parallelism": "4",
    "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.delete.shuffle.parallelism": "4",
    "hoodie.bloom.index.parallelism": "4",
    "hoodie.simple.index.parallelism": "4",
    "hoodie.global.simple.index.parallelism": "4",
}

_RECORD_INDEX: Final[Mapping[str, str]] = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "4",
    "hoodie.record.index.update.partition.path": "true",
}

HBASE: Final = "HBASE"
"""The engine that needs a server."""

COPY_ON_WRITE: Final[Mapping[str, Mapping[str, str]]] = {
    "RECORD_INDEX": _RECORD_INDEX,
    "GLOBAL_SIMPLE": {"hoodie.simple.index.update.partition.path": "true"},
    "GLOBAL_BLOOM": {"hoodie.bloom.index.update.partition.path": "true"},
    "SIMPLE": {},
    "BLOOM": {},
    "BUCKET": {"hoodie.bucket.index.num.buckets": "1"},
    HBASE: {
        # Rows that are written as they are do not get into this index.
        "hoodie.datasource.write.row.writer.enable": "false",
        # So many are put in each second.
        "hoodie.index.hbase.put.batch.size": "100000",
        "hoodie.index.hbase.get.batch.size": "10000",
    },
}
"""Options of copy-on-write tables, by the name of the engine."""

_BLOOM: Final[Mapping[str, str]] = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.bloom.index.use.metadata": "true",
    "hoodie.bloom.index.update.partition.path": "true",
}

BY_METADATA: Final[Mapping[str, Mapping[str, str]]] = {
    f"{index} by metadata": {**_BLOOM, "hoodie.index.type": index} for index in ("BLOOM", "GLOBAL_BLOOM")
}
"""Options of copy-on-write tables whose metadata table has the ranges of keys and the bloom filters of all files."""

CONSISTENT_HASHING: Final = "CONSISTENT_HASHING"
"""The bucket index whose buckets are split and merged; it refuses copy-on-write tables."""

_LOGGING: Final[Mapping[str, str]] = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
}

MERGE_ON_READ: Final[Mapping[str, Mapping[str, str]]] = {
    "RECORD_INDEX merge-on-read": {**_LOGGING, **_RECORD_INDEX, "hoodie.index.type": "RECORD_INDEX"},
    CONSISTENT_HASHING: {
        **_LOGGING,
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": CONSISTENT_HASHING,
        "hoodie.bucket.index.num.buckets": "1",
    },
}
"""The same of merge-on-read tables, which nothing compacts."""

_TAGGING: Final = f"Building workload profile:{_TABLE}"
"""How Hudi describes the job, after the name of a class; it has another one for its metadata table."""

_READING: Final[Mapping[str, str]] = {
    "hoodie.metadata.enable": "true",
    "hoodie.enable.data.skipping": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
"""A query for record keys reads the files that the record index names, where there is one."""


class Hudi(Engine):
    """A table of Hudi; the name of the engine is that of the index type, and says so where the table is merge-on-read."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, options: Mapping[str, str]) -> None:
        super().__init__(spark, folder, name, options)
        of_name = {**COPY_ON_WRITE, **BY_METADATA, **MERGE_ON_READ}[name]
        self._options = {**OPTIONS, "hoodie.index.type": name, **of_name, **options}

    def load(self, rows: DataFrame) -> None:
        self._write(rows, "bulk_insert", "overwrite")

    def upsert(self, rows: DataFrame) -> float | None:
        started = time.time()
        self._write(rows, "upsert", "append")
        return self._tagged_after(started)

    def delete(self, rows: DataFrame) -> None:
        self._write(rows, "delete", "append")

    def _tagged_after(self, started: float) -> float:
        """Hudi looks the records' locations up in the job in which it counts them by location."""
        store = self.spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001  (the status of jobs has no other door)
        newest_first = store.jobsList(None).iterator()
        while newest_first.hasNext():
            job = newest_first.next()
            if job.submissionTime().get().getTime() / 1_000 < started:
                break
            if job.description().isDefined() and job.description().get().endswith(_TAGGING):
                ended: float = job.completionTime().get().getTime() / 1_000
                return ended - started
        raise LookupError(f"Hudi ran no job that it describes so: {_TAGGING}")

    def read(self) -> DataFrame:
        return self.spark.read.format("hudi").options(**_READING).load(str(self.folder))

    def _write(self, rows: DataFrame, operation: str, mode: str) -> None:
        options = {**self._options, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**options).mode(mode).save(str(self.folder))
