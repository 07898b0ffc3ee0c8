"""A filter passes the same records however it is written and wherever it is applied; files are only left out."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import rli
from rli import Table
from rli.hudi.meta_columns import RECORD_KEY
from tests.support.filter_cases import KINDS, NAN, FilterCases
from tests.support.soak import FACTOR

_CASES = 12 * FACTOR
_LATE = ("f64", "i32", "money")
"""Columns that a table gets with its second commit."""


@pytest.mark.parametrize("partition", ["i32", "s", "date", "bool", "money", "i64"])
def test_pruning_loses_no_record(tmp_path: Path, partition: str) -> None:
    cases = FilterCases(random.Random(partition), partition)
    index = cases.chance.choice(["simple:", "bloom:"])
    table = rli.create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="p",
        index=index,
        hive_style=cases.chance.random() < 0.5,
        url_encode_partitions=cases.chance.random() < 0.5,
    )
    table.upsert(cases.records(12, [name for name in KINDS if name not in _LATE]))
    for _ in range(3):
        table.upsert(cases.records(cases.chance.randint(1, 12), list(KINDS)))
    passes_as_the_full_read(table, cases, _CASES)
    for path in table.scan().files():
        rewrite(path, cases.chance)
    passes_as_the_full_read(table, cases, _CASES)
    table.cluster(smaller_than=1 << 40)
    passes_as_the_full_read(table, cases, _CASES)


def rewrite(path: str, chance: random.Random) -> None:
    """Write a base file as another writer would: small row groups, statistics of some columns alone."""
    stored = pq.read_table(path, partitioning=None)
    with_statistics = [name for name in stored.column_names if chance.random() < 0.8]
    pq.write_table(
        stored,
        path,
        row_group_size=chance.randint(1, 4),
        write_statistics=with_statistics if chance.random() < 0.7 else True,
        store_decimal_as_integer=chance.random() < 0.5,
    )


def passes_as_the_full_read(table: Table, cases: FilterCases, count: int) -> None:
    columns = [*table.read().column_names, RECORD_KEY]
    full = table.read(columns)
    rows = full.to_pylist()
    for _ in range(count):
        case = cases.case(cases.chance.randint(0, 3))
        try:
            expected = ids(full.filter(case.expression))
        except pa.ArrowInvalid:
            # A value is not exact in the type that pyarrow compares in.
            continue
        if case.truth is not None:
            truth = case.truth
            assert sorted(row["id"] for row in rows if truth(row)) == expected, case
        for filters in case.forms:
            assert passed(table, filters) == (expected, expected, True), (str(case.expression), filters)


def passed(table: Table, filters: Any) -> tuple[list[str], list[str], bool]:
    """The ids by ``read`` and by a stream, and whether the named files hold them."""
    read = ids(table.read(filters=filters))
    scan = table.scan(filters=filters)
    held = {
        key for path in scan.files() for key in pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist()
    }
    return read, ids(pa.table(scan)), held >= set(read)


def ids(records: pa.Table) -> list[str]:
    return sorted(records["id"].to_pylist())


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("x != 5", ["nan", "zero"]),
        ("not x > 3", ["nan", "zero"]),
        ("x not in (5, 7)", ["nan", "zero"]),
        ("x in (0, 1)", ["zero"]),
        ("x in (-0.0, 1)", ["zero"]),
        ([("x", "!=", 5.0)], ["nan", "zero"]),
        ([("x", "in", [0, 1])], ["zero"]),
        ([("x", "in", [NAN])], ["nan"]),
        ([("x", "not in", [5.0])], ["nan", "zero"]),
        (pc.field("x").is_nan(), ["nan"]),
        (pc.field("x").isin([0.0, NAN]), ["nan", "zero"]),
        (pc.field("x").is_null(nan_is_null=True), ["nan"]),
        (~(pc.field("x") < 10), ["nan"]),
    ],
)
def test_nan_and_zero_are_found(tmp_path: Path, kind: pa.DataType, filters: Any, expected: list[str]) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="p", index="simple:")
    values = {"five": [5.0, 5.0], "zero": [0.0], "nan": [5.0, NAN]}
    rows = [
        {"id": name if n == len(some) - 1 else "five2", "p": name, "x": x}
        for name, some in values.items()
        for n, x in enumerate(some)
    ]
    table.upsert(pa.Table.from_pylist(rows, pa.schema([("id", pa.string()), ("p", pa.string()), ("x", kind)])))
    assert [key for key in ids(table.read(filters=filters)) if not key.startswith("five")] == expected
