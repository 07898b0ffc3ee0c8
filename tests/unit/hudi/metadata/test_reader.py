from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.bloom_filter import FILTER_KEY
from rli.hudi.file_names import BaseFileName
from rli.hudi.hfile.cells import concatenated
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.record_index import located_keys
from rli.hudi.metadata.records import Bound, ColumnStatistics
from rli.hudi.metadata.statistic_values import bound_value
from rli.hudi.metadata.views import (
    all_files,
    bloom_filters,
    column_statistics,
    files_of,
    partition_paths,
    partition_statistics,
    record_locations,
    sizes_by_partition,
)
from tests.support.metadata_tables import METADATA_TABLES, metadata_reader, unpack_metadata_table

COLUMNS = ["_hoodie_record_key", "id", "ts", "amount", "n", "f", "d", "price", "at", "ok", "raw", "note"]


@pytest.fixture(scope="module", params=METADATA_TABLES)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not changed by any test."""
    return unpack_metadata_table(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def reader(table: Path) -> MetadataTableReader:
    return metadata_reader(table)


def test_files_are_those_of_the_folders(table: Path, reader: MetadataTableReader) -> None:
    on_disk: dict[str, dict[str, int]] = {"eu": {}, "ap ö": {}}
    for path in table.glob("*/*.parquet"):
        on_disk[path.parent.name][path.name] = path.stat().st_size
    assert sizes_by_partition(all_files(reader)) == on_disk
    assert partition_paths(reader) == ("ap ö", "eu")
    assert sizes_by_partition(files_of(reader, ["eu", "none"])) == {"eu": on_disk["eu"]}
    assert not reader.is_ahead


def test_statistics_are_those_of_the_rows(table: Path, reader: MetadataTableReader) -> None:
    files = [(path.parent.name, path.name) for path in table.glob("*/*.parquet")]
    found = column_statistics(reader, COLUMNS, files)
    # Hudi keeps none of a file without rows.
    assert {file for file in files if file not in found} == {file for file in files if not _rows(table, *file).num_rows}
    for file, statistics in found.items():
        assert set(statistics) == set(COLUMNS)
        for column, stored in statistics.items():
            _require_true(stored, _rows(table, *file)[column])


def test_partition_statistics_bound_the_rows(table: Path, reader: MetadataTableReader) -> None:
    # Hudi keeps none in tables of version 6.
    kept = ["eu", "ap ö"] if "partition_stats" in reader.partitions else []
    for partition, statistics in partition_statistics(reader, COLUMNS, kept).items() if kept else ():
        rows = pa.concat_tables([_rows(table, *file) for file in _latest(reader) if file[0] == partition])
        for column, stored in statistics.items():
            _require_true(stored, rows[column])


def test_bloom_filters_are_those_of_footers(table: Path, reader: MetadataTableReader) -> None:
    files = [(path.parent.name, path.name) for path in table.glob("*/*.parquet")]
    footers = {file: pq.read_metadata(table.joinpath(*file)).metadata[FILTER_KEY.encode()] for file in files}
    assert {file: stored.content for file, stored in bloom_filters(reader, [*files, ("eu", "none")]).items()} == footers


def test_locations_are_those_of_stored_keys(table: Path, reader: MetadataTableReader) -> None:
    stored = {
        key: (partition, BaseFileName.parse(name).file_id)
        for partition, name in _latest(reader)
        for key in _rows(table, partition, name)["_hoodie_record_key"].to_pylist()
    }
    assert _places(located_keys(concatenated(list(reader.scan("record_index"))))) == stored
    assert _places(record_locations(reader, pa.array([*stored, "k006", "none"]))) == stored


def test_lookups_find_what_scans_find(reader: MetadataTableReader) -> None:
    for partition in reader.partitions:
        cells = concatenated(list(reader.scan(partition)))
        assert reader.lookup(partition, cells["key"]).to_pylist() == cells.to_pylist()
        for row in cells.slice(0, 20).to_pylist():
            assert reader.lookup(partition, pa.array([row["key"]])).to_pylist() == [row]
        assert reader.lookup(partition, pa.array(["", "none"])).num_rows == 0


def test_partitions_have_own_indexes(tmp_path: Path) -> None:
    reader = metadata_reader(unpack_metadata_table("v9_partitioned_index", tmp_path))
    keys = pa.array([f"k{number}" for number in range(24)])
    for partition, first in (("region=a%2Fb_c%3Dd", 0), ("region=x y%3Az%25", 1)):
        located = record_locations(reader, keys, partition).to_pylist()
        assert {row["record_key"] for row in located} == {f"k{number}" for number in range(first, 24, 2)}
        assert {row["partition_path"] for row in located} == {partition}
    assert record_locations(reader, keys, "region=none").num_rows == 0


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_dead_commits_do_not_count(name: str, tmp_path: Path) -> None:
    table = unpack_metadata_table(name, tmp_path)
    before = metadata_reader(table)
    timeline = max(path.parent for path in table.glob(".hoodie/**/*.commit") if "metadata" not in path.parts)
    completed = max(path for path in timeline.glob("*.commit"))
    instant = completed.name.split("_")[0].split(".")[0]
    cleans = [path for path in timeline.glob("*.clean*") if path.name >= instant]
    for path in (completed, *cleans):
        path.unlink()
    after = metadata_reader(table)
    assert not any(instant in name for name in all_files(after)["name"].to_pylist())
    lost = set(_places(_located(before))) ^ set(_places(_located(after)))
    assert lost == {"k005", "k020"}


@pytest.mark.parametrize("name", ["v9"])
def test_damaged_partitions_are_refused(name: str, tmp_path: Path) -> None:
    table = unpack_metadata_table(name, tmp_path)
    for path in table.glob(".hoodie/metadata/files/*.hfile"):
        content = bytearray(path.read_bytes())
        content[len(content) // 4 : len(content) // 2] = bytes(len(content) // 2 - len(content) // 4)
        path.write_bytes(content)
    with pytest.raises(CorruptTableError):
        all_files(metadata_reader(table))
    for path in table.glob(".hoodie/metadata/record_index/*record-index-0000*"):
        path.unlink()
    with pytest.raises(CorruptTableError):
        metadata_reader(table).groups("record_index")
    with pytest.raises(UnsupportedTableError):
        metadata_reader(table).groups("vectors")


def _require_true(stored: ColumnStatistics, column: pa.ChunkedArray) -> None:
    assert (stored.value_count, stored.null_count) == (len(column), column.null_count)
    bounds = pc.min_max(column)
    for bound, value in ((stored.minimum, bounds["min"]), (stored.maximum, bounds["max"])):
        assert (bound is None) == (not value.is_valid)
        found = bound_value(bound, stored.value_type, column.type)
        assert found == value or (found is None and (bound is None or _may_be_unknown(bound, column.type)))


def _may_be_unknown(bound: Bound, kind: pa.DataType) -> bool:
    """Strings beyond the plane of UTF-16 units, and decimals that Hudi 0.15 compacted."""
    has_surrogates = isinstance(bound.value, str) and max(bound.value) > "\ud7ff"
    return has_surrogates or (pa.types.is_decimal(kind) and isinstance(bound.value, bytes))


def _latest(reader: MetadataTableReader) -> Iterator[tuple[str, str]]:
    """The newest file of each file group."""
    newest: dict[tuple[str, str], BaseFileName] = {}
    for partition, files in sizes_by_partition(all_files(reader)).items():
        for name in map(BaseFileName.parse, files):
            known = newest.get((partition, name.file_id))
            if known is None or known.instant < name.instant:
                newest[partition, name.file_id] = name
    return ((partition, str(name)) for (partition, _), name in newest.items())


def _located(reader: MetadataTableReader) -> pa.RecordBatch:
    return located_keys(concatenated(list(reader.scan("record_index"))))


def _places(located: pa.RecordBatch) -> dict[str, tuple[str, str]]:
    return {row["record_key"]: (row["partition_path"], row["file_id"]) for row in located.to_pylist()}


def _rows(table: Path, partition: str, name: str) -> pa.Table:
    return pq.read_table(table / partition / name, partitioning=None)
