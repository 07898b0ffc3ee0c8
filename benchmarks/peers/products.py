"""The products that are compared, rli first: the engines of each share a Spark of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from benchmarks.peers import merging
from benchmarks.peers.engines import RLI_INDEXES, Engine, PlainSpark, Rli
from benchmarks.peers.hudi import BY_METADATA, COPY_ON_WRITE, HBASE, MERGE_ON_READ, Hudi
from benchmarks.peers.paimon import PAIMON_SETTINGS, Paimon, PaimonWithDeletionVectors
from tests.support.spark import HUDI_SETTINGS
from tests.support.spark_packages import HUDI_BUNDLE

_DELTA: Final = "io.delta:delta-spark_2.12:3.3.2"
_ICEBERG: Final = "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0"
_PAIMON: Final = "org.apache.paimon:paimon-spark-3.5:0.9.0"


@dataclass(frozen=True, slots=True)
class Product:
    """Engines of one release, which come in one package.

    Attributes:
        package: as Spark fetches it; None where Spark and Python suffice.
        engines: by name.
        settings: of the session; ``{folder}`` stands for the folder of the tables.
        on_class_path: whether the class loader of Spark must load the package. Hudi needs that: Avro, which Spark brings,
            does not find the classes of Hudi's own records from every thread otherwise.
    """

    package: str | None
    engines: Mapping[str, type[Engine]]
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    on_class_path: bool = False


_HUDI_SETTINGS: Final = {
    **HUDI_SETTINGS,
    # Its bloom index by the metadata table sends its view of files to tasks, with the locks in it.
    "spark.driver.extraJavaOptions": "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
}


def _hudi(version: str, *engines: str) -> Product:
    package = HUDI_BUNDLE.format(version=version)
    return Product(package, dict.fromkeys(engines, Hudi), _HUDI_SETTINGS, on_class_path=True)


PRODUCTS: Final = {
    "rli": Product(None, dict.fromkeys(RLI_INDEXES, Rli)),
    "Spark": Product(None, {"anti-join and overwrite": PlainSpark}),
    "Hudi 1.2.0": _hudi("1.2.0", *(name for name in (*COPY_ON_WRITE, *BY_METADATA, *MERGE_ON_READ) if name != HBASE)),
    "Hudi 1.0.2": _hudi("1.0.2", *COPY_ON_WRITE),
    "Delta Lake 3.3.2": Product(
        _DELTA,
        {"MERGE": merging.Delta, "MERGE with deletion vectors": merging.DeltaWithDeletionVectors},
        merging.DELTA_SETTINGS,
    ),
    "Iceberg 1.10.0": Product(
        _ICEBERG,
        {"MERGE": merging.Iceberg, "MERGE merge-on-read": merging.IcebergMergeOnRead},
        merging.ICEBERG_SETTINGS,
    ),
    "Paimon 0.9.0": Product(
        _PAIMON,
        {"INSERT": Paimon, "INSERT with deletion vectors": PaimonWithDeletionVectors},
        PAIMON_SETTINGS,
    ),
}
"""Ours first."""
