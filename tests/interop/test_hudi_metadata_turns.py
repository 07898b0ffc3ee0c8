"""Hudi and rli take turns on a table with a metadata table, and both compact, clean and archive over the other's commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Final

import pytest

from rli import Table, create_table
from rli.hudi.timeline.instant import Action
from tests.support.histories import Layout
from tests.support.hudi import HudiEngine, HudiError
from tests.support.hudi_options import BY_RECORD_INDEX, NEWEST, table_options, with_hudi
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.metadata_tables import metadata_reader
from tests.support.soak import FACTOR
from tests.support.tables import check_archived, records, turn_into_version_8, turn_into_version_9

pytestmark = [
    pytest.mark.hudi,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(5400),
    pytest.mark.invariant("P52"),
]

_COMMITS: Final = 40 if FACTOR > 1 else 6
_COMPARED: Final = min(10, _COMMITS)
"""Commits between two comparisons."""
_SERVICES: Final = 5 if FACTOR > 1 else 3
"""Commits between two rounds of services by rli."""
_KEYS: Final = 30
_CITIES: Final = ("x", "y", "z")
_PARTITIONS: Final = ("files", "column_stats", "bloom_filters", "record_index")

_OF_TABLES: Final = {NEWEST: turn_into_version_9, "1.0.2": turn_into_version_8}
"""What makes a new table one of the version that a version of Hudi writes; 0.15.0 writes those of version 6."""

_WRITING: Final = {
    **table_options(Layout(partition_by=("city",), hive_style=False)),
    **BY_RECORD_INDEX,
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
_WITH: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_WITHOUT: Final = {"hoodie.metadata.enable": "false"}

_Row = tuple[str, str, int, float]


class _Hudi:
    """Hudi. What fails in one session is tried in a fresh one: 1.2.0 has faults that depend on its session."""

    def __init__(self, engine: HudiEngine) -> None:
        self._engine = engine

    def write(self, table: Table, rows: list[_Row], operation: str) -> None:
        options = {**_WRITING, "hoodie.datasource.write.operation": operation}
        try:
            self._engine.write(table.location, records(*rows), options)
        except HudiError:
            with HudiEngine(self._engine.version) as fresh:
                fresh.write(table.location, records(*rows), options)

    @contextmanager
    def for_reads(self) -> Iterator[HudiEngine]:
        if FACTOR == 1 or self._engine.version != NEWEST:
            yield self._engine
        else:
            with HudiEngine(self._engine.version) as fresh:
                yield fresh


@contextmanager
def _noted(made: set[str], table: Table) -> Iterator[None]:
    """Add the actions that come onto the timeline of the metadata table meanwhile."""
    before = _completed(table)
    yield
    made |= {action for _, action in _completed(table) - before}


def _completed(table: Table) -> set[tuple[str, str]]:
    return {(one.time, one.action) for one in metadata_reader(Path(table.location)).timeline.completed}


@with_hudi(NEWEST, in_soak=("1.0.2", "0.15.0"))
def test_turns_keep_the_metadata_table(engine: HudiEngine, tmp_path: Path) -> None:
    table = create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        name="trips",
        index=f"lmdb://{tmp_path}/index",
    )
    partitions = [*_PARTITIONS]
    if engine.version in _OF_TABLES:
        _OF_TABLES[engine.version](table)
        partitions.append("partition_stats")
    table.upsert(records(("k0", "x", 0, 0.0)))
    table.metadata.enable(partitions)
    expected: dict[str, _Row] = {"k0": ("k0", "x", 0, 0.0)}
    hudi, random = _Hudi(engine), Random(7)
    by_hudi = set[str]()
    for number in range(1, _COMMITS + 1):
        with _noted(by_hudi, table) if number % 2 else nullcontext():
            _turn(hudi if number % 2 else None, table, number, random, expected)
        assert table.metadata.verify() == (), number
        if number % _SERVICES == 0:
            table.clean(keep_commits=2)
            table.metadata.compact()
            table.archive(keep_commits=2)
            assert table.metadata.verify() == (), number
        if number % _COMPARED == 0:
            with hudi.for_reads() as reader:
                _require_same_reads(reader, table, [*expected.values()], number)
    assert {found.partition for found in table.metadata.status().partitions} == {*partitions}
    _require_bounded(table)
    # Hudi compacts the metadata table. Its clean leaves more commits there than the archives of both sides do.
    assert Action.COMMIT in by_hudi
    table.close()


def _turn(hudi: _Hudi | None, table: Table, number: int, random: Random, expected: dict[str, _Row]) -> None:
    """An upsert of known and new keys, or a delete; by rli without an engine of Hudi."""
    if number % 6 in {4, 5}:
        gone = random.sample(sorted(expected), min(3, len(expected) - 1))
        rows = [expected.pop(key) for key in gone]
        if hudi is None:
            table.delete(gone)
        else:
            hudi.write(table, rows, "delete")
    else:
        keys = random.sample(range(_KEYS), 6)
        rows = [(f"k{key}", random.choice(_CITIES), number, key + number / 8) for key in keys]
        expected.update({row[0]: row for row in rows})
        if hudi is None:
            table.upsert(records(*rows))
        else:
            hudi.write(table, rows, "upsert")
    table.sync_index()


def _require_same_reads(engine: HudiEngine, table: Table, expected: list[_Row], number: int) -> None:
    """With the metadata table and without it, by Hudi, hudi-rs and rli."""
    key, value = expected[0][0], sorted(row[3] for row in expected)[len(expected) // 2]
    for where, rows in (
        (None, expected),
        (f"id in ('{key}', 'k99')", [row for row in expected if row[0] == key]),
        (f"v > {value}", [row for row in expected if row[3] > value]),
        (f"city = 'y' and v < {value}", [row for row in expected if row[1] == "y" and row[3] < value]),
    ):
        for options in (_WITH, _WITHOUT):
            found = engine.read(table.location, options, where).select(["id", "city", "ts", "v"]).to_pylist()
            assert sorted(tuple(row.values()) for row in found) == sorted(rows), (number, where, options)
        mine = table.read(["id", "city", "ts", "v"], filters=where).to_pylist()
        assert sorted(tuple(row.values()) for row in mine) == sorted(rows), (number, where)
    theirs = read_with_hudi_rs(table.location).select(["id", "city", "ts", "v"]).to_pylist()
    assert sorted(tuple(row.values()) for row in theirs) == sorted(expected), number
    assert table.verify_index().agrees, number


def _require_bounded(table: Table) -> None:
    """Instants of both have left both timelines."""
    archived = check_archived(table)
    assert len(archived) > _COMMITS // 2
    assert len(archived) == len({*archived})
    active = metadata_reader(Path(table.location)).timeline.completed
    assert len([instant for instant in active if instant.action == Action.DELTA_COMMIT]) < _COMMITS
