"""Random writes and services on a table of each kind of index: whoever replays the changes has the table."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rli import InstantNotFoundError, Scope, Table, TableType, UnsupportedTableError
from tests.support.change_readers import ChangeReader, opened_writes
from tests.support.index_kinds import ALL_KINDS, KINDS, MERGE_ON_READ, Kind
from tests.support.soak import cases, in_ci
from tests.support.table_model import Version
from tests.support.tables import records, turn_into_version_9

pytestmark = pytest.mark.invariant("P48")

KEYS = ["a", "7", "007", "\U0001f600", "x,y:z", "é"]
WITH_LOGS = ["global-simple-logs", "bucket-logs", "record-logs"]
"""In CI: log files take updates and deletes alone, new records too, and deletes beside those of an index in a store."""
VERSIONS = st.tuples(st.sampled_from(KEYS), st.sampled_from("xyz"), st.integers(0, 5), st.sampled_from([0.5, 1.5]))


class ChangesMachine(RuleBasedStateMachine):
    """One table, a reader that follows each of its commits, and one that follows now and then."""

    kind: ClassVar[Kind]
    table: Table

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="rli-changes-")
        self.writes = 0
        self.undone = False

    @initialize(target_size=st.sampled_from([1024, 1 << 20]), version=st.sampled_from([6, 9]))
    def create(self, target_size: int, version: int) -> None:
        self.table = self.kind.create(Path(self.folder.name), target_file_size=target_size, small_file_size=0)
        if version == 9 and self.kind.version == 6:
            turn_into_version_9(self.table)
        self.reader, self.late_reader = ChangeReader(self.kind.scope), ChangeReader(self.kind.scope)

    @rule(batch=st.lists(VERSIONS, min_size=1, max_size=8))
    def upsert(self, batch: list[Version]) -> None:
        self.writes += 1
        self.table.upsert(records(*((key, city, ts, value + 2 * self.writes) for key, city, ts, value in batch)))

    @rule(batch=st.lists(VERSIONS, min_size=1, max_size=4))
    def insert(self, batch: list[Version]) -> None:
        self.table.insert(records(*batch))

    @rule(batch=st.lists(st.tuples(st.sampled_from(["u", "d"]), VERSIONS), min_size=1, max_size=6))
    def merge(self, batch: list[tuple[str, Version]]) -> None:
        self.writes += 1
        rows = records(*((key, city, ts, value + 2 * self.writes) for _, (key, city, ts, value) in batch))
        self.table.merge(rows.append_column("op", pa.array([op for op, _ in batch])), op="op")

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
    def delete(self, keys: list[str]) -> None:
        self.table.delete(keys)

    @precondition(lambda self: self.kind.can_cluster)
    @rule()
    def cluster(self) -> None:
        self.table.cluster(smaller_than=1 << 30)

    @rule()
    def roll_back(self) -> None:
        writes = opened_writes(self.table)
        if writes:
            self.undo(lambda: self.table.rollback("last"))

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        writes = opened_writes(self.table)
        if len(writes) > 1:
            instant = data.draw(st.sampled_from(writes)).time
            self.undo(lambda: self.table.restore(instant))

    @precondition(lambda self: self.kind.table_type is TableType.MERGE_ON_READ)
    @rule()
    def compact(self) -> None:
        self.table.compact()

    @rule(least=st.integers(0, 5))
    def delete_where(self, least: int) -> None:
        self.table.delete_where(f"ts > {least}")

    def undo(self, undoing: Any) -> None:
        try:
            undoing()
        except (UnsupportedTableError, InstantNotFoundError):
            return
        self.undone = True

    @rule(keep=st.integers(1, 3))
    def clean(self, keep: int) -> None:
        self.table.clean(keep_commits=keep)

    @rule(keep=st.integers(1, 3))
    def archive(self, keep: int) -> None:
        self.table.archive(keep_commits=keep)

    @rule()
    def follow_late(self) -> None:
        self.late_reader.follow(self.table)
        assert self.late_reader.rows == self.rows()

    @invariant()
    def reader_has_the_table(self) -> None:
        if not hasattr(self, "table"):
            return
        before = self.reader.reloads
        self.reader.follow(self.table)
        assert self.reader.rows == self.rows()
        # Whoever follows each commit loses none, unless it is undone.
        assert self.reader.reloads == before or self.undone
        self.undone = False

    def rows(self) -> dict[Any, dict[str, Any]]:
        key = ("id",) if self.kind.scope is Scope.GLOBAL else ("city", "id")
        found = self.table.read().to_pylist()
        return {row["id"] if len(key) == 1 else (row["city"], row["id"]): row for row in found}

    def teardown(self) -> None:
        if hasattr(self, "table"):
            self.table.close()
        self.folder.cleanup()


@pytest.mark.parametrize("kind", in_ci([*KINDS, *WITH_LOGS], of=ALL_KINDS | MERGE_ON_READ))
def test_replayed_changes_give_the_table(kind: str) -> None:
    machine = type("Machine", (ChangesMachine,), {"kind": (ALL_KINDS | MERGE_ON_READ)[kind]})
    run_state_machine_as_test(machine, settings=settings(max_examples=cases(2), stateful_step_count=12, deadline=None))
