"""The checks of histories beside Hudi find each fault that they are for: faults planted into a real table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli import CommitResult, Table, create_table
from rli.locations import LocationUpdate
from rli.table.table import opened_table
from tests.support.at_once_checks import Outcome, Seen, Written, require_serial
from tests.support.histories import SCHEMA, Row, trip
from tests.support.indexes import record_index
from tests.support.unshared_commits import write_at_once

pytestmark = pytest.mark.invariant("P55")


def as_table(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([*rows], SCHEMA)


def instant_of(result: CommitResult) -> str:
    assert result.instant is not None
    return result.instant


@dataclass
class Past:
    """A table after some batches.

    Attributes:
        table: the table.
        first: the records before the batches.
        batches: as their writers told of them.
        readers: other readers, each by its name.
    """

    table: Table
    first: list[Row]
    batches: list[Written]
    readers: dict[str, Callable[[], pa.Table]]

    def write(self, ts: int, *keys: str) -> None:
        """Write a batch with updates of some records, and a new one."""
        rows = [trip(key, ts=ts) for key in (*keys, f"new {ts}")]
        result = self.table.upsert(as_table(*rows))
        self.batches.append(Written(rows, Outcome.COMMITTED, instant_of(result)))

    def check(self) -> None:
        require_serial(self.table, self.first, self.batches, self.readers)


@pytest.fixture
def past(tmp_path: Path) -> Past:
    table = create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        metadata=["files", "record_index"],
        maintenance=False,
    )
    first = [trip(key) for key in "abc"]
    table.upsert(as_table(*first))
    made = Past(table, first, [], {})
    made.write(2, "a", "b")
    made.write(3, "b", "c")
    made.check()
    return made


def lose_a_commit(past: Past) -> None:
    last = past.batches[-1].instant
    assert last is not None
    past.table.rollback(last)


def lose_an_update(past: Past) -> None:
    past.table.delete(["b"])
    past.table.upsert(as_table(trip("b", ts=2)))


def double_a_key(past: Past) -> None:
    write_at_once(past.table, as_table(trip("k", ts=4)), as_table(trip("k", city="Rome", ts=4)))


def keep_a_refused_write(past: Past) -> None:
    past.batches[-1] = replace(past.batches[-1], outcome=Outcome.REFUSED)


def apply_a_half(past: Past) -> None:
    rows = [trip("a", ts=4), trip("new 4", ts=4)]
    past.table.upsert(as_table(rows[1]))
    past.batches.append(Written(rows))


def share_a_commit(past: Past) -> None:
    past.batches[0] = replace(past.batches[0], instant=past.batches[1].instant)


def leave_a_stale_entry(past: Past) -> None:
    index, [group] = record_index(past.table), opened_table(past.table).snapshot().slices
    sequence = index.applied_sequence()
    assert sequence is not None
    index.apply(LocationUpdate.placing(pa.array(["went"]), group), index.log.refresh(), sequence)


def lose_an_entry_of_the_metadata_table(past: Past) -> None:
    metadata = Path(past.table.location, ".hoodie/metadata")
    shutil.copytree(metadata, metadata.with_name("kept"))
    past.write(4, "a")
    shutil.rmtree(metadata)
    metadata.with_name("kept").rename(metadata)


def read_an_older_state(past: Past) -> None:
    stale = past.table.read()
    past.readers["hudi-rs"] = lambda: stale
    past.write(4, "a")


FAULTS: Final[dict[Callable[[Past], None], str]] = {
    lose_a_commit: "acknowledged commits are lost",
    lose_an_update: "no serial order",
    double_a_key: "keys are doubled",
    keep_a_refused_write: "refused writes are in the table",
    apply_a_half: "no serial order",
    share_a_commit: "two batches have one commit",
    leave_a_stale_entry: "the index does not agree",
    lose_an_entry_of_the_metadata_table: "the metadata table does not agree",
    read_an_older_state: "hudi-rs reads other records",
}


@pytest.mark.parametrize("plant", FAULTS)
def test_a_planted_fault_is_found(past: Past, plant: Callable[[Past], None]) -> None:
    plant(past)
    with pytest.raises(AssertionError, match=FAULTS[plant]):
        past.check()


def test_a_partial_read_is_found(past: Past) -> None:
    older = past.table.read()
    past.write(4, "a", "b")
    newer = past.table.read()
    for whole in (older, newer):
        Seen.of("reader", whole).require_whole(past.batches)
    versions = Seen.of("reader", newer).versions
    # One file of the batch is seen, and another one is not.
    for part in ({**versions, "a": 2}, {key: ts for key, ts in versions.items() if key != "new 4"}):
        with pytest.raises(AssertionError, match="saw a part of a batch"):
            Seen("reader", part).require_whole(past.batches)
    with pytest.raises(AssertionError, match="saw a key twice"):
        Seen.of("reader", pa.concat_tables([newer, newer]))
