"""Apache Hudi's own Spark reader gives exactly our rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import rli
from tests.support.histories import LAYOUTS, STEPS, Layout, write_history
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, newest_only, with_hudi
from tests.support.meta_columns import without_meta_columns
from tests.support.rows import sorted_rows
from tests.support.soak import in_ci
from tests.support.typed_rows import every_type, every_type_changed

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY_AND_YEAR: Final = Layout(partition_by=("city", "year"), hive_style=True)
# Steps of the history after which Hudi reads: a rollback, a file group without rows, the end.
_AFTER_ROLLBACK, _AFTER_EMPTY_GROUP = 4, 5


def _read(engine: HudiEngine, path: Path, where: str | None = None, as_of: str | None = None) -> pa.Table:
    options = {} if as_of is None else {"as.of.instant": as_of}
    return without_meta_columns(engine.read(path, options, where))


def test_rows_after_every_operation(engine: HudiEngine, tmp_path: Path) -> None:
    history = write_history(BY_CITY_AND_YEAR, tmp_path, steps=_AFTER_ROLLBACK)
    assert sorted_rows(_read(engine, history.path)) == history.rows
    for number, step in enumerate(STEPS[_AFTER_ROLLBACK:], _AFTER_ROLLBACK + 1):
        step(history)
        if number in {_AFTER_EMPTY_GROUP, len(STEPS)}:
            assert sorted_rows(_read(engine, history.path)) == history.rows
    history.table.close()


@newest_only
@pytest.mark.parametrize(
    "layout",
    # hudi-rs reads all of them in CI.
    in_ci([LAYOUTS[7]], of=[layout for layout in LAYOUTS if layout != BY_CITY_AND_YEAR]),
    ids=str,
)
def test_the_rows_of_other_layouts(engine: HudiEngine, layout: Layout, tmp_path: Path) -> None:
    history = write_history(layout, tmp_path, steps=_AFTER_EMPTY_GROUP)
    assert sorted_rows(_read(engine, history.path)) == history.rows
    history.table.close()


@pytest.mark.soak
@newest_only
def test_rows_of_instant_and_of_partition(engine: HudiEngine, tmp_path: Path) -> None:
    history = write_history(BY_CITY_AND_YEAR, tmp_path, steps=_AFTER_EMPTY_GROUP)
    instant, expected = history.states[1]
    assert sorted_rows(_read(engine, history.path, as_of=instant)) == expected
    chosen = [row for row in expected if row["year"] == 2023 and row["city"] == "Oslo"]
    assert chosen
    found = _read(engine, history.path, where="year = 2023 and city = 'Oslo'", as_of=instant)
    assert sorted_rows(found) == chosen
    history.table.close()


@with_hudi(NEWEST, in_soak=("0.15.0", "1.0.2"))
def test_every_type_nested_ones_among_them(engine: HudiEngine, tmp_path: Path) -> None:
    path = tmp_path / "types"
    table = rli.create_table(path, record_key="id", index=f"lmdb://{tmp_path / 'index'}")
    table.upsert(every_type())
    table.upsert(every_type_changed())
    written = table.read()
    # Spark keeps timestamps in nanoseconds in the file that brings its rows here, and lists under another name.
    theirs = _read(engine, path)
    assert theirs.column_names == written.column_names
    assert sorted_rows(theirs.cast(written.schema)) == sorted_rows(written)
    table.close()


@newest_only
def test_partition_values_with_special_characters(engine: HudiEngine, tmp_path: Path) -> None:
    path = tmp_path / "special"
    table = rli.create_table(path, record_key="id", partition_by="city", index=f"lmdb://{tmp_path / 'index'}")
    cities = ["a b", "a%b", "a#b?c*[d]{e}", "a\\\"'", "a+b&c,d;e", "a|b<c>^~`", " a ", ".a", "_a", "日本", "a/b"]
    rows = pa.table({"id": [str(number) for number in range(len(cities))], "city": cities})
    table.upsert(rows)
    assert sorted_rows(_read(engine, path)) == sorted_rows(rows)
    table.close()


@pytest.mark.soak
@newest_only
def test_dates_before_the_gregorian_calendar(engine: HudiEngine, tmp_path: Path) -> None:
    path = tmp_path / "days"
    table = rli.create_table(path, record_key="id", index=f"lmdb://{tmp_path / 'index'}")
    days = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 14), date(1582, 10, 15), date(9999, 12, 31)]
    rows = pa.table({"id": list("abcde"), "day": pa.array(days)})
    moments = pa.array([datetime(day.year, day.month, day.day, 23, 59, 59, 7, tzinfo=UTC) for day in days])
    rows = rows.append_column("moment", moments)
    table.upsert(rows)
    written = table.read()
    assert sorted_rows(_read(engine, path).cast(written.schema)) == sorted_rows(written)
    table.close()
