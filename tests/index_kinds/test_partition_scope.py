"""The record index with ``?scope=partition``: a key is unique in its partition, whatever the store and the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from rli import (
    CorruptTableError,
    IndexMismatchError,
    KeyMode,
    Scope,
    SettingsError,
    Table,
    create_index,
    create_table,
    open_index,
    open_table,
)
from rli.codec.entries import TOMBSTONE, pack
from rli.model import FileGroupId
from rli.view import paths
from tests.support.docker import Service
from tests.support.hbase import hbase_url, new_table
from tests.support.index_kinds import KINDS, stored_rows
from tests.support.indexes import record_index
from tests.support.leased_tables import leased_by_the_table
from tests.support.redis import redis_url
from tests.support.tables import check_stored, records

TWICE = [("k", "x", 1, 1.0), ("k", "y", 2, 2.0), ("l", "x", 1, 1.0)]
UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with a key in two partitions."""
    created = KINDS["record-partition"].create(tmp_path)
    created.upsert(records(*TWICE))
    return created


@pytest.fixture(
    params=[
        "lmdb",
        "memory",
        pytest.param("redis", marks=pytest.mark.docker),
        pytest.param("shards", marks=pytest.mark.docker),
        pytest.param("cluster", marks=pytest.mark.docker),
        pytest.param("hbase", marks=pytest.mark.docker),
    ]
)
def index_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An index of keys that are unique in their partition, in each store."""
    url = _url_of(request, tmp_path)
    yield url
    with open_index(url) as left:
        left.drop()


def _url_of(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name = uuid4().hex
    if request.param == "lmdb":
        return f"lmdb://{tmp_path}/index?scope=partition"
    if request.param == "memory":
        return f"memory:{name}?scope=partition"
    if request.param == "hbase":
        hbase: Service = request.getfixturevalue("hbase")
        return f"{hbase_url(hbase, new_table())}&scope=partition"
    if request.param == "cluster":
        cluster: Service = request.getfixturevalue("redis_cluster")
        return f"redis+cluster://{cluster.address(next(iter(cluster.ports)))}?scope=partition&name={name}"
    single = redis_url(request.getfixturevalue("redis_server"), name=name)
    return f"{single.replace('redis:', 'redis+shards:') if request.param == 'shards' else single}&scope=partition"


def url_in(table: Table) -> str:
    """URL of the store of a table's own index."""
    return table.settings.index_url.removesuffix("?scope=partition")


def test_store_keeps_key_in_each_partition(index_url: str, tmp_path: Path) -> None:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=index_url, small_file_size=0
    )
    keys = ["7", UUID_TEXT, "text", "\0", "x" * 600]
    cities = ["Oslo", "a rather long name of a city", "é" * 40]
    rows = [(key, city, 1, 1.0) for key in keys for city in cities]
    assert table.upsert(records(*rows)).inserted == 15
    assert table.upsert(records(*((*row[:2], 2, 2.0) for row in rows), ("7", "new", 1, 1.0))).updated == 15
    found = table.lookup(["7", "nobody", "7"])
    assert found["partition_path"].to_pylist() == [*sorted([*cities, "new"]), None, *sorted([*cities, "new"])]
    assert table.get([UUID_TEXT]).num_rows == 3
    assert table.delete(["7"]).deleted == 4
    assert table.insert(records(("7", "Oslo", 3, 3.0), ("text", "Oslo", 3, 3.0)), on_existing="skip").inserted == 1
    table.cluster(smaller_than=1 << 30)
    check_stored(table)
    table.rollback("last")
    check_stored(table)
    assert table.index.stats().scope is Scope.PARTITION
    table.close()
    with open_table(table.location) as again:
        assert again.lookup(["7"])["partition_path"].to_pylist() == [None]
        check_stored(again)
        assert again.bootstrap_index() == 12
        check_stored(again)


def test_index_opens_with_creation_scope(table: Table, tmp_path: Path) -> None:
    url = url_in(table)
    with pytest.raises(IndexMismatchError, match=rf"scope=partition; name it {url}\?scope=partition"):
        open_index(url)
    with open_index(f"{url}?scope=partition") as index:
        assert index.lookup(["k", "nobody"])["partition_path"].to_pylist() == ["x", "y", None]
        assert (index.url, index.scope) == (f"{url}?scope=partition", Scope.PARTITION)
    with pytest.raises(IndexMismatchError, match="another scope"):
        _ = open_table(table.location, index=url).index.url
    with KINDS["record"].create(tmp_path / "global") as other:
        other.upsert(records(*TWICE[1:]))
    with pytest.raises(IndexMismatchError, match="scope=global; name it lmdb:"):
        open_index(f"lmdb://{tmp_path}/global/index?scope=partition")


@pytest.mark.parametrize("scope", ["", "Partition", "all", "partition&scope=global"])
def test_another_scope_is_refused(tmp_path: Path, scope: str) -> None:
    with pytest.raises(SettingsError, match=r"one of global, partition: scope="):
        create_table(tmp_path / "t", record_key="id", index=f"lmdb://{tmp_path}/index?scope={scope}")
    assert not list(tmp_path.glob("**/hoodie.properties"))


def test_standalone_index_is_global(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="make the partition a part of each record key"):
        create_index(f"lmdb://{tmp_path}/index?scope=partition")
    assert not list(tmp_path.iterdir())
    with create_index(f"lmdb://{tmp_path}/index?scope=global") as index:
        assert index.scope is Scope.GLOBAL


def test_a_bootstrap_changes_the_scope(table: Table) -> None:
    url = url_in(table)
    with pytest.raises(CorruptTableError, match=r"stored more than once.*'k' in x/.*, y/"):
        table.bootstrap_index(url)
    assert table.bootstrap_index(f"{url}?scope=partition") == 3
    assert table.delete(["k"]).deleted == 2
    assert table.bootstrap_index(url) == 1
    assert table.upsert(records(("l", "y", 3, 3.0))).moved == 1
    with open_table(table.location) as again:
        assert again.index.scope is Scope.GLOBAL
        check_stored(again)


def test_open_table_writes_under_new_scope(table: Table) -> None:
    table.delete(["k"])
    with open_table(table.location) as former:
        assert former.lookup(["l"]).num_rows == 1
        table.bootstrap_index(url_in(table))
        assert former.upsert(records(("l", "y", 3, 3.0))).moved == 1
        check_stored(former)


def test_hosts_with_own_indexes_share_scope(tmp_path: Path) -> None:
    """They meet in the table, whose settings name the index of one of them."""
    table, other = leased_by_the_table(tmp_path)
    table.upsert(records(("k", "x", 1, 1.0)))
    table.bootstrap_index(f"lmdb://{tmp_path}/b?scope=partition")
    with pytest.raises(IndexMismatchError, match="open the table again"):
        other.upsert(records(("k", "y", 1, 1.0)))
    assert table.upsert(records(("k", "y", 1, 1.0))).inserted == 1


def test_global_move_is_undone_per_partition(tmp_path: Path) -> None:
    table = KINDS["record"].create(tmp_path)
    table.upsert(records(("k", "x", 1, 1.0), ("l", "x", 1, 1.0)))
    moved = table.upsert(records(("k", "y", 2, 2.0), ("new", "y", 2, 2.0)))
    assert moved.moved == 1
    table.bootstrap_index(f"lmdb://{tmp_path}/index?scope=partition")
    table.rollback(moved.instant or "")
    assert stored_rows(table) == {("k", "x", 1, 1.0), ("l", "x", 1, 1.0)}
    assert table.lookup(["k"])["partition_path"].to_pylist() == ["x"]
    check_stored(table)


@pytest.mark.parametrize("key_mode", KeyMode)
def test_wrong_partition_entries_are_repaired(tmp_path: Path, key_mode: KeyMode) -> None:
    table = KINDS["record-partition"].create(tmp_path, small_file_size=0, key_mode=key_mode)
    table.upsert(records(*TWICE))
    table.upsert(records(("m", "x", 1, 1.0)))
    index, where = record_index(table), table.lookup(["m"]).to_pylist()[0]
    log = index.log.refresh()
    other = log.dictionary.number_of(FileGroupId(where["partition_path"], where["file_id"]))
    wrong = {"x\0k": other, "y\0k": TOMBSTONE} | ({"y\0nobody": other} if key_mode is KeyMode.EXACT else {})
    index.put(pa.array(list(wrong)), pack(log.head, np.array(list(wrong.values()))))
    report = table.verify_index()
    assert (report.records, report.missing, report.misplaced, report.dangling) == (4, 1, 1, len(wrong) - 2)
    assert set(report.sample) == {key[2:] for key in wrong}
    table.repair_index()
    check_stored(table)
    assert table.lookup(["k", "nobody"])["partition_path"].to_pylist() == ["x", "y", None]


def test_index_inside_table_moves_along(table: Table, tmp_path: Path) -> None:
    table.close()
    moved = (tmp_path / "table").rename(tmp_path / "moved")
    assert str(tmp_path).encode() not in (moved / paths.SETTINGS).read_bytes()
    with open_table(moved) as again:
        assert again.index.scope is Scope.PARTITION
        assert again.upsert(records(("k", "z", 1, 1.0), ("k", "x", 2, 2.0))).updated == 1
        check_stored(again)
