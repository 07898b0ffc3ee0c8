from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli import create_table
from rli.metadata_table import verify
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


def test_equal_index_needs_no_lookups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each look-up of many keys reads most of the index again.
    looked_up = list[str]()
    monkeypatch.setattr(verify, "record_locations", lambda _, keys, *__: looked_up.extend(keys.to_pylist()))
    assert differences(unpack_metadata_table("v9", tmp_path)) == []
    assert not looked_up


def test_entries_that_nothing_finds(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", metadata=["files", "record_index"], maintenance=False)
    table.insert(pa.table({"id": [f"k{number}" for number in range(100)]}))
    table.metadata.compact()
    first, second = sorted(Path(table.location, ".hoodie/metadata/record_index").glob("record-index-000[01]*.hfile"))
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    found = table.metadata.verify()
    assert {one.fault for one in found} == {Fault.ABSENT, Fault.SURPLUS}
    [surplus] = [one for one in found if one.fault is Fault.SURPLUS]
    assert surplus.details == f"entries={len(found) - 1}"
