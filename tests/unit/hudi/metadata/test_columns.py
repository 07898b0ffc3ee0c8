from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rli.errors import CorruptTableError
from rli.hudi.hfile.cells import concatenated
from rli.hudi.metadata.columns import file_lists, statistics_columns
from rli.hudi.metadata.record_codec import decode_record, encode_record
from rli.hudi.metadata.records import (
    Bound,
    BoundValue,
    ColumnStatistics,
    FileList,
    ListedFile,
    MetadataRecord,
    ValueType,
)
from rli.hudi.metadata.statistic_values import bound_value, bound_values
from tests.support.metadata_tables import METADATA_TABLES, metadata_reader, unpack_metadata_table

TYPES = [
    pa.bool_(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.decimal128(12, 2),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("ms"),
    pa.timestamp("us", tz="UTC"),
]
VALUES: list[tuple[str, BoundValue]] = [
    ("BooleanWrapper", False),
    ("IntWrapper", 70_000),
    ("IntWrapper", -3),
    ("LongWrapper", 1 << 60),
    ("FloatWrapper", 1.5),
    ("FloatWrapper", float("nan")),
    ("DoubleWrapper", -0.0),
    ("BytesWrapper", b"\xfe\x71"),
    ("StringWrapper", "plain"),
    ("StringWrapper", "Zürich"),
    ("StringWrapper", "\U00010000"),
    ("DateWrapper", 18_000),
    ("DecimalWrapper", Decimal("3.250000000000000")),
    ("TimestampMicrosWrapper", 1_700_000_000_000_001),
    ("LocalDateWrapper", -1),
]


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_columns_say_what_records_say(name: str, tmp_path: Path) -> None:
    reader = metadata_reader(unpack_metadata_table(name, tmp_path))
    for partition in {"column_stats", "partition_stats"}.intersection(reader.partitions):
        values = concatenated(list(reader.scan(partition)))["value"]
        rows = statistics_columns(values).to_pylist()
        for row, record in zip(rows, map(decode_record, values.to_pylist()), strict=True):
            assert isinstance(record, ColumnStatistics)
            assert (row["valueCount"], row["nullCount"]) == (record.value_count, record.null_count)
            assert (row["isDeleted"], row["isTightBound"]) == (record.is_deleted, record.is_tight)
            for bound, wrapped in ((record.minimum, row["minValue"]), (record.maximum, row["maxValue"])):
                held = {wrapper: value for wrapper, value in wrapped.items() if value is not None}
                assert held == ({} if bound is None else {bound.wrapper: bound.value})


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_bounds_together_are_those_alone(kind: pa.DataType) -> None:
    types = [None, *(ValueType(ordinal, "12,2" if ordinal == 10 else None) for ordinal in range(2, 21))]
    pairs = [(Bound(*value), value_type) for value in VALUES for value_type in types]
    columns = statistics_columns(_values([_statistics(bound, value_type) for bound, value_type in pairs]))
    wanted = pa.array(np.arange(len(pairs)) % 7 != 0)
    found = bound_values(columns["minValue"], columns["valueType"], wanted, kind)
    alone = [
        bound_value(*pair, kind) if is_wanted.as_py() else None for pair, is_wanted in zip(pairs, wanted, strict=True)
    ]
    assert found.equals(pa.array(alone, kind))


def test_listed_bounds_are_left_out() -> None:
    known = _statistics(Bound("LongWrapper", 1), None)
    values = [encode_record(known), _with_list(), encode_record(known)]
    rows = statistics_columns(pa.array(values, pa.binary())).to_pylist()
    assert [row["valueCount"] for row in rows] == [9, None, 9]


def test_other_records_are_refused() -> None:
    files = FileList({"a.parquet": ListedFile(3)})
    statistics = _statistics(Bound("LongWrapper", 1), None)
    assert file_lists(_values([files])).to_pylist() == [[("a.parquet", {"size": 3, "isDeleted": False})]]
    for read, other in ((file_lists, statistics), (statistics_columns, files)):
        with pytest.raises(CorruptTableError):
            read(_values([other]))
    for read, value in ((file_lists, encode_record(files)), (statistics_columns, encode_record(statistics))):
        for damaged in (value[:-1], value + b"\0", b"\0", b"\x7f" * len(value)):
            with pytest.raises(CorruptTableError):
                read(pa.array([value, damaged], pa.binary()))


def _values(records: list[MetadataRecord]) -> pa.Array:
    return pa.array([encode_record(record) for record in records], pa.binary())


def _statistics(bound: Bound, value_type: ValueType | None) -> ColumnStatistics:
    return ColumnStatistics("f.parquet", "c", bound, bound, 9, 0, 1, 2, value_type)


def _with_list() -> bytes:
    """Statistics whose bounds are lists without values: wrapper 13, null."""
    value = encode_record(_statistics(Bound("BooleanWrapper", value=True), None))
    return value.replace(b"\x02\x01\x02\x01", b"\x1a\x00\x1a\x00")
