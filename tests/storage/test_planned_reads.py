"""Number of requests for the plan of a read in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rli import PruningStep, create_table, open_table
from tests.support.object_store import ObjectStore
from tests.support.tables import records

_MOST_REQUESTS: Final = 9
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
        metadata=["files", "column_stats"],
        maintenance=False,
    ) as table:
        table.upsert(records(*((f"k{n}", f"city {n}", n, 1.0) for n in range(_CITIES))))
        assert table.metadata.compact().instant
        scan = table.scan(filters="ts = 3")
        assert scan.explain().files.pruned[PruningStep.COLUMN_STATS] == _CITIES - 1
        before = len(object_store.requests())
        assert len(table.scan(filters="ts = 3").files()) == 1
        sent = object_store.requests()[before:]
        assert len(sent) <= _MOST_REQUESTS, sent


@pytest.mark.slow
def test_bloom_index_takes_few_requests(object_store: ObjectStore) -> None:
    location = f"s3://{object_store.new_bucket()}/t"
    metadata = ["files", "column_stats", "bloom_filters"]
    files = 40

    def requests_of_lookup(metadata: list[str]) -> int:
        with open_table(location, storage_options=object_store.options) as table:
            if metadata:
                table.metadata.enable(metadata)
            before = len(object_store.requests())
            found = table.lookup(["k7", "nobody"]).column("partition_path").to_pylist()
            assert found == ["city 7", None]
            return len(object_store.requests()) - before

    with create_table(
        location,
        record_key="id",
        partition_by="city",
        ordering="ts",
        index="global-bloom:",
        storage_options=object_store.options,
        maintenance=False,
    ) as table:
        table.upsert(records(*((f"k{n}", f"city {n}", n, 1.0) for n in range(files))))
    of_footers, of_metadata = requests_of_lookup([]), requests_of_lookup(metadata)
    assert of_metadata <= of_footers / 3, (of_metadata, of_footers)


@pytest.mark.slow
def test_point_reads_list_no_files(object_store: ObjectStore, tmp_path: Path) -> None:
    with create_table(
        f"s3://{object_store.new_bucket()}/t",
        record_key="id",
        index=f"lmdb://{tmp_path}/index",
        storage_options=object_store.options,
        target_file_size=1024,
        small_file_size=0,
        maintenance=False,
    ) as table:
        table.upsert(records(*((f"k{number}", "x", number, 1.0) for number in range(100))))
        assert len(table.scan().files()) > 1
        for is_known in (False, True):
            before = len(object_store.requests())
            assert table.get(["k7"])["ts"].to_pylist() == [7]
            listings = [sent for sent in object_store.requests()[before:] if "list-type" in sent]
            assert all(".hoodie" in sent for sent in listings) is is_known, listings
