"""Pending commits of Hudi's processes on a table in an S3 server: left alone while their heartbeats are fresh, else rolled back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import obstore
import pyarrow as pa
import pytest

from rli import Table, open_table
from rli.hudi.timeline.instant import Action
from rli.publication.instants import TableInstant
from rli.storage import Storage
from rli.table.table import opened_table
from tests.support.object_store import ObjectStore, locked_table
from tests.support.waiting import eventually

pytestmark = pytest.mark.invariant("P55")

ROWS = pa.table({"id": ["a", "b"], "city": ["Rome", "Oslo"], "ts": [1, 1]})
QUICK = b"\nhoodie.client.heartbeat.interval_in_ms=500\n"


@pytest.fixture
def table(object_store: ObjectStore) -> Iterator[Table]:
    table = locked_table(object_store)
    table.upsert(ROWS)
    yield table
    table.close()


def storage_of(table: Table) -> Storage:
    return opened_table(table).definition.storage


def dead_write(table: Table) -> str:
    """A pending commit of Hudi with a base file and a heartbeat of now; returns its instant."""
    storage = storage_of(table)
    pending = TableInstant(opened_table(table).definition, str(int(table.timeline()[-1].time) + 1), Action.COMMIT)
    assert pending.request()
    pending.begin()
    [written] = [file for file in storage.list_files("Rome") if file.name.endswith(".parquet")]
    content = storage.read_bytes(written.path)
    assert content is not None
    storage.write_bytes(f"Rome/{written.name.split('_')[0]}_9-9-9_{pending.time}.parquet", content)
    storage.write_bytes(f".hoodie/.heartbeat/{pending.time}", b"")
    return pending.time


def files_of(table: Table, instant: str) -> list[str]:
    return [file.path for file in storage_of(table).list_files(recursive=True) if instant in file.name]


def with_quick_heartbeats(table: Table, options: dict[str, str]) -> Table:
    storage = storage_of(table)
    content = storage.read_bytes(".hoodie/hoodie.properties")
    assert content is not None
    storage.write_bytes(".hoodie/hoodie.properties", content + QUICK)
    return open_table(table.location, storage_options=options)


def test_dead_write_is_rolled_back(table: Table, object_store: ObjectStore) -> None:
    dead = dead_write(table)
    table.clean()
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == [dead]
    with with_quick_heartbeats(table, object_store.options) as other:

        def clean() -> bool:
            other.clean()
            return all(instant.is_completed for instant in other.timeline())

        eventually(clean, "the heartbeat counts as old")
        assert [instant.action for instant in other.timeline()] == ["commit", "rollback"]
        assert [path for path in files_of(other, dead) if not path.endswith(".rollback")] == []
        assert other.upsert(ROWS.set_column(2, "ts", [[2, 2]])).updated == 2
        assert other.read().num_rows == 2


def test_fast_clock_ends_no_living_write(
    table: Table, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = dead_write(table)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 600)
    table.clean()
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == [pending]
    bucket = table.location.removeprefix("s3://").partition("/")[0]
    left = obstore.list(object_store.client(bucket), "t/.hoodie").collect()
    assert [found["path"] for found in left if "clock" in found["path"]] == []


def test_plans_name_no_scheme(table: Table) -> None:
    """Hudi's jobs may name the bucket by ``s3a``: they take a path without a scheme for one on the table's own file system."""
    for ts in (2, 3):
        table.upsert(ROWS.set_column(2, "ts", [[ts, ts]]))
    table.clean(keep_commits=1)
    [clean] = [instant for instant in table.timeline() if instant.action == "clean"]
    plan = storage_of(table).read_bytes(f".hoodie/{clean.time}.clean.requested")
    assert plan is not None
    assert b"/t/Rome/" in plan
    assert b"s3" not in plan.replace(b"clean.requested", b"")
    bucket = table.location.removeprefix("s3://").partition("/")[0]
    assert bucket.encode() not in plan
