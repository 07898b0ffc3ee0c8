"""Secondary indexes: rli keeps those of Hudi, and Hudi reads and keeps those of rli."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from rli import ColumnIndexState, PruningStep, Table, create_table, open_table
from rli.hudi.metadata.keys import split_secondary_key
from tests.support.histories import Layout
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import BY_RECORD_INDEX, WITHOUT_STATISTICS, newest_only, table_options
from tests.support.metadata_tables import metadata_reader
from tests.support.soak import FACTOR
from tests.support.tables import records, turn_into_version_9

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P53")]

_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("email", pa.string()),
        ("n", pa.int64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
_COLUMNS: Final = ("email", "n", "day", "at")
_FROM_HUDI: Final = _COLUMNS if FACTOR > 1 else ("email", "at")
"""Indexes that Hudi builds. Both sides write entries of all of them, and of those that rli builds."""
_FROM_RLI: Final = _COLUMNS if FACTOR > 1 else ("email", "n", "day")
_READING: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_WRITING: Final = {
    **table_options(Layout(partition_by=("city",), hive_style=False), "t"),
    "hoodie.datasource.write.operation": "upsert",
    **BY_RECORD_INDEX,
    **WITHOUT_STATISTICS,
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.clean.automatic": "false",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
_AT: Final = datetime(2024, 5, 31, 12, 0, 0, 123456, UTC)


def _rows(*given: tuple[Any, ...]) -> pa.Table:
    return records(*((*row, *[None] * (len(_SCHEMA) - len(row))) for row in given), schema=_SCHEMA)


_FIRST: Final = _rows(
    ("k1", "x", 1, "a@b", -5, date(2024, 1, 2), _AT),
    ("k2", "x", 1, "a$b", 1 << 40),
    ("k$3", "y", 1, "back\\slash", None, date(1969, 1, 2)),
    ("k4", "z", 1, None, 0),
    ("k5", "w", 1, "", 9),
)


@newest_only
def test_each_side_keeps_the_other_index(engine: HudiEngine, tmp_path: Path) -> None:
    theirs = _by_hudi(engine, tmp_path / "theirs")
    ours = _by_rli(tmp_path / "ours")
    for table, columns in ((theirs, _FROM_HUDI), (ours, _FROM_RLI)):
        _require_same(engine, table, columns)
        for number in range(min(FACTOR, 2)):
            # An insert, a new value, a value that comes back, a move.
            table.upsert(
                _rows(
                    (f"r{number}", "x", 1, f"rli{number}", number, None, _AT),
                    ("k1", "x", 10 + number, f"new$\\{number}"),
                    ("k4", "xyz"[number], 10 + number, "a@b"),
                )
            )
            table.delete(["k2"])
            _require_same(engine, table, columns)
            hudis = (
                (f"h{number}", "v", 1, f"hudi{number}", 7),
                ("k5", "w", 10 + number, f"{number}$"),
                ("k2", "x", 99, ""),
            )
            engine.write(table.location, _rows(*hudis), _WRITING)
            table.sync_index()
            _require_same(engine, table, columns)
        assert table.metadata.verify() == ()
        assert {index.state for index in table.indexes()} == {ColumnIndexState.VALID}
        table.close()


def _by_hudi(engine: HudiEngine, folder: Path) -> Table:
    engine.write(folder, _FIRST, _WRITING, "overwrite")
    engine.sql(f"create table secondary using hudi location '{folder}'")
    for column in _FROM_HUDI:
        engine.sql(f"create index by_{column} on secondary ({column})", _WRITING)
    table = open_table(folder)
    table.bootstrap_index(f"lmdb://{folder.parent}/index")
    return table


def _by_rli(folder: Path) -> Table:
    table = create_table(folder, record_key="id", partition_by="city", ordering="ts", name="t")
    turn_into_version_9(table)
    table.upsert(_FIRST)
    for column in _FROM_RLI:
        table.create_index(f"by_{column}", on=column)
    return table


def _require_same(engine: HudiEngine, table: Table, columns: Sequence[str]) -> None:
    """The entries of strings are those of the records, and both engines find by each value what a full read finds."""
    everything = table.read().to_pylist()
    reader = metadata_reader(Path(table.location))
    keys = [key.decode() for cells in reader.scan("secondary_index_by_email") for key in cells["key"].to_pylist()]
    assert {*map(split_secondary_key, keys)} == {(row["email"], row["id"]) for row in everything}
    for column in columns:
        for value in {row[column] for row in everything} - {None}:
            expected = sorted(row["id"] for row in everything if row[column] == value)
            pruned = table.scan(filters=[(column, "=", value)]).explain().files.pruned
            assert PruningStep.SECONDARY_INDEX in pruned
            assert sorted(table.get(where={column: [value]})["id"].to_pylist()) == expected, (column, value)
    # Values that were given last, so that an entry may be missing.
    for email in sorted({row["email"] for row in everything if row["ts"] > 1 and row["email"]})[:3]:
        expected = sorted(row["id"] for row in everything if row["email"] == email)
        where = "email = '" + email.replace("\\", "\\\\") + "'"
        assert sorted(engine.read(table.location, _READING, where)["id"].to_pylist()) == expected, where
    numbers = engine.read(table.location, _READING, "n = 9 or n = 7")["id"].to_pylist()
    assert sorted(numbers) == sorted(row["id"] for row in everything if row["n"] in {7, 9})
