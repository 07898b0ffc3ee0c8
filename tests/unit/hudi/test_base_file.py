"""Base files as Parquet files: row groups and encodings."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli.hudi.base_file_writer import BYTES_PER_ROW_GROUP, ROWS_PER_ROW_GROUP, BaseFileWriter, new_bloom_filter
from rli.hudi.meta_columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from rli.storage import Storage


def records(start: int, count: int, city: str = "Rome") -> pa.Table:
    keys = pa.array([f"key-{number:07}" for number in range(start, start + count)])
    meta = {COMMIT_TIME: ["20260101"] * count, COMMIT_SEQNO: ["20260101_0_0"] * count, RECORD_KEY: keys}
    return pa.table({**meta, "city": [city] * count})


def write(folder: Path, *batches: pa.Table) -> pq.ParquetFile:
    storage = Storage(str(folder))
    storage.make_folder("part")
    rows = sum(batch.num_rows for batch in batches)
    schema = pa.schema([("city", pa.string())])
    with BaseFileWriter(
        storage,
        "part/file.parquet",
        schema,
        file_name="file.parquet",
        compression="zstd",
        bloom_filter=new_bloom_filter(rows),
        partition_path="part",
    ) as writer:
        for batch in batches:
            writer.write(batch, batch.column(RECORD_KEY))
        assert writer.finish().rows == rows
    return pq.ParquetFile(folder / "part" / "file.parquet")


def test_batches_fill_row_groups_in_order(tmp_path: Path) -> None:
    sizes = (50_000, 100_000, 0, 130_000, 1)
    starts = (0, 50_000, 150_000, 150_000, 280_000)
    file = write(tmp_path, *(records(start, size) for start, size in zip(starts, sizes, strict=True)))
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [ROWS_PER_ROW_GROUP, ROWS_PER_ROW_GROUP, 280_001 - 2 * ROWS_PER_ROW_GROUP]
    written, expected = file.read(), records(0, 280_001)
    assert written.select(expected.column_names).equals(expected)
    assert written.column_names == [*META_COLUMNS, "city"]
    assert set(written.schema.types) == {pa.string()}
    assert written.column(PARTITION_PATH).unique().to_pylist() == ["part"]
    assert written.column(FILE_NAME).unique().to_pylist() == ["file.parquet"]


def test_wide_records_close_row_group(tmp_path: Path) -> None:
    city = "x" * (BYTES_PER_ROW_GROUP // 10)
    file = write(tmp_path, records(0, 9, city), records(9, 1, city), records(10, 1, city))
    assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == [10, 1]


def test_repeating_columns_have_dictionaries(tmp_path: Path) -> None:
    group = write(tmp_path, records(0, 1_000)).metadata.row_group(0)
    by_name = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
    assert not by_name[RECORD_KEY].has_dictionary_page
    assert by_name["city"].has_dictionary_page


@pytest.mark.parametrize(
    ("rows", "filtered"),
    [(ROWS_PER_ROW_GROUP - 1, False), (ROWS_PER_ROW_GROUP, True), (2 * ROWS_PER_ROW_GROUP + 1, True)],
)
def test_several_row_groups_have_bloom_filters(tmp_path: Path, rows: int, *, filtered: bool) -> None:
    file = write(tmp_path, records(0, rows))
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    for group in groups:
        by_name = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
        assert (by_name[RECORD_KEY].bloom_filter_offset is not None) == filtered
        assert by_name["city"].bloom_filter_offset is None
    assert file.read().num_rows == rows


def test_a_file_without_records_is_whole(tmp_path: Path) -> None:
    assert write(tmp_path).metadata.num_rows == 0
