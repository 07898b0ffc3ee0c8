from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli.metadata_table.verify import Fault
from tests.support.metadata_tables import METADATA_TABLES, differences, unpack_metadata_table


@pytest.mark.parametrize("name", [*METADATA_TABLES, "v9_partitioned_index"])
def test_tables_of_hudi_have_no_differences(name: str, tmp_path: Path) -> None:
    assert differences(unpack_metadata_table(name, tmp_path)) == []


def _newest_file(table: Path) -> Path:
    files = [path for path in table.glob("*/*.parquet") if pq.read_metadata(path).num_rows]
    return max(files, key=lambda path: path.stem.rpartition("_")[2])


def _remove(file: Path) -> None:
    file.unlink()


def _copy(file: Path) -> None:
    shutil.copy(file, file.with_name(f"00000000-0000-0000-0000-000000000000-0{file.name[38:]}"))


def _rewrite(file: Path) -> None:
    """Keep names and numbers of records, and the footer's entries; change a record key and a column."""
    rows = pq.read_table(file)
    keys = pa.array(["other", *rows["_hoodie_record_key"].to_pylist()[1:]])
    values = pa.array([1_000_000, *rows["n"].to_pylist()[1:]], rows["n"].type)
    for name, column in (("_hoodie_record_key", keys), ("n", values)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    pq.write_table(rows, file)


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        (_remove, {("files", Fault.SURPLUS)}),
        (_copy, {("files", Fault.ABSENT), ("column_stats", Fault.ABSENT), ("record_index", Fault.WRONG)}),
        (_rewrite, {("column_stats", Fault.WRONG), ("record_index", Fault.ABSENT), ("record_index", Fault.SURPLUS)}),
    ],
)
def test_changed_files_are_found(
    change: Callable[[Path], None], faults: set[tuple[str, Fault]], tmp_path: Path
) -> None:
    table = unpack_metadata_table("v9", tmp_path)
    change(_newest_file(table))
    assert faults <= {(one.partition, one.fault) for one in differences(table)}
