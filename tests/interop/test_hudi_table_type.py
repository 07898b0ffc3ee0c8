"""Hudi reads and writes a table whose type rli has changed, in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import Table, create_table, open_table
from tests.support.histories import Layout
from tests.support.hudi import STAY_ON_VERSION_6, HudiEngine
from tests.support.hudi_options import table_options, with_hudi
from tests.support.tables import by_key, check_stored, records, turn_into_version_9

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P61")]


@with_hudi("1.2.0", in_soak=("0.15.0", "1.0.2"))
def test_hudi_follows_changes_of_type(engine: HudiEngine, tmp_path: Path) -> None:
    check_changes_of_type(engine, 6, tmp_path)


@pytest.mark.soak
@with_hudi("1.2.0")
def test_hudi_follows_changes_in_version_9(engine: HudiEngine, tmp_path: Path) -> None:
    check_changes_of_type(engine, 9, tmp_path)


def check_changes_of_type(engine: HudiEngine, version: int, folder: Path) -> None:
    table = create_table(
        folder / "trips", record_key="id", partition_by="city", ordering="ts", index="simple:", maintenance=False
    )
    if version == 9:
        turn_into_version_9(table)
        table = open_table(table.location)
    table.upsert(records(*((f"k{number}", "xy"[number % 2], 10, float(number)) for number in range(8))))
    table.set_table_type("merge_on_read")
    table.upsert(records(("k0", "x", 11, 100.0), ("k1", "y", 5, 0.0), ("n0", "z", 1, 0.0)))
    table.delete(["k2"])
    require_equal(engine, table)
    write(engine, table, version, "MERGE_ON_READ", ("k0", "x", 12, 200.0), ("k3", "y", 12, 300.0))
    require_equal(engine, table)
    assert table.compact().instants
    table.archive(keep_commits=1)
    table.set_table_type("copy_on_write")
    require_equal(engine, table)
    write(engine, table, version, "COPY_ON_WRITE", ("k0", "x", 13, 201.0), ("n0", "z", 13, 301.0), ("n1", "z", 1, 1.0))
    require_equal(engine, table)
    table.upsert(records(("k4", "x", 14, 400.0)))
    require_equal(engine, table)
    expected = {
        "k0": 201.0,
        "k1": 1.0,
        "k3": 300.0,
        "k4": 400.0,
        "k5": 5.0,
        "k6": 6.0,
        "k7": 7.0,
        "n0": 301.0,
        "n1": 1.0,
    }
    assert {row["id"]: row["v"] for row in table.read().to_pylist()} == expected
    check_stored(table)


def write(engine: HudiEngine, table: Table, version: int, table_type: str, *rows: tuple[str, str, int, float]) -> None:
    """An upsert by Hudi, as its users give the type of the table."""
    options = {
        **table_options(Layout(partition_by=("city",))),
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.index.type": "SIMPLE",
        "hoodie.compact.inline": "false",
        "hoodie.metadata.enable": "false",
        **(STAY_ON_VERSION_6 if version == 6 and engine.version.startswith("1.") else {}),
    }
    engine.write(table.location, records(*rows), options)


def require_equal(engine: HudiEngine, table: Table) -> None:
    theirs = engine.read(table.location, {"hoodie.metadata.enable": "false"}).select(["id", "city", "ts", "v"])
    assert by_key(theirs.to_pylist()) == by_key(table.read().to_pylist())
