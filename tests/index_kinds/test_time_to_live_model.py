"""Random writes and days on a table whose keys expire, against plain dicts, with services and commits of other engines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
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

from rli import Scope, Step, Table, TableType
from rli.hudi.timeline.instant import instant_moment
from rli.view.definition import TableDefinition
from tests.support.index_kinds import Kind, stored_rows
from tests.support.soak import cases, in_ci
from tests.support.table_model import Outcome, Rows, Version, deleted, inserted, upserted
from tests.support.tables import check_stored, forget_the_journal, records, turn_into_foreign_commit

LIFE = 9
"""Days; half a day more, so that it does not matter how long the test takes."""

PASSED = st.sampled_from([0, 4, LIFE + 1])
"""Days before a write."""

KEYS = ["a", "b", "7"]
VERSIONS = st.tuples(st.sampled_from(KEYS), st.sampled_from("xy"), st.integers(0, 5))


class DiedError(Exception):
    """A process that dies once its commit is published."""


@dataclass(frozen=True)
class Model:
    """What the index knows.

    Attributes:
        rows: by record key, with partition scope of a key and its partition.
        days: when each was written last.
    """

    scope: Scope
    rows: Rows = field(default_factory=dict)
    days: dict[str, int] = field(default_factory=dict)

    def live(self, day: int) -> Rows:
        return {key: row for key, row in self.rows.items() if day - self.days[key] <= LIFE}

    def written(
        self, change: Callable[[Rows, list[Version]], Outcome], batch: list[Version], day: int
    ) -> tuple[Model, Outcome]:
        live = self.live(day)
        outcome = change(live, [(self.key_of(row), *row[1:]) for row in batch])
        days = {key: day if live.get(key) != row else self.days[key] for key, row in outcome.rows.items()}
        return Model(self.scope, outcome.rows, days), outcome

    def deleted(self, keys: set[str], day: int) -> tuple[Model, int]:
        outcome = deleted(self.live(day), {key for key in self.rows if key.partition("\0")[0] in keys})
        return Model(self.scope, outcome.rows, {key: self.days[key] for key in outcome.rows}), outcome.counts[3]

    def key_of(self, row: Version) -> str:
        return row[0] if self.scope is Scope.GLOBAL else f"{row[0]}\0{row[1]}"


class ExpiryMachine(RuleBasedStateMachine):
    """One table, what its index knows, and on which day it is."""

    kind: ClassVar[Kind]
    clock: ClassVar[list[timedelta]]
    began: ClassVar[datetime]
    table: Table

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="rli-ttl-")
        self.commits: list[tuple[str, Model]] = []
        self.writes = self.day = 0
        self.ever: set[Version] = set()
        self.clock[0] = timedelta()

    @initialize(target_size=st.sampled_from([1024, 1 << 20]), small=st.sampled_from([0, 1 << 20]))
    def create(self, target_size: int, small: int) -> None:
        self.table = self.kind.create(Path(self.folder.name), target_file_size=target_size, small_file_size=small)
        self.model = Model(self.kind.scope)

    @rule(batch=st.lists(VERSIONS, min_size=1, max_size=5), days=PASSED, is_foreign=st.booleans())
    def upsert(self, batch: list[tuple[str, str, int]], days: int, *, is_foreign: bool) -> None:
        self._wait(days)
        rows = self._rows(batch)
        after, outcome = self.model.written(upserted, rows, self.day)
        if is_foreign and outcome.commits:
            instant = self._published(rows)
            turn_into_foreign_commit(self.table, instant)
        else:
            result = self.table.upsert(records(*rows))
            told = (result.inserted, result.updated, result.moved, result.deleted, result.unchanged)
            assert told == outcome.counts
            instant = result.instant or ""
        self._follow(after, instant)

    @rule(batch=st.lists(VERSIONS, min_size=1, max_size=5), days=PASSED)
    def insert(self, batch: list[tuple[str, str, int]], days: int) -> None:
        self._wait(days)
        rows = self._rows(batch)
        after, outcome = self.model.written(inserted, rows, self.day)
        result = self.table.insert(records(*rows))
        assert (result.inserted, result.unchanged) == (outcome.counts[0], outcome.counts[4])
        self._follow(after, result.instant)

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1))
    def delete(self, keys: set[str]) -> None:
        after, count = self.model.deleted(keys, self.day)
        result = self.table.delete(sorted(keys))
        assert result.deleted == count
        self._follow(after, result.instant)

    @precondition(lambda self: self.commits)
    @rule(has_journal=st.booleans())
    def roll_back(self, *, has_journal: bool) -> None:
        instant, self.model = self.commits.pop()
        if not has_journal:
            with suppress(FileNotFoundError):
                forget_the_journal(self.table, instant)
        self.table.rollback(instant)

    @rule()
    def cluster(self) -> None:
        self.table.cluster(smaller_than=1 << 30)

    @rule()
    def clean(self) -> None:
        self.table.clean(keep_commits=1)
        del self.commits[:-1]

    @rule(is_repaired=st.booleans())
    def rebuild(self, *, is_repaired: bool) -> None:
        if is_repaired:
            self.table.repair_index()
        else:
            self.table.bootstrap_index()

    @invariant()
    def the_index_knows_what_has_not_expired(self) -> None:
        if not hasattr(self, "table"):
            return
        report = self.table.verify_index()
        assert report.agrees, report
        # Readers go by the last commit.
        last = self.table.index.stats().last_instant
        live = self.model.live((instant_moment(last) - self.began).days if last else 0)
        rows = {(key.partition("\0")[0], *row[1:]) for key, row in live.items()}
        stored = stored_rows(self.table)
        assert rows <= stored <= rows | self.ever
        found = self.table.lookup(KEYS).to_pylist()
        assert {(row["record_key"], row["partition_path"]) for row in found if row["file_id"]} == {
            row[:2] for row in rows
        }
        assert {tuple(row.values()) for row in self.table.get(KEYS).to_pylist()} == rows

    def teardown(self) -> None:
        if hasattr(self, "table"):
            # What the dead left is cleared up by the next writer.
            self.table.sync_index()
            check_stored(self.table)
            self.table.close()
        self.folder.cleanup()

    def _wait(self, days: int) -> None:
        self.day += days
        self.clock[0] = timedelta(days=self.day)

    def _rows(self, batch: list[tuple[str, str, int]]) -> list[Version]:
        # No write repeats the values of an earlier one.
        self.writes += 1
        rows = [(*row, float(self.writes * 10 + place)) for place, row in enumerate(batch)]
        self.ever.update(rows)
        return rows

    def _published(self, rows: list[Version]) -> str:
        """The instant of an upsert whose process died before its index followed it."""

        def die(step: Step) -> None:
            if step is Step.PUBLISHED:
                raise DiedError

        with suppress(DiedError):
            self.table.upsert(records(*rows), on_step=die)
        return max(instant.time for instant in self.table.timeline() if instant.is_completed and instant.is_write)

    def _follow(self, after: Model, instant: str | None) -> None:
        if instant:
            self.commits.append((instant, self.model))
            self.model = after


def shifted_clock(patched: pytest.MonkeyPatch) -> list[timedelta]:
    """The clock of all tables, put forward by what stands in the list."""
    now, ahead = TableDefinition.now, [timedelta()]
    patched.setattr(TableDefinition, "now", lambda table: now(table) + ahead[0])
    return ahead


KINDS = {
    "lmdb": Kind("lmdb://{folder}/index?ttl=228h", Scope.GLOBAL),
    "memory": Kind("memory:?scope=partition&ttl=228h", Scope.PARTITION),
}
KINDS["inserts"] = replace(KINDS["lmdb"], table_type=TableType.MERGE_ON_READ, log_inserts=True)


@pytest.mark.invariant("P40")
@pytest.mark.parametrize("name", in_ci(["lmdb", "memory"], of=KINDS))
def test_key_is_known_for_its_lifetime(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Machine(ExpiryMachine):
        began = datetime.now(UTC)

    Machine.kind, Machine.clock = KINDS[name], shifted_clock(monkeypatch)
    run_state_machine_as_test(Machine, settings=settings(max_examples=cases(4), stateful_step_count=12, deadline=None))
