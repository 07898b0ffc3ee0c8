"""Columns with indexes get wider types, go missing, take other names, and come back of other types: no index hides a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from rli import IndexHome, Table, create_table
from rli.filters.filter import Filter
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.tables import turn_into_version_9

pytestmark = [pytest.mark.invariant("P59"), pytest.mark.invariant("P60")]

LARGE: Final = 2**40
INDEXES: Final[dict[str, dict[str, Any]]] = {
    "n_in_store": {"on": "n", "home": "store"},
    "n_in_metadata": {"on": "n", "home": "metadata"},
    "n_ranges": {"on": "n", "using": "column_stats"},
    "n_filters": {"on": "n", "using": "bloom_filters"},
    "n_twice": {"on": "n", "expression": "n * 2"},
    "email_in_store": {"on": "email", "home": "store"},
    "email_in_metadata": {"on": "email", "home": "metadata"},
    "email_low": {"on": "email", "expression": "lower(email)", "using": "bloom_filters"},
}


def written(table: Table, ts: int, **columns: pa.Array) -> str:
    """A commit of as many records as a column has, some of them new; the table's columns that are not given are null."""
    count = len(next(iter(columns.values())))
    keys = {"id": [f"k{(ts + number) % 9}" for number in range(count)], "city": ["x"] * count, "ts": [ts] * count}
    return table.upsert(pa.table(keys | columns), missing="null").instant or ""


def numbers(*values: int | None, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, kind or pa.int64())


def require_same(table: Table) -> None:
    """What reads and look-ups find is what a scan in memory finds, for values of each column, and one that is absent."""
    rows = table.read()
    for column in [name for name in rows.schema.names if name not in {"id", "city", "ts"}]:
        is_text = pa.types.is_string(rows.schema.field(column).type)
        present = sorted({*rows[column].to_pylist()} - {None})
        for value in ["nobody" if is_text else -77, *(present if EVERY_POINT else present[-1:])]:
            shown, computed = (f"'{value}'", f"lower({column})") if is_text else (str(value), f"{column} * 2")
            result = shown.lower() if is_text else str(2 * value)
            require_found(table, rows, f"{column} = {shown}", {column: [value]})
            require_found(table, rows, f"{computed} = {result} or {column} is null")


def require_found(table: Table, rows: pa.Table, filters: str, where: dict[str, list[Any]] | None = None) -> None:
    passes = Filter.of(filters, rows.schema)
    assert passes is not None
    expected = sorted(rows.filter(passes.mask(rows))["id"].to_pylist())
    assert sorted(table.read(filters=filters)["id"].to_pylist()) == expected, filters
    assert where is None or sorted(table.get(where=where)["id"].to_pylist()) == expected, where


@pytest.mark.parametrize(
    ("version", "table_type"), in_ci([(9, "copy_on_write")], of=[(9, "copy_on_write"), (6, "merge_on_read")])
)
def test_schema_changes_hide_no_record(tmp_path: Path, version: int, table_type: str) -> None:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", table_type=table_type, maintenance=False
    )
    if version == 9:
        turn_into_version_9(table)
    written(table, 1, n=numbers(1, 2, None, kind=pa.int32()), email=pa.array(["A@b", None, "c"]))
    for name, given in INDEXES.items():
        # Earlier versions have no secondary index in the metadata table.
        if version == 9 or given.get("home") != IndexHome.METADATA:
            table.create_index(name, **given)
    kept = table.savepoint()
    written(table, 2, n=numbers(LARGE, 1, 7), email=pa.array(["A@b", "d", None]))
    require_same(table)
    # The type of before comes back, and goes again.
    table.rollback("last")
    require_same(table)
    written(table, 3, n=numbers(LARGE, 7), email=pa.array(["c", "e"]))
    require_same(table)
    # Renamed: the values go on under another name.
    written(table, 4, n=numbers(2, 2), mail=pa.array(["A@b", "c"]))
    table.create_index("mail_in_store", on="mail", home="store")
    table.create_index("mail_low", on="mail", expression="lower(mail)")
    require_same(table)
    # Dropped: no record is written with it any more.
    written(table, 5, mail=pa.array(["c", "f", None]))
    require_same(table)
    table.cluster() if table_type == "copy_on_write" else table.compact()
    table.restore(kept)
    require_same(table)
    # It comes back with values of another sort, and indexes of its former ones are left.
    last = written(table, 6, n=numbers(2, 8), mail=numbers(5, 6))
    require_same(table)
    table.build_indexes()
    require_same(table)
    table.rollback(last)
    table.delete(["k1"])
    require_same(table)
    assert table.metadata.verify() == ()
    assert table.verify_index().agrees
