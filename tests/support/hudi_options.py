"""Options for Apache Hudi's writer on tables of ours, as docs/hudi-compatibility.md tells users to set them."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.histories import Layout
from tests.support.hudi import HUDI_VERSIONS, STAY_ON_VERSION_6, HudiEngine
from tests.support.soak import FACTOR

NEWEST = HUDI_VERSIONS[0]


def with_hudi(*versions: str, in_soak: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Marks a test with the versions of Hudi that it runs with, and those that only ``make soak`` adds."""
    return pytest.mark.parametrize("engine", [*versions, *(in_soak if FACTOR > 1 else ())], indirect=True)


newest_only = with_hudi(NEWEST)

BY_RECORD_INDEX: Final = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
"""Hudi finds record keys by the record index of the metadata table."""

WITHOUT_STATISTICS: Final = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
"""By default, Hudi keeps statistics of columns in the metadata table."""


def table_options(layout: Layout, name: str = "trips") -> dict[str, str]:
    """What a writer says about a table: names and columns."""
    needs_types = len(layout.record_key) == 1 and len(layout.partition_by) > 1
    generator = "Custom" if needs_types else "Complex" if len(layout.record_key) > 1 else "Simple"
    columns = [f"{column}:SIMPLE" if needs_types else column for column in layout.partition_by]
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": ",".join(layout.record_key),
        "hoodie.datasource.write.partitionpath.field": ",".join(columns),
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": str(layout.hive_style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(layout.url_encode_partitions).lower(),
        "hoodie.datasource.write.keygenerator.class": (
            f"org.apache.hudi.keygen.{generator if layout.partition_by else 'Nonpartitioned'}KeyGenerator"
        ),
    }


def write_options(
    engine: HudiEngine, layout: Layout, operation: str = "upsert", index: str = "GLOBAL_SIMPLE"
) -> dict[str, str]:
    """Options that leave the table in the version that rli writes."""
    return {
        **table_options(layout),
        "hoodie.datasource.write.operation": operation,
        "hoodie.index.type": index,
        **(STAY_ON_VERSION_6 if engine.version.startswith("1.") else {}),
    }
