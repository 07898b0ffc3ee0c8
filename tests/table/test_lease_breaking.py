"""Forged and damaged records of writers are clear errors, and an operator takes the lease from any holder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rli import CorruptIndexError, LeaseLostError, LeasePlace, Step, Table, create_table
from rli.commit.lease_breaking import break_lease, lease_holder
from rli.coordination.shared_records import SharedRecords, shared_records
from rli.processes import ProcessId
from rli.table.table import opened_table
from tests.support.leased_tables import leased_by_the_table
from tests.support.tables import check_stored, commit_version, records, rows_of

HERE = ProcessId.current().host


def forged(**fields: Any) -> bytes:
    holding = {"writer": "w", "host": "h", "pid": 1, "started": "", "expiresAt": 0, "seconds": 0.1, "displaced": []}
    return json.dumps({**holding, **fields}).encode()


DAMAGED = {
    "garbage": b"garbage",
    "no fields": b"{}",
    "text for seconds": forged(seconds="x"),
    "text for a process": forged(host=HERE, pid="x"),
    "a process beyond all numbers": forged(host=HERE, pid=2**70),
    "a number among the displaced": forged(displaced=[1]),
    "a lease of ages": forged(seconds=1e18, expiresAt=1e18),
    "no term": forged(seconds=0),
    "not a number": forged().replace(b"0.1", b"NaN"),
    "deep": b"[" * 100_000,
}


@pytest.fixture(params=["index", "table"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """A table with a commit, for each place of the lease."""
    index = f"lmdb://{tmp_path}/index"
    made = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=index, lease=request.param
    )
    commit_version(made, 1)
    return made


def records_of(table: Table) -> SharedRecords:
    return shared_records(opened_table(table).definition, opened_table(table).index)


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_lease_requires_breaking(table: Table, content: bytes) -> None:
    assert records_of(table).compare_and_set("lease", None, content)
    with pytest.raises(CorruptIndexError, match="rli lease break"):
        commit_version(table, 2)

    holder = break_lease(opened_table(table).definition, opened_table(table).index)

    assert holder is not None
    assert holder.damage is not None
    assert lease_holder(opened_table(table).definition, opened_table(table).index) is None
    assert commit_version(table, 2)
    check_stored(table)


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_writer_record_requires_breaking(table: Table, content: bytes) -> None:
    assert records_of(table).compare_and_set("writer/20200101000000000", None, content)
    with pytest.raises(CorruptIndexError, match="rli lease break"):
        commit_version(table, 2)

    break_lease(opened_table(table).definition, opened_table(table).index)

    assert commit_version(table, 2)
    check_stored(table)


def at(step: Step, action: Callable[[], object]) -> Callable[[Step], None]:
    waiting = [action]

    def on_step(reached: Step) -> None:
        if reached is step and waiting:
            waiting.pop()()

    return on_step


@pytest.mark.parametrize("step", [Step.LEASED, Step.FILE_PROMOTED, Step.PROMOTED])
def test_writer_without_lease_publishes_nothing(table: Table, step: Step) -> None:
    before = rows_of(table)

    def break_in() -> None:
        held = break_lease(opened_table(table).definition, opened_table(table).index)
        assert held is not None
        assert held.pid == ProcessId.current().pid

    with pytest.raises(LeaseLostError):
        table.upsert(records(("a", "z", 9, 9.0), ("new", "z", 9, 9.0)), attempts=1, on_step=at(step, break_in))

    assert rows_of(table) == before
    assert commit_version(table, 2)
    check_stored(table)


@pytest.mark.parametrize("step", [Step.PUBLISHED, Step.REGISTERED, Step.APPLIED])
def test_published_commit_survives_broken_lease(table: Table, step: Step) -> None:
    result = table.upsert(
        records(("new", "z", 9, 9.0)),
        on_step=at(step, lambda: break_lease(opened_table(table).definition, opened_table(table).index)),
    )
    assert result.inserted == 1
    assert [row["city"] for row in rows_of(table) if row["id"] == "new"] == ["z"]
    check_stored(table)


def test_lease_is_held_until_commit_applied(table: Table) -> None:
    """The next holder finds the commit applied. Hosts with an index each do not wait for that of another one."""
    is_held: list[bool] = []

    def look(reached: Step) -> None:
        if reached in {Step.CHANGES_APPLIED, Step.APPLIED}:
            is_held.append(lease_holder(opened_table(table).definition, opened_table(table).index) is not None)

    table.upsert(records(("new", "z", 9, 9.0)), on_step=look)
    assert is_held == [table.settings.lease is LeasePlace.INDEX, False]


def test_breaking_a_free_lease_changes_nothing(table: Table) -> None:
    assert break_lease(opened_table(table).definition, opened_table(table).index) is None
    assert commit_version(table, 2)


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_request_requires_breaking(table: Table, content: bytes) -> None:
    assert records_of(table).compare_and_set(f"request/{'0' * 32}", None, content)
    with pytest.raises(CorruptIndexError, match="rli lease break"):
        commit_version(table, 2)

    break_lease(opened_table(table).definition, opened_table(table).index)

    assert commit_version(table, 2)


TORN = b'{"partitionToWriteStats": {}}'


def make_older_than_machine(records: Path) -> None:
    for path in records.rglob("*"):
        os.utime(path, (0, 0))


@pytest.mark.invariant("P17")
@pytest.mark.parametrize("name", ["lease", "writer/20200101000000000", f"request/{'0' * 32}"])
def test_torn_record_belongs_to_dead_process(tmp_path: Path, name: str) -> None:
    """Records in files: nothing else has content that may be older than the machine's start."""
    table, other = leased_by_the_table(tmp_path)
    commit_version(table, 1)
    assert records_of(table).compare_and_set(name, None, TORN)
    make_older_than_machine(tmp_path / "t/.hoodie/.rli/records")

    holder = lease_holder(opened_table(table).definition, opened_table(table).index)
    assert holder is None or holder.damage is None
    assert commit_version(table, 2)
    assert commit_version(other, 3)
    check_stored(table)


@pytest.mark.invariant("P4")
@pytest.mark.parametrize("step", [Step.LEASED, Step.FILE_PROMOTED, Step.PROMOTED])
def test_writer_of_torn_lease_publishes_nothing(tmp_path: Path, step: Step) -> None:
    table, other = leased_by_the_table(tmp_path)
    commit_version(table, 1)
    before = rows_of(table)
    folder = tmp_path / "t/.hoodie/.rli/records"

    def tear() -> None:
        max(folder.glob("lease.*"), key=lambda path: int(path.suffix[1:])).write_bytes(TORN)
        make_older_than_machine(folder)
        assert other.upsert(records(("other", "z", 1, 1.0))).inserted == 1

    with pytest.raises(LeaseLostError):
        table.upsert(records(("a", "z", 9, 9.0), ("new", "z", 9, 9.0)), attempts=1, on_step=at(step, tear))

    assert [row for row in rows_of(table) if row["id"] != "other"] == before
    assert commit_version(table, 2)
    check_stored(table)
