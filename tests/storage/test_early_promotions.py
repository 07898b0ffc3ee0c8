"""Under the lock that writers of Hudi share, no data file is copied in an object store; a change of the table is found nevertheless."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import obstore
import pyarrow as pa
import pytest

from rli import Table, open_table
from rli.coordination.locks.storage_lock import HeldStorageLock, StorageLock
from rli.view.table_change import NATIVE_ENTRY
from tests.support.object_store import ObjectStore, locked_table

pytestmark = pytest.mark.invariant("P55")

FOLDER = "t/"


def records(*rows: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(("id", "city", "ts"), row, strict=True)) for row in rows])


@pytest.fixture
def table(object_store: ObjectStore) -> Iterator[Table]:
    table = locked_table(object_store, maintenance=False)
    table.upsert(records(("a", "Rome", 1)))
    yield table
    table.close()


@pytest.fixture
def before_publication(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens just before a write takes the lock the second time, for its publication."""
    attempt, happening, taken = StorageLock.attempt, list[Callable[[], None]](), [0]

    def happen(lock: StorageLock, require_leading: Callable[[], None]) -> HeldStorageLock | None:
        taken[0] += bool(happening)
        if happening and taken[0] > 1:
            happening.pop()()
        return attempt(lock, require_leading)

    monkeypatch.setattr(StorageLock, "attempt", happen)
    return happening


def commit_to_bring(table: Table, server: ObjectStore, rows: pa.Table) -> Callable[[], None]:
    """A commit of another engine on the present state, which comes into the table when the returned function is called."""
    bucket = table.location.removeprefix("s3://").partition("/")[0]
    copy = server.copy_of(bucket)
    with open_table(f"s3://{copy}/t", storage_options=server.options) as other:
        instant = other.upsert(rows).instant
    assert instant is not None
    source, target = server.client(copy), server.client(bucket)

    def bring() -> None:
        names = [found["path"] for found in obstore.list(source, FOLDER).collect() if "/.rli/" not in found["path"]]
        # The completed instant last.
        for name in sorted((name for name in names if instant in name), key=lambda name: name.endswith(".commit")):
            content = bytes(obstore.get(source, name).bytes())
            if name.endswith(f"{instant}.commit"):
                commit = json.loads(content)
                del commit["extraMetadata"][NATIVE_ENTRY]
                content = json.dumps(commit).encode()
            obstore.put(target, name, content)

    return bring


def test_data_files_come_before_lock(
    table: Table, object_store: ObjectStore, before_publication: list[Callable[[], None]]
) -> None:
    bucket, seen, marked = table.location.removeprefix("s3://").partition("/")[0], list[int](), list[int]()
    client = object_store.client(bucket)

    def look() -> None:
        seen.append(len(object_store.requests()))
        marked.append(len(obstore.list(client, "t/.hoodie/.temp").collect()))

    before_publication.append(look)
    result = table.upsert(records(("a", "Rome", 2), ("b", "Oslo", 2)))
    assert (result.inserted, result.updated) == (1, 1)
    copied = [
        request for request in object_store.requests()[seen[0] :] if request.startswith("PUT") and ".parquet" in request
    ]
    assert copied == []
    # If this process dies waiting for the lock, Hudi's rollback finds its files by their markers.
    assert marked == [2]
    assert obstore.list(client, "t/.hoodie/.temp").collect() == []


@pytest.mark.parametrize(("theirs", "attempts"), [(("c", "Lima", 1), 1), (("b", "Lima", 1), 2)])
def test_commit_behind_promotion_is_seen(
    table: Table,
    object_store: ObjectStore,
    before_publication: list[Callable[[], None]],
    theirs: tuple[str, str, int],
    attempts: int,
) -> None:
    before_publication.append(commit_to_bring(table, object_store, records(theirs)))
    result = table.upsert(records(("a", "Rome", 2), ("b", "Oslo", 2)))
    assert result.attempts == attempts
    keys = {"a", "b", theirs[0]}
    assert sorted(table.read(["id"])["id"].to_pylist()) == sorted(keys)
    assert table.verify_index().agrees
    bucket = table.location.removeprefix("s3://").partition("/")[0]
    left = [found["path"] for found in obstore.list(object_store.client(bucket), "t/.hoodie/.rli/work").collect()]
    assert left == []
    # The files of an attempt in conflict are gone.
    assert {instant.time for instant in table.timeline()} >= {
        found["path"].rpartition("_")[2].removesuffix(".parquet")
        for found in obstore.list(object_store.client(bucket), FOLDER).collect()
        if found["path"].endswith(".parquet") and "/.hoodie/" not in found["path"]
    }
