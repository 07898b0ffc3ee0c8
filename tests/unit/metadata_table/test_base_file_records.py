from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli import create_table
from rli.errors import CorruptTableError
from rli.hudi.base_file_writer import nan_entry
from rli.hudi.metadata.records import Bound, ColumnStatistics, ValueType
from rli.hudi.metadata.statistic_values import StatisticsVersion
from rli.hudi.metadata.views import column_statistics
from rli.metadata_table.base_file_records import base_file_records
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.storage import Storage
from tests.support.metadata_tables import METADATA_TABLES, metadata_reader, unpack_metadata_table

FILE = "0b6e8a52-4a4f-4d6f-9b0e-0f9d7a3a6c11-0_0-1-2_20240531120000123.parquet"
V1, V2 = StatisticsVersion.V1, StatisticsVersion.V2


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_statistics_equal_those_of_hudi(name: str, tmp_path: Path) -> None:
    table = unpack_metadata_table(name, tmp_path)
    files = [(path.parent.name, path.name) for path in table.glob("*/*.parquet")]
    columns: tuple[str, ...] = (
        "_hoodie_record_key",
        "id",
        "ts",
        "amount",
        "n",
        "f",
        "d",
        "price",
        "at",
        "ok",
        "raw",
        "note",
    )
    of_hudi = column_statistics(metadata_reader(table), columns, files)
    version = V2 if any(one.value_type for found in of_hudi.values() for one in found.values()) else V1
    if name == "v6_by_0.15":
        # Decimals are bytes of another scale there, and dates plain numbers.
        columns = tuple(column for column in columns if column not in {"price", "d"})
    for file in files:
        ours = base_file_records(Storage(str(table)), "/".join(file), IndexedColumns(columns, version)).statistics
        assert ours == {column: found for column, found in of_hudi.get(file, {}).items() if column in columns}


def _read(folder: Path, version: StatisticsVersion) -> ColumnStatistics | None:
    columns = IndexedColumns(("c", "none"), version)
    return base_file_records(Storage(str(folder)), FILE, columns).statistics.get("c")


def _statistics(
    folder: Path, values: pa.Array, version: StatisticsVersion = V2, **options: object
) -> ColumnStatistics | None:
    pq.write_table(pa.table({"c": values}), folder / FILE, **options)
    return _read(folder, version)


def _bounds(folder: Path, values: pa.Array, version: StatisticsVersion = V2) -> tuple[object, object]:
    found = _statistics(folder, values, version, row_group_size=2)
    assert found is not None
    assert (found.value_count, found.null_count) == (len(values), values.null_count)
    return found.minimum, found.maximum


def test_bounds_span_all_row_groups(tmp_path: Path) -> None:
    values = pa.array([3, 4, None, None, 1, 2, 9], pa.int32())
    assert _bounds(tmp_path, values) == (Bound("IntWrapper", 1), Bound("IntWrapper", 9))
    assert _bounds(tmp_path, pa.array(["b", "é", "", "😀"])) == (
        Bound("StringWrapper", ""),
        Bound("StringWrapper", "😀"),
    )
    binary = pa.array([b"\xff", b"\x00", b"a"])
    assert _bounds(tmp_path, binary) == (Bound("BytesWrapper", b"\x00"), Bound("BytesWrapper", b"\xff"))
    flags = pa.array([True, True, False])
    assert _bounds(tmp_path, flags) == (Bound("BooleanWrapper", value=False), Bound("BooleanWrapper", value=True))


def test_nulls_alone_have_no_bounds(tmp_path: Path) -> None:
    assert _bounds(tmp_path, pa.nulls(3, pa.string())) == (None, None)


def test_zero_bounds_include_both_zeros(tmp_path: Path) -> None:
    found = _statistics(tmp_path, pa.array([0.0, 0.0]))
    assert found is not None
    signs = [math.copysign(1, bound.value) for bound in (found.minimum, found.maximum)]  # type: ignore[union-attr,arg-type]
    assert signs == [-1, 1]


def test_files_with_nan_have_none(tmp_path: Path) -> None:
    assert _statistics(tmp_path, pa.array([1.0, math.nan, 2.0])) is None
    assert _statistics(tmp_path, pa.array([math.nan], pa.float32())) is None


def test_footers_of_rli_tell_of_nan(tmp_path: Path) -> None:
    folder = tmp_path / "of rli"
    table = create_table(folder, record_key="id", index="simple:")
    table.insert(pa.table({"id": ["a", "b"], "c": [1.0, math.nan], "d": [1.0, 2.0]}))
    (file,) = folder.glob("*.parquet")
    columns = IndexedColumns(("c", "d"), V2)
    assert base_file_records(Storage(str(folder)), file.name, columns).statistics.keys() == {"d"}
    # Writers that join files may keep the entry of another file.
    entries = pq.read_metadata(file).metadata
    values = pa.table({"c": [1.0, 2.0], "d": [1.0, math.nan]}).replace_schema_metadata(entries)
    pq.write_table(values, folder / FILE)
    assert base_file_records(Storage(str(folder)), FILE, columns).statistics.keys() == {"c"}
    # Where the entry is that of the file, no column is read.
    own = nan_entry(FILE, {"c"})
    pq.write_table(values.replace_schema_metadata(own), folder / FILE)
    assert base_file_records(Storage(str(folder)), FILE, columns).statistics.keys() == {"d"}


def test_decimals_have_their_scale(tmp_path: Path) -> None:
    values = pa.array([Decimal("-3.99"), None, Decimal("12.50")], pa.decimal128(12, 2))
    assert _bounds(tmp_path, values) == (Bound("BytesWrapper", b"\xfe\x71"), Bound("BytesWrapper", b"\x04\xe2"))
    assert _statistics(tmp_path, values).value_type == ValueType(10, "12,2")  # type: ignore[union-attr]
    of_v1 = _bounds(tmp_path, values, V1)
    assert of_v1 == (Bound("DecimalWrapper", Decimal("-3.99")), Bound("DecimalWrapper", Decimal("12.50")))
    assert _statistics(tmp_path, pa.array([Decimal("1e20")], pa.decimal128(38, 2)), V1) is None


@pytest.mark.parametrize(("zone", "ordinal"), [("UTC", 16), (None, 19)])
def test_moments_are_microseconds_since_1970(tmp_path: Path, zone: str | None, ordinal: int) -> None:
    moment = datetime(1500, 1, 1, tzinfo=UTC if zone else None)
    values = pa.array([moment, moment], pa.timestamp("us", zone))
    least, _ = _bounds(tmp_path, values)
    assert least == Bound("LongWrapper", -14831769600000000)
    assert _statistics(tmp_path, values).value_type == ValueType(ordinal)  # type: ignore[union-attr]


def test_days_of_other_calendars_have_none(tmp_path: Path) -> None:
    old, new = pa.array([date(1500, 1, 1)]), pa.array([date(1582, 10, 15)])
    assert _bounds(tmp_path, old) == (Bound("IntWrapper", -171664), Bound("IntWrapper", -171664))
    moments = old.cast(pa.timestamp("us", "UTC"))
    for values, is_known in ((old, False), (new, True), (moments, False)):
        table = pa.table({"c": values}).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
        pq.write_table(table, tmp_path / FILE)
        assert (_read(tmp_path, V2) is not None) is is_known


def test_long_strings_have_true_bounds(tmp_path: Path) -> None:
    values = pa.array(["é" * 800, "😀" * 800])
    assert _bounds(tmp_path, values) == (Bound("StringWrapper", "é" * 800), Bound("StringWrapper", "😀" * 800))
    assert _statistics(tmp_path, pa.array(["a" * 5000, "b"])) is None


def test_fields_of_structures_have_statistics(tmp_path: Path) -> None:
    """As Hudi 1.2 keeps them: a structure that is null counts as a null of each field."""
    values = pa.array(
        [{"a": 1, "b": {"c": "p", "d": 1.5}, "e": [1]}, {"a": 5, "b": None, "e": None}, None],
        pa.struct(
            [
                ("a", pa.int64()),
                ("b", pa.struct([("c", pa.string()), ("d", pa.float64())])),
                ("e", pa.list_(pa.int64())),
            ]
        ),
    )
    pq.write_table(pa.table({"s": values}), tmp_path / FILE)
    columns = IndexedColumns(("s", "s.a", "s.b.c", "s.b.d", "s.e", "s.e.list.element", "s.none"), V2)
    found = base_file_records(Storage(str(tmp_path)), FILE, columns).statistics
    assert {name: (one.minimum, one.maximum, one.value_count, one.null_count) for name, one in found.items()} == {
        "s.a": (Bound("LongWrapper", 1), Bound("LongWrapper", 5), 3, 1),
        "s.b.c": (Bound("StringWrapper", "p"), Bound("StringWrapper", "p"), 3, 2),
    }


def test_columns_in_doubt_have_none(tmp_path: Path) -> None:
    assert _statistics(tmp_path, pa.array([1]), write_statistics=False) is None
    assert _statistics(tmp_path, pa.array([{"a": 1}])) is None
    assert _statistics(tmp_path, pa.array([[1]])) is None
    assert _statistics(tmp_path, pa.array([1], pa.uint64())) is None
    assert _statistics(tmp_path, pa.array([], pa.int64())) is None


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"PAR1")
    with pytest.raises(CorruptTableError, match=FILE):
        _read(tmp_path, V2)
