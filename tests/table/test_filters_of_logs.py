"""Filters on file slices with log files: row groups of a base file are left out, and the answer is that of all records."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli import CorruptTableError, Table, TableType, create_table, open_table
from rli.filters.filter import Filter
from tests.support.tables import by_key, records

ROWS = 200
FILTERS = (
    *(
        "v < 20",
        "v >= 150 and v < 160",
        "v > 900",
        "ts = 99",
        "id = 'k007'",
        "v is null",
        "not v < 190",
        "v > 1e9",
        "ts < 0",
    ),
    *(
        "id = 'new'",
        "ts = 50",
        "v = 156",
        "v = 156.5",
        "_hoodie_commit_time > '1'",
        "city = 'x' and v < 3",
        "v = 0 or ts = 11",
    ),
)


def deep_table(folder: Path, ordering: str | None) -> Table:
    """A base file of 20 row groups, its values in rising order; updates, deletes, new and late records in log files."""
    table = create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering=ordering,
        table_type=TableType.MERGE_ON_READ,
        index="bucket:?buckets=1",
        maintenance=False,
    )
    table.insert(records(*((f"k{number:03d}", "x", 10, float(number)) for number in range(ROWS))))
    # Filters are true for the record of the base file alone, for that of the log file alone, for both, and for none.
    changes = (("k005", "x", 11, 905.0), ("k155", "x", 11, 5.5), ("k156", "x", 11, 156.5), ("k007", "x", 99, None))
    table.upsert(records(*changes))
    table.upsert(records(("k005", "x", 12, 906.0), ("new", "x", 1, 3.5)))
    table.delete(["k010", "k151"])
    path = base_file(table)
    content, footer = pq.read_table(path, partitioning=None), pq.read_metadata(path).metadata
    # A greater ordering value than that of the log file, whose record so comes late.
    times = pa.array([50 if key == "k156" else 10 for key in content["id"].to_pylist()], pa.int64())
    content = content.set_column(content.column_names.index("ts"), content.schema.field("ts"), times)
    with pq.ParquetWriter(path, content.schema, store_schema=False) as writer:
        writer.write_table(content, row_group_size=10)
        writer.add_key_value_metadata(footer)
    return table


def base_file(table: Table) -> Path:
    (path,) = Path(table.location, "x").glob("[!.]*.parquet")
    return path


@pytest.mark.parametrize("ordering", ["ts", None])
def test_filtered_answers_equal_the_scan(ordering: str | None, tmp_path: Path) -> None:
    table = deep_table(tmp_path, ordering)
    every = table.read(columns=["id", "city", "ts", "v", "_hoodie_commit_time"])
    late = 156 if ordering else 156.5
    assert [row["v"] for row in every.to_pylist() if row["id"] == "k156"] == [late]
    for number, where in enumerate(FILTERS):
        passes = Filter.of(where, every.schema)
        assert passes is not None
        expected = by_key(every.filter(passes.mask(every)).to_pylist())
        # Of a copy, no merge is known.
        copy = shutil.copytree(table.location, tmp_path / str(number))
        for read in (table, open_table(copy)):
            found = read.read(columns=every.column_names, filters=where)
            assert by_key(found.to_pylist()) == expected, where
            assert read.read(columns=["v"], filters=where).num_rows == len(expected)


def test_row_groups_are_left_out(tmp_path: Path) -> None:
    """Their pages are not decoded: damage there is not noticed."""
    table = deep_table(tmp_path, "ts")
    path = base_file(table)
    group = pq.read_metadata(path).row_group(3)
    chunk = next(one for one in map(group.column, range(group.num_columns)) if one.path_in_schema == "v")
    content = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)
    for _ in range(2):
        assert sorted(table.read(filters="v >= 150 and v < 160")["v"].to_pylist()) == [
            150,
            *range(152, 155),
            156,
            *range(157, 160),
        ]
    with pytest.raises(CorruptTableError):
        table.read(filters="v > 30")
