"""The `hudi` package (hudi-rs) reads exactly our rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rli
from tests.support.histories import LAYOUTS, History, Layout, write_history
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.rows import sorted_rows
from tests.support.typed_rows import every_type, every_type_changed


def _require_same_rows(history: History) -> None:
    assert sorted_rows(history.table.read()) == history.rows
    assert sorted_rows(read_with_hudi_rs(history.path)) == history.rows


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_rows_after_every_history_step(layout: Layout, tmp_path: Path) -> None:
    history = write_history(layout, tmp_path, after_each=_require_same_rows)
    assert history.table.verify_index().agrees
    history.table.close()


def test_special_values_name_hudi_folders(tmp_path: Path) -> None:
    history = write_history(
        Layout(partition_by=("city",), hive_style=True, url_encode_partitions=True), tmp_path, steps=1
    )
    folders = {folder.name for folder in history.path.iterdir() if folder.name != ".hoodie"}
    assert folders == {"city=Oslo", "city=-7", "city=São Paulo%3A 1%2F2", "city=__HIVE_DEFAULT_PARTITION__"}
    history.table.close()


@pytest.mark.parametrize("layout", LAYOUTS[:3], ids=str)
def test_the_rows_as_of_each_instant(layout: Layout, tmp_path: Path) -> None:
    history = write_history(layout, tmp_path)
    assert len(history.states) == 7
    for instant, expected in history.states:
        ours = history.table.read(as_of=instant)
        assert sorted_rows(ours) == expected
        # hudi-rs shows old rows with the columns of the newest schema.
        theirs = read_with_hudi_rs(history.path, instant)
        assert sorted_rows(theirs.select(ours.column_names) if expected else theirs) == expected
    history.table.close()


def test_every_type_nested_ones_among_them(tmp_path: Path) -> None:
    path = tmp_path / "types"
    table = rli.create_table(path, record_key="id", index=f"lmdb://{tmp_path / 'index'}")
    table.upsert(every_type())
    table.upsert(every_type_changed())
    written = table.read()
    expected = [row for row in every_type().to_pylist() if row["id"] != "nulls"] + every_type_changed().to_pylist()
    assert sorted_rows(written) == sorted_rows(pa.Table.from_pylist(expected, written.schema))
    theirs = read_with_hudi_rs(path)
    assert theirs.schema.equals(written.schema)
    assert sorted_rows(theirs) == sorted_rows(written)
    table.close()
