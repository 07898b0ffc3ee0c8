"""Pending commits of Hudi's processes on a table in an S3 server: left alone while their heartbeats are fresh, else rolled back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import obstore
import pyarrow as pa
import pytest

from rli import Table, open_table
from rli.hudi.timeline.clean_metadata import CleanPlan
from rli.hudi.timeline.instant import Action
from rli.publication.instants import TableInstant
from rli.storage import Storage
from rli.storage.probes import Probes
from rli.table.table import opened_table
from tests.support.object_store import ObjectStore, locked_table
from tests.support.requests import at_requests
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


def probes_of(table: Table, store: ObjectStore) -> list[str]:
    bucket = table.location.removeprefix("s3://").partition("/")[0]
    stored = obstore.list(store.client(bucket), "t/.hoodie").collect()
    return [found["path"] for found in stored if found["path"].endswith(".tmp")]


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
    assert probes_of(table, object_store) == []


@pytest.mark.invariant("P55")
def test_clean_removes_probes_of_killed(
    table: Table, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(request: str) -> None:
        raise InterruptedError(request)

    with open_table(table.location, storage_options=object_store.options) as killed:
        with at_requests(die, ["head"]), at_requests(die, ["delete"]), pytest.raises(InterruptedError):
            storage_of(killed).has_passed(".hoodie", 0.0)
        with at_requests(die, ["delete"]), pytest.raises(InterruptedError):
            killed.upsert(ROWS)
    left = probes_of(table, object_store)
    assert len(left) == 2
    table.clean()
    # Another process may be about to look at it.
    assert probes_of(table, object_store) == left
    now = Probes.now
    monkeypatch.setattr(Probes, "now", lambda probes: now(probes) + 3700)
    table.clean()
    assert probes_of(table, object_store) == []


def test_dry_runs_write_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although a clean of Hudi is pending, and only the clocks tell whether its process lives."""
    last = table.timeline()[-1].time
    plan = CleanPlan(last, "commit", last, {}).to_avro()
    storage_of(table).write_bytes(f".hoodie/{int(last) + 1}.clean.requested", plan)
    changes: list[str] = []
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 90_000)
    with at_requests(changes.append, ["put", "copy", "delete"]):
        table.archive(keep_commits=1, dry_run=True)
        table.clean(keep_commits=1, dry_run=True)
    assert changes == []


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
