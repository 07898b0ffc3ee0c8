"""Random writes on a table against plain dicts; after each, rows, index and files are as promised."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import ClassVar
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rli import CommitResult, IndexNotReadyError, Table, UnsupportedTableError, create_table, open_table
from rli.hudi.meta_columns import FILE_NAME, META_COLUMNS
from tests.support.soak import cases
from tests.support.table_model import Outcome, Rows, Version, deleted, upserted
from tests.support.tables import check_stored, records, rows_of

KEYS = ["a", "7", "-7", "007", "\0", "\U0001f600", "123e4567-e89b-12d3-a456-426614174000", "x,y:z", "k" * 600, "é"]
VERSIONS = st.tuples(st.sampled_from(KEYS), st.sampled_from("xyz"), st.integers(0, 5), st.sampled_from([0.5, 1.5]))


class TableMachine(RuleBasedStateMachine):
    """One table, its model, and the states that it was in."""

    make_url: ClassVar[staticmethod[[str], str]]
    table: Table

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="rli-model-")
        self.rows: Rows = {}
        self.commits: list[tuple[str, Rows]] = []
        self.writes = 0
        self.is_archived = False

    # A base file of a few records takes some 3 kB, so that the smallest target gives each record a file of its own.
    @initialize(
        target_size=st.sampled_from([1024, 4096, 1 << 20]),
        small_size=st.sampled_from([None, 0]),
        partitioned=st.booleans(),
    )
    def create(self, target_size: int, small_size: int | None, *, partitioned: bool) -> None:
        self.partitioned = partitioned
        self.table = create_table(
            f"{self.folder.name}/t",
            record_key="id",
            partition_by="city" if partitioned else (),
            ordering="ts",
            index=self.make_url(self.folder.name),
            shards=3,
            target_file_size=target_size,
            small_file_size=small_size,
        )

    @rule(batch=st.lists(VERSIONS, max_size=12), keep=st.booleans())
    def upsert(self, batch: list[Version], *, keep: bool) -> None:
        # No write repeats the values of an earlier one: equal records may count as unchanged.
        self.writes += 1
        batch = [(key, city, ts, value + 1000 * self.writes) for key, city, ts, value in batch]
        result = self.table.upsert(records(*batch), on_partition_change="keep" if keep else "move")
        outcome = upserted(self.rows, batch, keep=keep and self.partitioned)
        if not self.partitioned:
            inserted, updated, moved, gone, unchanged = outcome.counts
            outcome = Outcome(outcome.rows, (inserted, updated + moved, 0, gone, unchanged))
        self.account(result, outcome)

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=6))
    def delete(self, keys: list[str]) -> None:
        self.account(self.table.delete(keys), deleted(self.rows, keys))

    @precondition(lambda self: self.commits)
    @rule()
    def roll_back(self) -> None:
        instant, _ = self.commits[-1]
        if self.is_archived and len(self.commits) == 1:
            with pytest.raises(UnsupportedTableError):
                self.table.rollback(instant)
            return
        self.table.rollback(instant)
        self.commits.pop()
        self.rows = self.commits[-1][1] if self.commits else {}

    @precondition(lambda self: self.commits)
    @rule(keep=st.integers(1, 4))
    def archive(self, keep: int) -> None:
        result = self.table.archive(keep_commits=keep)
        self.is_archived |= result.instants_archived > 0
        self.commits = self.commits[-keep:]
        assert result.earliest_active == self.commits[0][0]

    @precondition(lambda self: self.commits)
    @rule(data=st.data(), save=st.booleans())
    def restore(self, data: st.DataObject, *, save: bool) -> None:
        number = data.draw(st.integers(0, len(self.commits) - 1))
        instant, self.rows = self.commits[number]
        is_saved = save and not (self.is_archived and number == 0)
        if is_saved:
            self.table.savepoint(instant)
        result = self.table.restore(instant)
        if is_saved:
            self.table.delete_savepoint(instant)
        assert result.undone == tuple(later for later, _ in reversed(self.commits[number + 1 :]))
        del self.commits[number + 1 :]

    @rule(smaller_than=st.sampled_from([None, 1 << 20]))
    def cluster(self, smaller_than: int | None) -> None:
        kept = [name for name in META_COLUMNS if name != FILE_NAME]
        versions = rows_of(self.table.read(columns=[*kept, "id", "v"]))
        instants = self.table.lookup(KEYS).column("instant_time")
        result = self.table.cluster(smaller_than=smaller_than)
        assert rows_of(self.table.read(columns=[*kept, "id", "v"])) == versions
        assert self.table.lookup(KEYS).column("instant_time") == instants
        assert result.files_replaced > result.files_created or result.instant is None
        if result.instant is not None:
            self.commits.append((result.instant, self.rows))

    @rule()
    def reopen(self) -> None:
        self.table.close()
        self.table = open_table(self.table.location)

    @rule()
    def sync(self) -> None:
        assert self.table.sync_index().applied == ()

    @rule()
    def repair(self) -> None:
        assert self.table.repair_index().agrees

    @rule()
    def bootstrap(self) -> None:
        assert self.table.bootstrap_index(shards=3) == len(self.rows)

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def read_as_of(self, data: st.DataObject) -> None:
        instant, rows = data.draw(st.sampled_from(self.commits))
        assert self.read(as_of=instant) == rows

    @invariant()
    def rows_are_as_promised(self) -> None:
        assert self.read() == self.rows

    @invariant()
    def records_of_keys_are_as_promised(self) -> None:
        found = self.table.get([*KEYS, *KEYS], columns=["id", "city", "ts", "v"])
        assert [tuple(row.values()) for row in found.to_pylist()] == [
            self.rows[key] for key in KEYS if key in self.rows
        ]

    @invariant()
    def index_and_files_are_as_promised(self) -> None:
        check_stored(self.table)
        cities = [self.rows[key][1] if key in self.rows else None for key in KEYS]
        paths = cities if self.partitioned else [None if city is None else "" for city in cities]
        assert self.table.lookup(KEYS).column("partition_path").to_pylist() == paths

    def read(self, as_of: str | None = None) -> Rows:
        found = self.table.read(as_of=as_of)
        rows = [tuple(row.values()) for row in found.to_pylist()]
        assert len({row[0] for row in rows}) == len(rows)
        return {row[0]: row for row in rows}

    def account(self, result: CommitResult, outcome: Outcome) -> None:
        counts = (result.inserted, result.updated, result.moved, result.deleted, result.unchanged)
        assert counts == outcome.counts
        assert (result.instant is not None) == outcome.commits
        self.rows = outcome.rows
        if result.instant is not None:
            self.commits.append((result.instant, outcome.rows))

    def teardown(self) -> None:
        if hasattr(self, "table"):
            self.table.drop_index()
            with pytest.raises(IndexNotReadyError):
                self.table.lookup(KEYS)
        self.folder.cleanup()


class MemoryMachine(TableMachine):
    make_url = staticmethod(lambda _: f"memory:{uuid4().hex}")


class LmdbMachine(TableMachine):
    make_url = staticmethod(lambda folder: f"lmdb://{folder}/index")


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=cases(10), stateful_step_count=15)
TestLmdb = LmdbMachine.TestCase
TestLmdb.settings = settings(max_examples=cases(3), stateful_step_count=12)
