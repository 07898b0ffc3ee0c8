"""Number of requests for the plan of a read in an object store."""

from __future__ import annotations

from typing import Final

import pytest

from rli import PruningStep, create_table
from tests.support.object_store import ObjectStore
from tests.support.tables import records

_MOST_REQUESTS: Final = 10
_CITIES: Final = 5


@pytest.mark.slow
def test_planned_read_takes_few_requests(object_store: ObjectStore) -> None:
    with create_table(
        f"s3://{object_store.new_bucket()}/t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index="simple:",
        storage_options=object_store.options,
        metadata=["files", "column_stats", "partition_stats"],
        maintenance=False,
    ) as table:
        table.upsert(records(*((f"k{n}", f"city {n}", n, 1.0) for n in range(_CITIES))))
        assert table.metadata.compact().instant
        scan = table.scan(filters="ts = 3")
        assert scan.explain().files.pruned[PruningStep.PARTITION_STATS] == _CITIES - 1
        before = len(object_store.requests())
        assert len(table.scan(filters="ts = 3").files()) == 1
        sent = object_store.requests()[before:]
        assert len(sent) <= _MOST_REQUESTS, sent
