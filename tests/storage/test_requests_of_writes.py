"""Number of requests for a small write, and for a point read, in an object store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rli import Table, create_table
from tests.support.object_store import ObjectStore
from tests.support.tables import records

pytestmark = pytest.mark.slow

_MOST_OF_WRITE: Final = 58
_MOST_OF_READ: Final = 8

Requests = Callable[[Callable[[], object]], list[str]]


@pytest.fixture
def table(object_store: ObjectStore, tmp_path: Path) -> Table:
    """Five records in as many partitions, upserted three times."""
    made = create_table(
        f"s3://{object_store.new_bucket()}/t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{tmp_path}/index",
        storage_options=object_store.options,
        maintenance=False,
    )
    for ts in range(3):
        made.upsert(records(*((f"k{number}", f"city {number}", ts, 1.0) for number in range(5))))
    return made


@pytest.fixture
def requests_of(object_store: ObjectStore) -> Requests:
    def sent_by(work: Callable[[], object]) -> list[str]:
        before = len(object_store.requests())
        work()
        return object_store.requests()[before:]

    return sent_by


def test_small_write_takes_few_requests(table: Table, requests_of: Requests) -> None:
    sent = requests_of(lambda: table.upsert(records(("k0", "city 0", 9, 1.0))))
    assert len(sent) <= _MOST_OF_WRITE, sent


def test_point_read_takes_few_requests(table: Table, requests_of: Requests) -> None:
    table.get(["k0"])
    sent = requests_of(lambda: table.get(["k0"]))
    assert len(sent) <= _MOST_OF_READ, sent
