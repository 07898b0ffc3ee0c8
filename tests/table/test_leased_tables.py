"""A table that hosts write whose indexes are their own: they meet in the table's folder alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rli import (
    ConflictError,
    IndexNotReadyError,
    LeaseLostError,
    LeasePlace,
    RliError,
    Step,
    Table,
    create_table,
    open_table,
)
from rli.commit.recovery import undo_unpublished
from rli.coordination.file_records import FileRecords
from rli.coordination.writers import writer_record
from rli.table.table import opened_table
from tests.support.indexes import record_index
from tests.support.leased_tables import leased_by_the_table
from tests.support.tables import check_stored, records, rows_of

FIRST = (("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0))


@pytest.fixture
def hosts(tmp_path: Path) -> tuple[Table, Table]:
    return leased_by_the_table(tmp_path)


def at(step: Step, action: Callable[[], object]) -> Callable[[Step], None]:
    """Does something the first time that a step is reached."""
    waiting = [action]

    def on_step(reached: Step) -> None:
        if reached is step and waiting:
            waiting.pop()()

    return on_step


def require_agreement(hosts: tuple[Table, Table]) -> None:
    for table in hosts:
        table.sync_index()
        check_stored(table)


def test_indexes_follow_other_host(hosts: tuple[Table, Table]) -> None:
    one, other = hosts
    assert one.upsert(records(*FIRST)).inserted == 3
    assert other.lookup(["a", "c", "d"]).column("partition_path").to_pylist() == ["x", "y", None]
    result = other.upsert(records(("a", "y", 2, 2.0), ("b", "x", 2, 2.0), ("d", "z", 2, 2.0)))
    assert (result.inserted, result.updated, result.moved) == (1, 1, 1)
    assert one.lookup(["a", "d"]).column("partition_path").to_pylist() == ["y", "z"]
    assert one.delete(["c", "d"]).deleted == 2
    assert [row["id"] for row in rows_of(other)] == ["a", "b"]
    require_agreement(hosts)


@pytest.mark.parametrize("step", [Step.INFLIGHT, Step.TAGGED, Step.WRITTEN])
def test_conflict_with_other_host_is_found(hosts: tuple[Table, Table], step: Step) -> None:
    one, other = hosts
    one.upsert(records(*FIRST))
    late = records(("new", "y", 2, 2.0), ("a", "x", 2, 2.0))
    rival = at(step, lambda: other.upsert(records(("new", "z", 3, 3.0))))
    assert one.upsert(late, on_step=rival).updated == 1
    assert {row["id"]: row["city"] for row in rows_of(one)} == {"a": "x", "b": "x", "c": "y", "new": "z"}
    with pytest.raises(ConflictError):
        one.upsert(
            records(("twice", "y", 2, 2.0)),
            attempts=1,
            on_step=at(step, lambda: other.upsert(records(("twice", "z", 3, 3.0)))),
        )
    require_agreement(hosts)


def test_indexes_may_number_commits_differently(hosts: tuple[Table, Table], tmp_path: Path) -> None:
    one, other = hosts
    one.upsert(records(*FIRST))
    one.upsert(records(("a", "z", 2, 2.0)))
    late = open_table(one.location, index=f"lmdb://{tmp_path}/late")
    late.bootstrap_index(shards=5)
    late.upsert(records(("b", "z", 2, 2.0)))
    assert late.index.stats().last_sequence != one.index.stats().last_sequence
    require_agreement((one, other))
    late.sync_index()
    check_stored(late)
    assert late.lookup(["a", "b"]).column("file_id") == one.lookup(["a", "b"]).column("file_id")


def test_rollback_of_other_host_is_followed(hosts: tuple[Table, Table]) -> None:
    one, other = hosts
    one.upsert(records(*FIRST))
    second = other.upsert(records(("a", "y", 2, 2.0), ("d", "z", 2, 2.0))).instant
    assert second is not None
    one.rollback(second)
    assert other.lookup(["a", "d"]).column("partition_path").to_pylist() == ["x", None]
    require_agreement(hosts)


def test_lease_and_writers_are_table_files(hosts: tuple[Table, Table]) -> None:
    one, _ = hosts
    seen: list[bool] = []

    def look() -> None:
        for shared in (FileRecords(opened_table(one).definition.storage), record_index(one).store):
            seen.extend((shared.read_control("lease") is not None, bool(shared.scan_control("writer/"))))

    one.upsert(records(*FIRST), on_step=at(Step.LEASED, look))
    assert seen == [True, True, False, False]


def test_undone_writer_with_recreated_record_stops(
    hosts: tuple[Table, Table],
) -> None:
    """A renewal that was paused may create the record again, of which nothing is left."""
    one, other = hosts

    def take_for_dead() -> None:
        shared = FileRecords(opened_table(other).definition.storage)
        [(name, content)] = shared.scan_control("writer/")
        undo_unpublished(opened_table(other).definition, name.removeprefix(writer_record("")))
        assert shared.compare_and_set(name, content, None)
        assert shared.compare_and_set(name, None, content)

    with pytest.raises(LeaseLostError, match="took this writer for dead"):
        one.upsert(records(*FIRST), attempts=1, on_step=at(Step.WRITTEN, take_for_dead))
    other.upsert(records(*FIRST))
    require_agreement(hosts)


def test_missing_host_index_is_requested(hosts: tuple[Table, Table], tmp_path: Path) -> None:
    third = open_table(hosts[0].location, index=f"lmdb://{tmp_path}/third")
    with pytest.raises(IndexNotReadyError, match="rli index bootstrap"):
        third.upsert(records(*FIRST))


@pytest.mark.parametrize(
    ("path", "settings", "named"),
    [
        ("mock:///shared/t", {"index": "memory:leased"}, "rli only reads from this storage"),
        ("t", {}, "each host needs its own index"),
        ("t", {"index": "memory:leased", "lease": "store"}, "lease"),
    ],
)
def test_unusable_lease_is_refused(tmp_path: Path, path: str, settings: dict[str, Any], named: str) -> None:
    location = path if "://" in path else tmp_path / path
    with pytest.raises(RliError, match=named):
        create_table(location, record_key="id", **{"lease": LeasePlace.TABLE, **settings})
    assert list(tmp_path.iterdir()) == []
