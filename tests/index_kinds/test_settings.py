"""Creating, opening and changing tables of each kind of index."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import CommitResult, IndexMismatchError, LeasePlace, SettingsError, Step, create_table, open_table
from rli.table.table import opened_table
from tests.support.index_kinds import KINDS, Kind, stored_rows, with_metadata_kinds
from tests.support.leased_tables import leased_by_the_table
from tests.support.tables import check_stored, records


@with_metadata_kinds
def test_a_table_remembers_its_kind(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0)))
        location = table.location
    with open_table(location) as table:
        assert table.index.scope is kind.scope
        assert table.upsert(records(("a", "x", 2, 2.0))).updated == 1
        assert table.index.stats().entries == 1
        assert table.index.stats().scope is kind.scope


@pytest.mark.parametrize(
    ("index", "settings", "message"),
    [
        ("simple:?x=1", {}, "write simple:"),
        ("global-simple://here", {}, "write global-simple:"),
        ("simple:", {"shards": 3}, "keeps no entries.*shards=3"),
        ("simple:", {"key_mode": "digest"}, "keeps no entries.*key_mode=digest"),
        ("simple:", {"lease": "index"}, "no store in which writers could agree"),
    ],
)
def test_storeless_kind_refuses_store_settings(
    tmp_path: Path, index: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        create_table(tmp_path / "t", record_key="id", index=index, **settings)  # type: ignore[arg-type]
    assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()


def test_lease_moves_with_index_kind(tmp_path: Path) -> None:
    table = KINDS["record"].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    assert table.bootstrap_index("global-simple:") == 2
    with open_table(table.location) as again:
        assert (again.index.stats().kind, again.settings.lease) == ("global-simple", LeasePlace.TABLE)
        assert again.upsert(records(("a", "y", 2, 2.0))).moved == 1
        assert again.bootstrap_index(f"lmdb://{tmp_path}/other") == 2
    with open_table(table.location) as again:
        assert (again.index.stats().kind, again.settings.lease) == ("record", LeasePlace.TABLE)
        assert again.upsert(records(("b", "y", 2, 2.0))).moved == 1
        assert stored_rows(again) == {("a", "y", 2, 2.0), ("b", "y", 2, 2.0)}
        check_stored(again)


def test_writers_sharing_store_refuse_other_kind(tmp_path: Path) -> None:
    table = KINDS["record"].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0)))
    with open_table(table.location, index="global-simple:") as other:
        assert other.lookup(["a"])["partition_path"].to_pylist() == ["x"]
        with pytest.raises(SettingsError, match="open the table without another index"):
            other.upsert(records(("b", "x", 1, 1.0)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("record", "global-simple:"),
        ("record", "lmdb://{folder}/other"),
        ("global-simple", "simple:"),
        ("bucket", "simple:"),
        ("bucket", "bucket:?buckets=4&fields=id"),
    ],
)
def test_open_table_switches_to_new_index(tmp_path: Path, before: str, after: str) -> None:
    table = KINDS[before].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0)))
    with open_table(table.location) as former:
        assert former.lookup(["a"])["partition_path"].to_pylist() == ["x"]
        table.bootstrap_index(after.format(folder=tmp_path))
        assert former.upsert(records(("k", "y", 1, 1.0))).inserted == 1
        assert former.settings == table.settings
        former.rollback("last")
    with open_table(table.location) as again:
        assert again.upsert(records(("k", "x", 1, 1.0))).inserted == 1
    assert stored_rows(table) == {("a", "x", 1, 1.0), ("k", "x", 1, 1.0)}


@pytest.mark.parametrize(
    ("before", "after"),
    [("record", "global-simple:"), ("record", "lmdb://{folder}/other"), ("global-simple", "simple:")],
)
def test_handle_with_own_index_stops_writing(tmp_path: Path, before: str, after: str) -> None:
    """These writers agree in another place, or on another scope: two of them could insert one key."""
    table = KINDS[before].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0)))
    with open_table(table.location, index=KINDS[before].url.format(folder=tmp_path)) as former:
        assert former.lookup(["a"])["partition_path"].to_pylist() == ["x"]
        table.bootstrap_index(after.format(folder=tmp_path))
        for write in (lambda: former.upsert(records(("k", "y", 1, 1.0))), lambda: former.rollback("last")):
            with pytest.raises(IndexMismatchError, match="open the table again"):
                write()
    assert stored_rows(table) == {("a", "x", 1, 1.0)}


@pytest.mark.parametrize("step", [Step.TAGGED, Step.LEASED, Step.PROMOTED])
def test_running_write_restarts_with_new_index(tmp_path: Path, step: Step) -> None:
    table = KINDS["record"].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0)))
    rivals: list[CommitResult] = []

    def change_the_kind(reached: Step) -> None:
        if reached is step and not rivals:
            with open_table(table.location) as other:
                other.bootstrap_index("global-simple:")
                rivals.append(other.upsert(records(("k", "y", 1, 1.0))))

    assert table.upsert(records(("k", "x", 2, 2.0)), on_step=change_the_kind).moved == 1
    assert len(rivals) == 1
    assert opened_table(table).index.kind == "global-simple"
    assert stored_rows(table) == {("a", "x", 1, 1.0), ("k", "x", 2, 2.0)}
    check_stored(table)


def test_hosts_continue_when_index_moves(tmp_path: Path) -> None:
    table, other = leased_by_the_table(tmp_path)
    table.bootstrap_index(f"lmdb://{tmp_path}/moved")
    assert other.upsert(records(("a", "x", 1, 1.0))).inserted == 1
    assert table.upsert(records(("a", "y", 2, 2.0))).moved == 1
    assert stored_rows(other) == {("a", "y", 2, 2.0)}
