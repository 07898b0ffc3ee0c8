"""Updates that change nothing rewrite nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rli import Table, create_table
from tests.support.tables import by_key, check_stored, live_files, records, rows_of

DOUBLE = pa.float64()
STORED = records(("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0))


def test_stored_batch_makes_no_commit(table: Table) -> None:
    table.upsert(STORED)
    done = table.upsert(STORED)
    assert (done.instant, done.updated, done.unchanged) == (None, 0, 3)
    assert len([instant for instant in table.timeline() if instant.is_write]) == 1


def test_unchanged_file_group_is_left_alone(table: Table) -> None:
    table.upsert(STORED)
    before = live_files(table).keys()
    done = table.upsert(records(("a", "x", 1, 9.0), ("c", "y", 1, 3.0)))
    assert (done.updated, done.unchanged, done.files_rewritten) == (1, 1, 1)
    assert len(before & live_files(table).keys()) == 1
    assert by_key(rows_of(table))["a"]["v"] == 9.0
    check_stored(table)


@pytest.mark.parametrize(
    "change", [("a", "x", 2, 1.0), ("a", "x", 1, 1.5), ("a", "y", 1, 1.0)], ids=["ordering", "value", "partition"]
)
def test_every_change_is_written(table: Table, change: tuple[str, str, int, float]) -> None:
    table.upsert(STORED)
    assert table.upsert(records(change)).instant is not None
    assert tuple(by_key(rows_of(table))["a"].values()) == change


def test_nulls_and_nested_values_are_compared(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)

    def batch(numbers: list[int | None] | None, name: str | None) -> pa.Table:
        kind = pa.struct([("name", pa.string())])
        return pa.table(
            {"id": ["a"], "numbers": pa.array([numbers], pa.list_(pa.int64())), "who": pa.array([{"name": name}], kind)}
        )

    for numbers, name in (([1, None], "n"), (None, "n"), (None, None)):
        assert table.upsert(batch(numbers, name)).instant is not None
        assert table.upsert(batch(numbers, name)).instant is None


def test_new_null_column_makes_commit(table: Table) -> None:
    table.upsert(STORED)
    more = STORED.append_column("note", pa.nulls(3, pa.string()))
    assert table.upsert(more).instant is not None
    assert "note" in rows_of(table)[0]
    assert table.upsert(more).instant is None


def test_keeping_missing_columns_may_change_nothing(table: Table) -> None:
    table.upsert(STORED)
    assert table.upsert(STORED.drop_columns("v"), missing="keep").instant is None
    assert table.upsert(STORED.drop_columns("v"), missing="null").instant is not None


def test_keeping_partition_may_change_nothing(trips: Table) -> None:
    trips.upsert(STORED)
    assert trips.upsert(records(("a", "z", 1, 1.0)), on_partition_change="keep").instant is None


def test_deletes_of_other_records_are_written(table: Table) -> None:
    table.upsert(STORED)
    table.upsert(STORED)
    assert table.delete(["a"]).deleted == 1
    assert table.upsert(STORED).inserted == 1
    check_stored(table)


@pytest.mark.parametrize(
    ("kind", "holding"),
    [
        (DOUBLE, lambda number: number),
        (pa.float32(), lambda number: number),
        (pa.list_(DOUBLE), lambda number: [1.0, None, number]),
        (pa.struct([("n", DOUBLE), ("t", pa.string())]), lambda number: {"n": number, "t": "x"}),
        (pa.map_(pa.string(), DOUBLE), lambda number: [("k", number)]),
    ],
    ids=["double", "float", "list", "struct", "map"],
)
def test_numbers_are_compared_bit_by_bit(
    kind: pa.DataType, holding: Callable[[float | None], object], tmp_path: Path, memory_url: str
) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)

    def written(number: float | None) -> bool:
        held = pa.array([holding(number), None], kind)
        return table.upsert(pa.table({"id": ["a", "b"], "v": held})).instant is not None

    numbers = (float("nan"), 0.0, -0.0, None)
    assert [(written(number), written(number)) for number in numbers] == [(True, False)] * len(numbers)
