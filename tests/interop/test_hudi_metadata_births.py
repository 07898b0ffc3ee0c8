"""Hudi reads and writes tables whose metadata table rli has built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rli import Table, create_table
from tests.support.histories import Layout
from tests.support.hudi import STAY_ON_VERSION_6, HudiEngine
from tests.support.hudi_options import NEWEST, table_options, with_hudi
from tests.support.soak import FACTOR
from tests.support.tables import records, rows_of, turn_into_version_9

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P53")]

_PARTITIONS: Final = ("files", "column_stats", "bloom_filters", "record_index")
_READING: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_KEPT_BY_HUDI: Final = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.clean.automatic": "false",
}


@with_hudi(NEWEST, "0.15.0", in_soak=("1.0.2",))
def test_hudi_goes_on_with_births(engine: HudiEngine, tmp_path: Path) -> None:
    for version in [9, 6][:FACTOR] if engine.version == NEWEST else [6]:
        table = _table(tmp_path / str(version), version)
        partitions = [*_PARTITIONS, *(["partition_stats"] if version == 9 else [])]
        assert "record_index" in table.metadata.enable(partitions).added
        _require_same_reads(engine, table)
        for number in range(2):
            # One key moves nowhere, one is new: a wrong index would store the first one twice.
            rows = (("a", "x", 10 + number, 1.0 + number), (f"new {number}", "y", 1, 2.0))
            engine.write(table.location, records(*rows), _writing(engine, version))
            table.sync_index()
            table.delete(["b"])
            table.upsert(records(("b", "y", 1, 5.0 + number)))
            assert table.metadata.verify() == (), number
            # Hudi's next compaction is over ours.
            assert number or table.metadata.compact().instant
            assert table.metadata.verify() == (), number
            assert len(rows_of(table)) == 5 + number
        assert {found.partition for found in table.metadata.status().partitions} == {*partitions}
        _require_same_reads(engine, table)
        table.close()


def _table(folder: Path, version: int) -> Table:
    table = create_table(
        folder / "t", record_key="id", partition_by="city", ordering="ts", name="trips", index=f"lmdb://{folder}/index"
    )
    if version == 9:
        turn_into_version_9(table)
        # Before its first commit, so that no definition names the columns.
        table.metadata.enable(["files", "column_stats"])
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0), ("c", "y", 1, 3.0)))
    table.upsert(records(("b", "z", 2, 20.0), ("d", "x", 1, 4.0)))
    table.metadata.enable(["files", "column_stats"])
    return table


def _writing(engine: HudiEngine, version: int) -> dict[str, str]:
    stays = STAY_ON_VERSION_6 if version == 6 and engine.version != "0.15.0" else {}
    layout = Layout(partition_by=("city",), hive_style=False)
    return {**table_options(layout), **_KEPT_BY_HUDI, **stays, "hoodie.datasource.write.operation": "upsert"}


def _require_same_reads(engine: HudiEngine, table: Table) -> None:
    """With the metadata table and without it, and as rli."""
    wheres: list[tuple[str | None, Callable[[tuple[object, ...]], bool]]] = [
        (None, lambda _: True),
        ("id in ('b', 'new 1')", lambda row: row[0] in {"b", "new 1"}),
        ("v > 3.5", lambda row: float(str(row[3])) > 3.5),
        ("city = 'y' and v < 2.5", lambda row: row[1] == "y" and float(str(row[3])) < 2.5),
    ]
    mine = [tuple(row.values()) for row in table.read().to_pylist()]
    for where, passes in wheres:
        expected = sorted(row for row in mine if passes(row))
        for options in (_READING, {"hoodie.metadata.enable": "false"}):
            found = engine.read(table.location, options, where).select(table.read().column_names).to_pylist()
            assert sorted(tuple(row.values()) for row in found) == expected, (where, options)
