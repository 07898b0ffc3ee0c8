from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.errors import CorruptTableError
from rli.hudi.metadata.merging import merged
from rli.hudi.metadata.record_codec import decode_record, encode_record
from rli.hudi.metadata.record_index import located_keys, location_cells
from rli.hudi.metadata.record_locations import instant_of, milliseconds_of
from rli.hudi.metadata.records import (
    Bound,
    ColumnStatistics,
    FileList,
    ListedFile,
    MetadataRecord,
    RecordLocation,
    SecondaryEntry,
    StoredBloomFilter,
    ValueType,
)
from rli.hudi.metadata.schema import METADATA_SCHEMA
from rli.hudi.metadata.statistic_values import StatisticsVersion, bound_value, stored_bound, value_type_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LONG = st.integers(-(2**63), 2**63 - 1)
COUNT = st.none() | st.integers(0, 2**63 - 1)
BOUNDS = st.none() | st.one_of(
    st.builds(Bound, st.just("LongWrapper"), LONG),
    st.builds(Bound, st.just("StringWrapper"), TEXT),
    st.builds(Bound, st.just("BytesWrapper"), st.binary(max_size=20)),
    st.builds(Bound, st.just("BooleanWrapper"), st.booleans()),
    st.builds(Bound, st.just("DoubleWrapper"), st.floats(allow_nan=False)),
    st.builds(Bound, st.just("DecimalWrapper"), st.decimals(-(10**14), 10**14, places=15)),
)
STATISTICS = st.builds(
    ColumnStatistics,
    st.none() | TEXT,
    st.none() | TEXT,
    BOUNDS,
    BOUNDS,
    COUNT,
    COUNT,
    COUNT,
    COUNT,
    st.none() | st.builds(ValueType, st.integers(0, 20), st.none() | TEXT),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
FILE_IDS = st.one_of(
    st.uuids().map(str),
    st.builds(lambda uuid, n: f"{uuid}-{n}", st.uuids(), st.integers(0, 10**9 - 1)),
    TEXT.filter(bool),
)
INSTANTS = st.integers(0, 2**31 * 1000).map(instant_of)
RECORDS = st.one_of(
    st.builds(
        FileList, st.dictionaries(TEXT, st.builds(ListedFile, st.integers(0, 2**63 - 1), st.booleans())), st.booleans()
    ),
    STATISTICS,
    st.builds(StoredBloomFilter, TEXT, TEXT, st.binary(max_size=50), st.booleans()),
    st.builds(RecordLocation, TEXT, FILE_IDS, INSTANTS),
    st.builds(SecondaryEntry, st.booleans()),
)


@given(RECORDS)
def test_records_survive_their_encoding(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


@given(st.binary(max_size=200))
def test_damaged_values_are_refused(value: bytes) -> None:
    # Any other exception fails the test.
    with suppress(CorruptTableError):
        decode_record(value)


@given(RECORDS, st.data())
def test_cut_values_are_refused(record: MetadataRecord, data: st.DataObject) -> None:
    value = encode_record(record)
    for damaged in (value[: data.draw(st.integers(0, len(value) - 1))], value + b"\0"):
        with pytest.raises(CorruptTableError):
            decode_record(damaged)


@given(RECORDS)
def test_records_are_written_as_avro(record: MetadataRecord) -> None:
    by_library = json.dumps(METADATA_SCHEMA)
    assert encode_record(record) == encode_record(record, by_library)


def test_locations_come_back_in_batches() -> None:
    locations = [
        RecordLocation("eu", "0b6e8a52-4a4f-4d6f-9b0e-0f9d7a3a6c11-0", "20240531120000123"),
        RecordLocation("", "bucket 7", "20240531120000124"),
    ]
    cells = location_cells(pa.array(["a", "é", "z"]), locations, np.array([1, 0, 1]))
    assert located_keys(cells).to_pylist() == [
        {"record_key": key, **_columns(locations[chosen])} for key, chosen in (("a", 1), ("é", 0), ("z", 1))
    ]


def test_instants_are_local_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert milliseconds_of("20240531120000123") == 1717171200123
        assert instant_of(1717171200123) == "20240531120000123"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, pa.bool_()),
        (-5, pa.int8()),
        (2**31 - 1, pa.int32()),
        (-(2**63), pa.int64()),
        (0.5, pa.float32()),
        (-1e300, pa.float64()),
        ("Zürich", pa.string()),
        (b"\x00\xff", pa.binary()),
        (Decimal("-3.99"), pa.decimal128(12, 2)),
        (date(1500, 1, 1), pa.date32()),
        (-1, pa.timestamp("ms", "UTC")),
        (1, pa.timestamp("us", "UTC")),
        (1, pa.timestamp("us")),
    ],
)
@pytest.mark.parametrize("version", list(StatisticsVersion))
def test_bounds_keep_their_values(value: object, kind: pa.DataType, version: StatisticsVersion) -> None:
    scalar = pa.scalar(value, kind)
    value_type = value_type_of(kind) if version == StatisticsVersion.V2 else None
    assert bound_value(stored_bound(scalar, version), value_type, kind) == scalar


@pytest.mark.parametrize(
    ("bound", "value_type", "kind"),
    [
        (Bound("DoubleWrapper", float("nan")), None, pa.float64()),
        (Bound("StringWrapper", "\U0001f600"), None, pa.string()),
        (Bound("BytesWrapper", b"\x01"), None, pa.decimal128(12, 2)),
        (Bound("LongWrapper", 2**60 + 1), None, pa.float64()),
        (Bound("LongWrapper", 2**40), None, pa.int32()),
        (Bound("BytesWrapper", b"\x01"), ValueType(10, "12,3"), pa.decimal128(12, 2)),
        (Bound("StringWrapper", "x"), None, pa.int32()),
        (Bound("LongWrapper", 1), ValueType(17), pa.timestamp("us", "UTC")),
    ],
)
def test_inexact_bounds_are_unknown(bound: Bound, value_type: ValueType | None, kind: pa.DataType) -> None:
    assert bound_value(bound, value_type, kind) is None


def test_removed_files_leave_lists() -> None:
    older = FileList({"a": ListedFile(1), "b": ListedFile(2)})
    newer = FileList({"a": ListedFile(0, is_deleted=True), "b": ListedFile(1), "c": ListedFile(0, is_deleted=True)})
    assert merged(older, newer) == FileList({"b": ListedFile(2), "c": ListedFile(0, is_deleted=True)})


def test_statistics_widen_unless_tight() -> None:
    older, newer = _statistics(1, 5), _statistics(3, 9)
    assert merged(older, newer) == _statistics(1, 9, count=4)
    tight = _statistics(3, 9, is_tight=True)
    assert merged(older, tight) == tight


def test_decimals_widen_by_their_numbers() -> None:
    decimal = ValueType(10, "12,2")
    older = _statistics(b"\xfe\x71", b"\x01", value_type=decimal, wrapper="BytesWrapper")
    newer = _statistics(b"\x00", b"\x09\x18", value_type=decimal, wrapper="BytesWrapper")
    widened = merged(older, newer)
    assert isinstance(widened, ColumnStatistics)
    assert (widened.minimum, widened.maximum) == (older.minimum, newer.maximum)


def test_bounds_without_order_are_unknown() -> None:
    unlike = _statistics("a", "b", wrapper="StringWrapper")
    unknown = merged(_statistics(1, 5), unlike)
    assert isinstance(unknown, ColumnStatistics)
    assert unknown.is_unknown
    again = merged(unknown, _statistics(1, 5))
    assert isinstance(again, ColumnStatistics)
    assert again.is_unknown


def _columns(location: RecordLocation) -> dict[str, str]:
    return {"partition_path": location.partition_path, "file_id": location.file_id, "instant": location.instant}


def _statistics(
    minimum: int | str | bytes,
    maximum: int | str | bytes,
    *,
    count: int = 2,
    wrapper: str = "IntWrapper",
    value_type: ValueType | None = None,
    is_tight: bool = False,
) -> ColumnStatistics:
    return ColumnStatistics(
        "f.parquet",
        "n",
        Bound(wrapper, minimum),
        Bound(wrapper, maximum),
        count,
        0,
        5 * count,
        5 * count,
        value_type,
        is_tight=is_tight,
    )
