"""Random writes on a table of each kind of index against a plain set; after each, rows, look-ups and files are right."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

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

from rli import Table, open_table
from tests.support.index_kinds import ALL_KINDS, LOG_INSERTS, MERGE_ON_READ, Counts, Kind, TableModel, stored_rows
from tests.support.soak import cases, in_ci
from tests.support.table_model import Version
from tests.support.tables import check_stored, records

KEYS = ["a", "7", "007", "\U0001f600", "x,y:z", "é"]
VERSIONS = st.tuples(st.sampled_from(KEYS), st.sampled_from("xyz"), st.integers(0, 5), st.sampled_from([0.5, 1.5]))


class KindMachine(RuleBasedStateMachine):
    """One table, its model, and the states that it was in."""

    kind: ClassVar[Kind]
    table: Table
    model: TableModel

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="rli-kinds-")
        self.commits: list[tuple[str, TableModel]] = []
        self.writes = 0

    # A base file of a few records takes some 3 kB, so that the smallest target gives each record a file of its own.
    @initialize(target_size=st.sampled_from([1024, 1 << 20]))
    def create(self, target_size: int) -> None:
        small_size = target_size if self.kind.log_inserts else 0
        self.table = self.kind.create(Path(self.folder.name), target_file_size=target_size, small_file_size=small_size)
        self.model = self.kind.model()

    @rule(batch=st.lists(VERSIONS, min_size=1, max_size=8))
    def upsert(self, batch: list[Version]) -> None:
        # No write repeats the values of an earlier one: equal records may count as unchanged.
        self.writes += 1
        batch = [(key, city, ts, value + 2 * self.writes) for key, city, ts, value in batch]
        result = self.table.upsert(records(*batch))
        self._follow(*self.model.upserted(batch), result.instant, _counts(result))

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
    def delete(self, keys: list[str]) -> None:
        result = self.table.delete(keys)
        self._follow(*self.model.deleted(keys), result.instant, _counts(result))

    @precondition(lambda self: self.commits)
    @rule()
    def roll_back(self) -> None:
        instant, self.model = self.commits.pop()
        self.table.rollback(instant)

    @precondition(lambda self: len(self.commits) > 1)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.commits) - 2))
        self.table.restore(self.commits[position][0])
        self.model = self.commits[position + 1][1]
        del self.commits[position + 1 :]

    @precondition(lambda self: self.kind.can_cluster)
    @rule()
    def cluster(self) -> None:
        self.table.cluster(smaller_than=1 << 30)

    @precondition(lambda self: self.kind.log_inserts)
    @rule()
    def compact(self) -> None:
        self.table.compact()

    @rule()
    def clean(self) -> None:
        self.table.clean(keep_commits=1)
        # What was cleaned cannot be undone, but for the last commit.
        del self.commits[:-1]

    @rule()
    def reopen(self) -> None:
        self.table.close()
        self.table = open_table(self.table.location)

    @invariant()
    def the_table_is_as_promised(self) -> None:
        if not hasattr(self, "table"):
            return
        assert stored_rows(self.table) == self.model.rows
        found = self.table.lookup(KEYS).to_pylist()
        places = {key: {row["partition_path"] for row in found if row["record_key"] == key} for key in KEYS}
        assert places == {key: self.model.places_of(key) for key in KEYS}
        got = {tuple(row.values()) for row in self.table.get(KEYS[:3]).to_pylist()}
        assert got == {row for row in self.model.rows if row[0] in KEYS[:3]}

    def teardown(self) -> None:
        if hasattr(self, "table"):
            check_stored(self.table)
            self.table.close()
        self.folder.cleanup()

    def _follow(self, after: TableModel, counts: Counts, instant: str | None, told: Counts) -> None:
        assert told == counts
        if instant is not None:
            self.commits.append((instant, self.model))
        self.model = after


def _counts(result: object) -> Counts:
    return tuple(getattr(result, name) for name in ("inserted", "updated", "moved", "deleted", "unchanged"))


@pytest.mark.parametrize("name", [*ALL_KINDS, *MERGE_ON_READ, *in_ci(["record-inserts"], of=[*LOG_INSERTS])])
def test_every_index_kind_keeps_promises(name: str) -> None:
    class Machine(KindMachine):
        kind = (ALL_KINDS | MERGE_ON_READ | LOG_INSERTS)[name]

    run_state_machine_as_test(Machine, settings=settings(max_examples=cases(3), stateful_step_count=10, deadline=None))
