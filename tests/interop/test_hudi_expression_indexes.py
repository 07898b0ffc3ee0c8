"""Indexes on expressions: Hudi reads and keeps those that it knows, and is not disturbed by the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli import ColumnIndexState, PruningStep, Table, create_table
from tests.support.histories import Layout
from tests.support.hudi import STAY_ON_VERSION_6, HudiEngine
from tests.support.hudi_options import newest_only, table_options, with_hudi
from tests.support.tables import records, turn_into_version_9

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P53")]

_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
_READING: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_WRITING: Final = {
    **table_options(Layout(partition_by=("city",), hive_style=False), "t"),
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    # More than the deltacommits before its first write: in a session that compacts before any commit, Hudi 1.2.0 fails.
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.clean.automatic": "false",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
_HOURS: Final = (2, 7, 11, 22)


def _row(number: int, hour: int, name: str | None, ts: int = 1) -> tuple[object, ...]:
    return f"k{number}", f"c{hour}", ts, name, datetime(2024, 5, number + 1, hour, 30, tzinfo=UTC)


_INDEXES: Final = {
    "by_hour": ("at", "hour(at)"),
    "by_day": ("at", "date_trunc('day', at)"),
    "by_name": ("name", "lower(name)"),
}


def _new_table(folder: Path, version: int, indexes: Sequence[str] = tuple(_INDEXES)) -> Table:
    table = create_table(folder, record_key="id", partition_by="city", ordering="ts", name="t")
    if version == 9:
        turn_into_version_9(table)
    names = ("Oslo", "ROME", None, "straße")
    table.upsert(records(*map(_row, range(4), _HOURS, names), schema=_SCHEMA))
    for name in indexes:
        column, expression = _INDEXES[name]
        table.create_index(name, on=column, expression=expression)
    return table


def _require_same(engine: HudiEngine, table: Table) -> None:
    """Both engines find by each value what a full read finds, and rli by the index."""
    everything = table.read().to_pylist()
    for hour in _HOURS:
        expected = sorted(row["id"] for row in everything if row["at"].hour == hour)
        assert PruningStep.EXPRESSION_INDEX in table.scan(filters=f"hour(at) = {hour}").explain().files.pruned
        assert sorted(table.read(filters=f"hour(at) = {hour}")["id"].to_pylist()) == expected
        assert sorted(engine.read(table.location, _READING, f"hour(at) = {hour}")["id"].to_pylist()) == expected
    for name in ("oslo", "rome", "straße", "hudi"):
        expected = sorted(row["id"] for row in everything if (row["name"] or "").lower() == name)
        assert sorted(table.read(filters=f"lower(name) = '{name}'")["id"].to_pylist()) == expected
        assert sorted(engine.read(table.location, _READING, f"lower(name) = '{name}'")["id"].to_pylist()) == expected


@newest_only
def test_hudi_reads_indexes_of_rli(engine: HudiEngine, tmp_path: Path) -> None:
    table = _new_table(tmp_path / "t", 9)
    _require_same(engine, table)
    assert table.scan(filters="hour(at) = 7").explain().files.read == 1
    table.upsert(records(_row(0, 7, "ROME", 10), _row(7, 2, "Oslo"), _row(20, 11, "Hudi"), schema=_SCHEMA))
    _require_same(engine, table)
    assert table.metadata.verify() == ()
    assert {index.state for index in table.indexes()} == {ColumnIndexState.VALID}


@with_hudi("1.2.0", in_soak=("0.15.0",))
def test_hudi_passes_unknown_indexes(engine: HudiEngine, tmp_path: Path) -> None:
    table = _new_table(tmp_path / "t", 6)
    for number in range(3):
        row = _row(20 + number, 11, "Hudi", 10 + number)
        engine.write(table.location, records(row, schema=_SCHEMA), {**_WRITING, **STAY_ON_VERSION_6})
        table.sync_index()
        table.upsert(records(_row(0, 7, "ROME", 10 + number), schema=_SCHEMA))
        found = table.read(filters="date_trunc('day', at) >= timestamp '2024-05-04'")["id"].to_pylist()
        assert sorted(found) == sorted(["k3", *(f"k{20 + before}" for before in range(number + 1))])
    assert table.scan(filters="date_trunc('day', at) = timestamp '2024-05-04'").explain().files.read <= 2
    assert table.metadata.verify() == ()
    assert {index.state for index in table.indexes()} == {ColumnIndexState.VALID}
