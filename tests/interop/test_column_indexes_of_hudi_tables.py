"""Indexes on columns of tables that Hudi wrote: what they find is what a full scan finds, whatever happens to the table."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import rli
from rli import RliError, Table
from rli.filters.filter import Filter
from rli.filters.syntax import quoted_name
from tests.support.hudi_tables import unzip_hudi_table
from tests.support.soak import cases, in_ci

_V8: Final = "sample_table/cow/v8_simplekeygen_nonhivestyle"
_TABLES: Final = (
    _V8,
    "sample_table/mor/avro/v9_txns_simple_meta",
    "sample_table/cow/v6_nonpartitioned",
    "sample_table/cow/v6_simplekeygen_nonhivestyle",
    "sample_table/cow/v9_txns_simple_meta",
    "sample_table/cow/v9_txns_simple_nometa",
    "sample_table/cow/v9_txns_complex_nometa",
    "sample_table/cow/v9_txns_nonpart_meta",
    "sample_table/mor/avro/v9_txns_nonpart_meta",
    "sample_table/mor/parquet/v6_nonpartitioned",
    "quickstart_trips_table/mor/avro/v6_trips_8i1u",
    "quickstart_trips_table/mor/avro/v8_trips_8i3u1d",
)
_MOST_COLUMNS: Final = 3


class _Stopped(Exception):  # noqa: N818  (no error: the build ends here)
    """Ends a build within."""


@pytest.mark.parametrize("name", in_ci([_V8], of=_TABLES))
def test_indexes_find_what_scans_find(name: str, tmp_path: Path) -> None:
    chance = random.Random(name)
    table = rli.open_table(unzip_hudi_table(name, tmp_path))
    table.bootstrap_index(f"lmdb://{tmp_path / 'index'}")
    columns, before = _columns(table, chance), _differences(table)
    assert columns
    _require_same(table, columns, chance)
    for number in range(cases(4)):
        _change(table, columns, number, chance)
        _require_same(table, columns, chance)
    table.build_indexes()
    _require_same(table, columns, chance)
    # Counts of values by Hudi may be those of files that were replaced.
    assert _differences(table) <= before
    assert table.verify_index().agrees


def _differences(table: Table) -> set[tuple[str, str, str]]:
    return {(one.partition, one.item, one.fault) for one in table.metadata.verify()}


def _columns(table: Table, chance: random.Random) -> list[str]:
    """Some columns of strings and integers that are no part of the record key."""
    rows = table.read()
    keys = {*table.info().record_key}
    found = [one.name for one in rows.schema if _is_plain(one.type) and one.name not in keys and one.name[0] != "_"]
    return chance.sample(found, min(_MOST_COLUMNS, len(found)))


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_int64(kind) or pa.types.is_int32(kind))


def _change(table: Table, columns: list[str], number: int, chance: random.Random) -> None:
    """An operation, and from time to time a build that is stopped, or another index."""
    rows = table.read()
    # A rollback takes the columns of its commit with it.
    columns[:] = [name for name in columns if name in rows.schema.names]
    _build(table, chance.choice(columns), number, chance)
    if number % 2:
        _change_schema(table, columns, number, chance)
        return
    operation = chance.choice(["upsert", "upsert", "delete", "rollback", "restore", "clean", "cluster", "compact"])
    if operation == "upsert":
        at = chance.randrange(len(rows))
        other = rows.slice(chance.randrange(len(rows)), 1)
        changed = rows.slice(at, 1)
        for column in columns:
            place = changed.schema.get_field_index(column)
            changed = changed.set_column(place, changed.schema.field(place), other[column])
        with suppress(RliError):
            # The column may be that of the partition, and the key be unique there alone.
            table.upsert(changed)
    elif operation == "delete" and len(rows) > 2:
        keys = table.read(columns=["_hoodie_record_key"])["_hoodie_record_key"].to_pylist()
        table.delete([chance.choice(keys)])
    elif operation == "rollback":
        with suppress(RliError):
            table.rollback("last")
    elif operation == "restore":
        saved = table.savepoint()
        table.upsert(rows.slice(0, 1))
        table.restore(saved)
        table.delete_savepoint(saved)
    elif operation == "clean":
        table.clean(keep_commits=1)
    elif operation == "cluster":
        with suppress(RliError):
            table.cluster()
    else:
        table.metadata.compact()


def _change_schema(table: Table, columns: list[str], number: int, chance: random.Random) -> None:
    """Some records are written without a column, whose values go on under another name, and with wider integers."""
    rows, renamed = table.read(), chance.choice(columns)
    changed, name = rows.slice(chance.randrange(len(rows)), 2), f"renamed{number}"
    values = changed[renamed]
    if pa.types.is_int32(values.type):
        values = values.cast(pa.int64())
        place = changed.schema.get_field_index(renamed)
        with suppress(RliError):
            table.upsert(changed.set_column(place, renamed, values))
    with suppress(RliError):
        # The column may be that of the partition.
        table.upsert(changed.drop_columns([renamed]).append_column(name, values), missing="null")
        columns.append(name)


def _build(table: Table, column: str, number: int, chance: random.Random) -> None:
    """Build an index, stop its build, or drop one; what the table cannot have, it refuses."""
    kind: dict[str, Any] = chance.choice(
        [
            {},
            {"home": "store"},
            {"using": "column_stats"},
            {"using": "bloom_filters"},
            {"expression": _expression(table, column)},
        ]
    )

    def stop(done: int, _: int) -> None:
        if done and chance.random() < 0.3:
            raise _Stopped

    with suppress(RliError, _Stopped):
        table.create_index(f"index{number}", on=column, on_progress=stop, **kind)
    present = table.indexes()
    if present and chance.random() < 0.2:
        with suppress(RliError):
            table.drop_index(chance.choice(present).name)


def _expression(table: Table, column: str) -> str:
    name = quoted_name(column)
    return f"lower({name})" if pa.types.is_string(table.read().schema.field(column).type) else f"{name} * 2"


def _require_same(table: Table, columns: list[str], chance: random.Random) -> None:
    rows = table.read()
    for column in [name for name in columns if name in rows.schema.names]:
        values = [
            one for one in rows[column].to_pylist() if one is not None and (isinstance(one, int) or "'" not in one)
        ]
        value = chance.choice(values or [7 if pa.types.is_integer(rows.schema.field(column).type) else "nobody"])
        text = value if isinstance(value, int) else f"'{value}'"
        name, computed = quoted_name(column), _expression(table, column)
        for filters in (
            f"{name} = {text}",
            f"{name} >= {text}",
            f"{name} in ({text}, {text})",
            f"{computed} = {text.lower() if isinstance(text, str) else text * 2}",
        ):
            passes = Filter.of(filters, rows.schema)
            assert passes is not None
            expected = rows.filter(passes.mask(rows)).to_pylist()
            found = table.read(filters=filters).to_pylist()
            assert sorted(map(str, found)) == sorted(map(str, expected)), filters
