"""The same random operations on a copy-on-write and a merge-on-read table give the same records, counts and locations.

The merge-on-read table is compacted in between, at once or by a plan that is carried out later. ``make soak`` tries more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from rli import CommitResult, Table, TableType, UnsupportedTableError, open_table
from tests.support.index_kinds import ALL_KINDS, stored_rows
from tests.support.soak import EVERY_POINT, cases
from tests.support.table_model import Version
from tests.support.tables import check_stored, records

CASES: Final = [*ALL_KINDS] * cases(1) if EVERY_POINT else ["record", "bucket"]
STEPS: Final = 40 if EVERY_POINT else 15
KEYS: Final = ["a", "7", "007", "é", "\U0001f600", "x,y:z", "k1", "k2"]
CONDITIONS: Final = ["v > 500", "id = 'a'", "city = 'x' and ts > 1", "ts < 1", "true"]
MERGE_CONDITIONS: Final = [None, "source.v < target.v", "source.ts > target.ts", "target.ts < 2 and target.city = 'x'"]
FILTERS: Final = [*CONDITIONS, "id in ('7', 'k1')", "_hoodie_record_key = 'a'", "v is null"]

Write = Callable[[Table], CommitResult]


class Twins:
    """A table of each type, and the commits that both have."""

    def __init__(self, folder: Path, name: str, chance: random.Random) -> None:
        self._chance = chance
        kind = ALL_KINDS[name]
        kind = replace(kind, version=max(kind.version, chance.choice([6, 9])))
        self.can_cluster = kind.can_cluster
        sizes: Any = {"target_file_size": 1024, "small_file_size": 0} if chance.random() < 0.5 else {}
        formats: Any = {"log_format": chance.choice(["parquet", "avro"])}
        self.tables = [
            replace(kind, table_type=table_type).create(
                folder / table_type,
                maintenance=False,
                **sizes,
                **(formats if table_type is TableType.MERGE_ON_READ else {}),
            )
            for table_type in _made(folder)
        ]
        # In large file groups, a write reads the records of its keys alone.
        fillers = records(*((f"f{number}", "xy"[number % 2], 1, float(number)) for number in range(100)))
        for table in () if sizes else self.tables:
            table.insert(fillers)
        self.commits: list[list[str]] = []

    @property
    def logged(self) -> Table:
        return self.tables[1]

    def rows(self) -> list[Version]:
        return [
            (
                self._chance.choice(KEYS),
                self._chance.choice("xy"),
                self._chance.randrange(4),
                self._chance.random() * 1000,
            )
            for _ in range(self._chance.randrange(1, 6))
        ]

    def write(self, write: Write) -> None:
        """The same write of both; a write that must wait for a planned compaction follows it."""
        done = [write(self.tables[0])]
        try:
            done.append(write(self.logged))
        except UnsupportedTableError as error:
            if "compaction is planned" not in str(error):
                raise
            self.logged.compact()
            done.append(write(self.logged))
        counts = [(one.inserted, one.updated, one.moved, one.deleted, one.unchanged) for one in done]
        assert counts[0] == counts[1]
        if done[0].instant is not None:
            self.commits.append([one.instant or "" for one in done])

    def go_back(self, commits: int) -> None:
        """Restore both tables to before some of the last commits that can be undone."""
        if len(self.commits) > commits:
            for table, instant in zip(self.tables, self.commits[-commits - 1], strict=True):
                table.restore(instant)
            del self.commits[-commits:]

    def roll_back(self) -> None:
        """Undo the last commit of both, if it is known."""
        if self.commits:
            for table, instant in zip(self.tables, self.commits.pop(), strict=True):
                table.rollback(instant)

    def forget(self, service: Callable[[Table], object]) -> None:
        """A service behind which former commits cannot be undone."""
        for table in self.tables:
            service(table)
        self.commits.clear()

    def step(self) -> str:
        """One operation; returns its name."""
        verbs = {
            "upsert": 6, "keep": 2, "merge": 2, "insert": 2, "delete": 3, "late delete": 2, "delete_where": 1, "update_where": 2,
            "overwrite": 1, "drop": 0.3, "compact": 2, "schedule": 1, "cluster": 1, "clean": 1, "rollback": 1.5, "restore": 0.7,
            "archive": 0.5,
        }  # fmt: skip
        [verb] = self._chance.choices([*verbs], [*verbs.values()])
        self._do(verb)
        return verb

    def _do(self, verb: str) -> None:
        rows, keys = records(*self.rows()), self._chance.sample(KEYS, 2)
        where, ordering = self._chance.choice(CONDITIONS), [self._chance.randrange(4) for _ in keys]
        changes = rows.append_column("op", pa.array([self._chance.choice("ud") for _ in range(rows.num_rows)]))
        when = self._chance.choice(MERGE_CONDITIONS)
        value = self._chance.choice([{"v": "v + 1"}, {"ts": "ts - 1"}, {"ts": "ts + 1"}])
        writes: dict[str, Write] = {
            "upsert": lambda table: table.upsert(rows),
            "keep": lambda table: table.upsert(rows.drop_columns(["v"] if table.schema else []), missing="keep"),
            "merge": lambda table: table.merge(changes, "op", when=when),
            "insert": lambda table: table.insert(rows),
            "delete": lambda table: table.delete(keys),
            "late delete": lambda table: table.delete(keys, ordering=ordering),
            "delete_where": lambda table: table.delete_where(where),
            "update_where": lambda table: table.update_where(where, value),
            "overwrite": lambda table: table.overwrite_partitions(rows),
            "drop": lambda table: table.drop_partitions(["x"], missing_ok=True),
        }
        if verb in writes:
            self.write(writes[verb])
        elif verb == "cluster" and self.can_cluster:
            self.forget(lambda table: table.cluster())
        else:
            services: dict[str, Callable[[], object]] = {
                "compact": self.logged.compact,
                "schedule": self.logged.schedule_compaction,
                "clean": lambda: self.forget(lambda table: table.clean(keep_commits=1)),
                "archive": lambda: self.forget(lambda table: table.archive(keep_commits=2)),
                "rollback": self.roll_back,
                "restore": lambda: self.go_back(self._chance.randrange(1, 3)),
            }
            services.get(verb, lambda: None)()

    def require_alike(self) -> None:
        """Records, filtered records, look-ups and records by key of both."""
        plain, logged = self.tables
        if plain.schema is None:
            return
        assert stored_rows(logged) == stored_rows(plain)
        chosen = self._chance.choice(FILTERS)
        assert _sorted(logged.read(filters=chosen).to_pylist()) == _sorted(plain.read(filters=chosen).to_pylist()), (
            chosen
        )
        assert _sorted(logged.get(KEYS).to_pylist()) == _sorted(plain.get(KEYS).to_pylist())
        places = [
            {(row["record_key"], row["partition_path"]) for row in table.lookup(KEYS).to_pylist()}
            for table in self.tables
        ]
        assert places[0] == places[1]


def _made(folder: Path) -> list[TableType]:
    """Both types, with a folder for a table of each."""
    types = [TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ]
    for table_type in types:
        (folder / table_type).mkdir()
    return types


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["id"], row["city"]))


@pytest.mark.parametrize(("number", "name"), [*enumerate(CASES)])
def test_both_types_hold_the_same(number: int, name: str, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32) if EVERY_POINT else number
    twins = Twins(tmp_path, name, random.Random(seed))
    done = [f"seed {seed}"]
    try:
        for _ in range(STEPS):
            done.append(twins.step())
            twins.require_alike()
        check_stored(twins.logged)
        twins.logged.compact()
        twins.require_alike()
        check_stored(open_table(twins.logged.location))
    except BaseException as error:
        error.add_note("; ".join(done))
        raise
