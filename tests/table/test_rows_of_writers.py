"""Rows that do not fit are refused with their row and column, and no value changes on its way into the table."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli import BufferedWriter, InvalidInputError, InvalidKeyError, SchemaError, Table
from rli.model import MissingColumns
from rli.write.buffered.buffer import Buffer
from rli.write.buffered.rows import RowChoices, RowForm
from tests.support.tables import records, rows_of

GOOD = {"id": "a", "city": "x", "ts": 1, "v": 1.0}
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "text": (pa.string(), st.text() | st.just("ß")),
    "small": (pa.int32(), st.integers(-(2**33), 2**33)),
    "large": (pa.int64(), st.integers(-(2**65), 2**65)),
    "real": (pa.float64(), st.floats(allow_nan=False) | st.integers(-(2**54), 2**54)),
    "flag": (pa.bool_(), st.booleans()),
    "raw": (pa.binary(), st.binary()),
    "day": (pa.date32(), st.dates()),
    "time": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
    "price": (pa.decimal128(9, 2), st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(-99, 99, places=2)),
    "parts": (pa.list_(pa.int64()), st.lists(st.integers(-9, 9), min_size=1)),
}


@pytest.fixture
def writer(trips: Table) -> BufferedWriter:
    trips.upsert(records(("first", "x", 1, 1.0)))
    return trips.writer(max_seconds=None)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"ts": 1.5}, "row=1 column=ts type=int64 value=1.5"),
        ({"ts": "5"}, "row=1 column=ts"),
        ({"ts": True}, "row=1 column=ts"),
        ({"ts": 2**64}, "row=1 column=ts"),
        ({"v": "much"}, "row=1 column=v"),
        ({"city": b"x"}, "row=1 column=city"),
        ({"city": "\ud800"}, "row=1 column=city"),
        ({"colour": "red"}, "row=1 column=colour"),
    ],
)
def test_bad_values_name_their_place(writer: BufferedWriter, bad: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        writer.write([GOOD, {**GOOD, **bad}])
    assert caught.value.row == 1
    with pytest.raises(SchemaError, match=message.replace("row=1", "row=0")):
        writer.write({**GOOD, **bad})
    assert writer.unwritten == ()


@pytest.mark.parametrize("key", [None, ""])
def test_rows_need_keys(writer: BufferedWriter, key: str | None) -> None:
    for rows in ({**GOOD, "id": key}, [{**GOOD, "id": key}], records((key, "x", 1, 1.0))):
        with pytest.raises(InvalidKeyError, match="row=0 column=id"):
            writer.write(rows)
    assert writer.unwritten == ()


def test_lacking_columns_are_refused(writer: BufferedWriter) -> None:
    with pytest.raises(SchemaError, match="row=0 column=v"):
        writer.write({"id": "a", "city": "x", "ts": 1})
    with pytest.raises(SchemaError, match="'v'"):
        writer.write(pa.table({"id": ["a"], "city": ["x"], "ts": [1]}))
    with pytest.raises(SchemaError, match="colour"):
        writer.write(records(("a", "x", 1, 1.0)).append_column("colour", [["red"]]))
    for other in (7, [7], None):
        with pytest.raises(InvalidInputError):
            writer.write(other)


def test_changed_rows_stay_as_written(writer: BufferedWriter) -> None:
    row = dict(GOOD)
    writer.write(row)
    row["id"] = "changed"
    assert [table["id"].to_pylist() for table in writer.unwritten] == [["a"]]


def test_new_tables_take_types_of_rows(trips: Table) -> None:
    with pytest.raises(SchemaError, match=r"columns=\['v'\]; .*schema="):
        trips.writer().write({**GOOD, "v": None})
    with trips.writer() as writer:
        writer.write(GOOD)
        writer.write({**GOOD, "id": "b", "v": None})
    assert rows_of(trips) == [GOOD, {**GOOD, "id": "b", "v": None}]


@given(data=st.data())
def test_values_arrive_as_given(data: st.DataObject) -> None:
    """A value is refused, or it is in the buffer as it was given, alone and among others."""

    schema = pa.schema([("id", pa.string()), *((name, kind) for name, (kind, _) in TYPES.items())])
    form = RowForm.of(schema, RowChoices(("id",), None, MissingColumns.FAIL))
    buffer, taken = Buffer(1), []
    for number in range(3):
        row = {"id": f"k{number}", **{name: data.draw(st.none() | values) for name, (_, values) in TYPES.items()}}
        size = form.size_of(row)
        try:
            if size is None:
                buffer.add_table(form, form.table_of([row]))
            else:
                buffer.add_row(form, row, size)
            taken.append(row)
        except SchemaError:
            assert size is None
    assert buffer.table(form).to_pylist() == taken


def test_usual_types_go_the_quick_way() -> None:
    values = [
        ("s", 1),
        ("d", date(2026, 1, 1)),
        ("t", datetime(2026, 1, 1, tzinfo=UTC)),
        ("p", Decimal("1.25")),
        ("b", b"x"),
    ]
    row = {"id": "ä", "f": 1.0, "y": True, **dict(values)}
    kinds = {"s": pa.int64(), "d": pa.date32(), "t": pa.timestamp("us"), "p": pa.decimal128(9, 2), "b": pa.binary()}
    schema = pa.schema([("id", pa.string()), ("f", pa.float64()), ("y", pa.bool_()), *kinds.items()])
    form = RowForm.of(schema, RowChoices(("id",), None, MissingColumns.FAIL))
    assert form.size_of(row) is not None
    assert form.plain([row]).to_pylist() == [row]
