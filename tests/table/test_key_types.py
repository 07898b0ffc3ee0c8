"""One value has one key, in whatever type it arrives; a value that would change in its column is refused."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rli import InvalidInputError, InvalidKeyError, SchemaError, Step, Table, create_table
from tests.support.index_kinds import Kind, every_kind
from tests.support.tables import check_stored

DAYS = [date(2024, 1, 1), date(2024, 2, 29)]

FITTING = {
    "another scale": (
        pa.array([Decimal("1.00"), Decimal("2.50")]),
        pa.array([Decimal("1.0"), Decimal("2.5")]),
        ["1.00", "2.50"],
    ),
    "a finer scale": (
        pa.array([Decimal("1.0"), Decimal("2.5")]),
        pa.array([Decimal("1.000"), Decimal("2.500")]),
        ["1.0", "2.5"],
    ),
    "decimals of 256 bits": (
        pa.array([Decimal("1.0"), Decimal("2.5")]),
        pa.array([Decimal(1), Decimal("2.5")], pa.decimal256(50, 9)),
        None,
    ),
    "integers for decimals": (
        pa.array([Decimal("1.00"), Decimal("2.00")], pa.decimal128(5, 2)),
        pa.array([1, 2]),
        ["1.00", "2.00"],
    ),
    "decimals for integers": (pa.array([1, 2]), pa.array([Decimal("1.00"), Decimal("2.00")]), ["1", "2"]),
    "wider integers": (pa.array([1, -2], pa.int32()), pa.array([1, -2], pa.int64()), ["1", "-2"]),
    "narrower integers": (pa.array([1, 2], pa.int64()), pa.array([1, 2], pa.uint8()), ["1", "2"]),
    "unsigned integers": (pa.array([1, 2], pa.int64()), pa.array([1, 2], pa.uint64()), ["1", "2"]),
    "doubles for integers": (pa.array([1, 0], pa.int64()), pa.array([1.0, -0.0]), ["1", "0"]),
    "dates of milliseconds": (pa.array(DAYS, pa.date32()), pa.array(DAYS, pa.date64()), ["2024-01-01", "2024-02-29"]),
    "text of another type": (pa.array(["a", "b"]), pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
    "a dictionary": (
        pa.array([Decimal("1.00"), Decimal("2.50")]),
        pa.array([Decimal("1.0"), Decimal("2.5")]).dictionary_encode(),
        None,
    ),
}


def rows(values: pa.Array, v: int) -> pa.Table:
    return pa.table({"id": values, "city": values, "ts": [v] * len(values), "v": [v] * len(values)})


def stored(table: Table) -> list[tuple[Any, Any, int]]:
    columns = table.read(columns=["_hoodie_record_key", "_hoodie_partition_path", "v"]).to_pylist()
    return sorted((row["_hoodie_record_key"], row["_hoodie_partition_path"], row["v"]) for row in columns)


@pytest.mark.parametrize("name", FITTING)
def test_one_value_has_one_key(name: str, tmp_path: Path, memory_url: str) -> None:
    first, second, texts = FITTING[name]
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=memory_url)
    table.upsert(rows(first, 1))
    keys = texts or first.cast(pa.string()).to_pylist()
    done = table.upsert(rows(second, 2))
    assert (done.inserted, done.updated, done.moved) == (0, 2, 0)
    assert stored(table) == sorted((key, key, 2) for key in keys)
    assert table.insert(rows(second, 3)).unchanged == 2
    assert table.lookup(second)["record_key"].to_pylist() == keys
    assert table.lookup(second)["file_id"].null_count == 0
    assert table.get(second, columns=["id"])["id"].to_pylist() == first.to_pylist()
    assert table.get(rows(second, 9), columns=["v"])["v"].to_pylist() == [2, 2]
    check_stored(table)
    assert table.delete(second[:1]).deleted == 1
    assert table.delete(rows(second, 9).select(["id"])).deleted == 1
    assert table.read().num_rows == 0


@every_kind
def test_value_has_same_key_everywhere(kind: Kind, tmp_path: Path) -> None:
    first, second, _ = FITTING["another scale"]
    table = kind.create(tmp_path)
    table.upsert(rows(first, 1))
    assert table.upsert(rows(second, 2)).updated == 2
    assert table.insert(rows(second, 3)).unchanged == 2
    assert stored(table) == [("1.00", "1.00", 2), ("2.50", "2.50", 2)]
    assert table.lookup(second)["partition_path"].to_pylist() == ["1.00", "2.50"]
    assert table.get(second)["v"].to_pylist() == [2, 2]
    assert table.delete(second).deleted == 2
    assert table.verify_index().agrees


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (pa.array([Decimal("1.00")]), pa.array([Decimal("1.00"), Decimal("1.005")]), "row=1 value=Decimal.'1.005'"),
        (pa.array([Decimal("1.00")]), pa.array([Decimal("1.0"), Decimal("1234.0")]), "row=1 value=Decimal.'1234.0'"),
        (pa.array([1], pa.int32()), pa.array([1, 2**31]), "row=1 value=2147483648"),
        (pa.array([1], pa.int64()), pa.array([1, 2**63], pa.uint64()), "row=1 value=9223372036854775808"),
        (pa.array([1]), pa.array([1.0, 1.5]), "row=1 value=1.5"),
        (pa.array([1]), pa.array([1.0, 2.0**53 + 2]), "row=1 value=9007199254740994.0"),
        (pa.array([1]), pa.array([1.0, float("inf")]), "row=1 value=inf"),
        (pa.array([1]), pa.array([Decimal("1.0"), Decimal("1.5")]), "row=1 value=Decimal.'1.5'"),
    ],
)
def test_a_changing_value_is_refused(
    first: pa.Array, second: pa.Array, named: str, tmp_path: Path, memory_url: str
) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", index=memory_url)
    table.upsert(rows(first, 1))
    before = table.read()
    for use in (table.upsert, table.insert, table.delete, table.get, table.lookup):
        with pytest.raises(InvalidKeyError, match=rf"would change in its column: column=id.* {named}"):
            use(rows(second, 2))
    with pytest.raises(InvalidKeyError, match=rf"would change in its column: column=city.* {named}"):
        table.upsert(rows(second, 2).set_column(0, "id", [first.take([0] * len(second))]))
    assert table.read() == before
    assert len(table.timeline()) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array(["1"]), pa.array([1])),
        (pa.array([1]), pa.array(["1"])),
        (pa.array([1]), pa.array([True])),
        (pa.array(DAYS[:1]), pa.array([datetime(2024, 1, 1)])),  # noqa: DTZ001  (what pandas has for a day)
        (pa.array([Decimal("1.0")]), pa.array([1.0])),
    ],
)
def test_key_of_other_kind_is_refused(first: pa.Array, second: pa.Array, tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)
    table.upsert(pa.table({"id": first, "v": [1]}))
    for use in (table.upsert, table.insert, table.delete, table.get, table.lookup):
        with pytest.raises(SchemaError, match="column=id"):
            use(pa.table({"id": second, "v": [1]}))
    if not pa.types.is_string(second.type):
        with pytest.raises(InvalidKeyError, match="neither strings nor values of the key column"):
            table.delete(second.to_pylist())
    assert table.read().num_rows == 1


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.float64(), pa.binary()])
def test_ambiguously_spelled_values_are_no_keys(kind: pa.DataType, tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="p", index=memory_url)
    value = {"double": 1.0, "binary": b"x"}.get(str(kind), datetime(2024, 1, 1))  # noqa: DTZ001
    with pytest.raises(SchemaError, match="record-key column has a type that is no key: column=id"):
        table.upsert(pa.table({"id": pa.array([value], kind), "p": ["x"]}))
    with pytest.raises(SchemaError, match="partition column has a type that is no key: column=p"):
        table.upsert(pa.table({"id": ["x"], "p": pa.array([value], kind)}))


def given_forms() -> dict[str, Any]:
    """The first two of the days, as users hold them."""
    days = pa.table({"id": pa.array(DAYS, pa.date64()), "other": [1, 2]})
    return {
        "texts": ["2024-01-01", "2024-02-29"],
        "array of texts": pa.array(["2024-01-01", "2024-02-29"], pa.string_view()),
        "series of texts": pd.Series(["2024-01-01", "2024-02-29"]),
        "iterator of texts": iter(["2024-01-01", "2024-02-29"]),
        "categories": pl.Series(["2024-01-01", "2024-02-29"]).cast(pl.Categorical),
        "dates": DAYS,
        "iterator of dates": iter(DAYS),
        "tuple": tuple(DAYS),
        "array": pa.array(DAYS),
        "chunks": pa.chunked_array([DAYS[:1], DAYS[1:]]),
        "dictionary": pa.array(DAYS).dictionary_encode(),
        "pandas series": pd.Series(DAYS),
        "polars series": pl.Series(DAYS),
        "table": days,
        "whole keys": pa.table({"_hoodie_record_key": ["2024-01-01", "2024-02-29"]}),
        "batch": days.to_batches()[0],
        "batches": days.to_batches(max_chunksize=1),
        "reader": days.to_reader(),
        "stream": Streamed(days),
        "struct": days.to_struct_array(),
        "pandas frame": pd.DataFrame({"id": DAYS, "other": [1, 2]}, index=[7, 3]),
        "polars categories": pl.DataFrame(
            {"_hoodie_record_key": pl.Series(["2024-01-01", "2024-02-29"]).cast(pl.Categorical)}
        ),
        "polars frame": pl.DataFrame({"id": DAYS, "other": [1, 2]}),
    }


class Streamed:
    """An object that Arrow takes a stream of, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("form", given_forms())
def test_keys_are_given_in_any_form(form: str, tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)
    table.upsert(pa.table({"id": [*DAYS, date(2000, 1, 1)], "v": [1, 2, 3]}))
    assert table.lookup(given_forms()[form])["record_key"].to_pylist() == ["2024-01-01", "2024-02-29"]
    assert table.get(given_forms()[form])["v"].to_pylist() == [1, 2]
    assert table.delete(given_forms()[form]).deleted == 2
    assert table.read()["v"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("keys", "error", "named"),
    [
        ([1, None], InvalidKeyError, "null: column=id row=1"),
        ([1, "2"], InvalidKeyError, "no string"),
        ([10**30], InvalidKeyError, "no string"),
        (b"12", InvalidInputError, "single string"),
        (7, InvalidInputError, "these are no record keys: type=int"),
        ("1", InvalidInputError, "single string"),
        (pa.table({"v": [1]}), SchemaError, "record-key column is missing: column=id"),
        (pd.DataFrame({"ID": [1]}), SchemaError, "record-key column is missing: column=id"),
        (pa.table([[1], [2]], names=["id", "id"]), SchemaError, "occurs twice: column=id"),
        (pa.table({"id": [1, None]}), InvalidKeyError, "null: column=id row=1"),
    ],
)
def test_what_is_no_key_is_named(
    keys: Any, error: type[Exception], named: str, tmp_path: Path, memory_url: str
) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)
    table.upsert(pa.table({"id": [1, 2], "v": [1, 2]}))
    for use in (table.delete, table.get, table.lookup):
        with pytest.raises(error, match=named):
            use(keys)
    assert table.read().num_rows == 2


def test_composite_keys_are_given_as_columns(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key=["a", "b"], index=memory_url)
    table.upsert(pa.table({"a": ["x", "x"], "b": pa.array([Decimal("1.00"), Decimal("2.00")]), "v": [1, 2]}))
    keys = pa.table({"b": pa.array([Decimal("2.0")]), "a": ["x"]})
    assert table.lookup(keys)["record_key"].to_pylist() == ["a:x,b:2.00"]
    assert table.get(keys)["v"].to_pylist() == table.get(["a:x,b:2.00"])["v"].to_pylist() == [2]
    with pytest.raises(InvalidKeyError, match=r"type=int64 key columns=\['a', 'b'\]; pass strings such as a:1,b:1"):
        table.delete([1])
    assert table.delete(keys).deleted == 1


def test_first_writer_decides_key_type(tmp_path: Path, memory_url: str) -> None:
    """The other one has formed its keys by then, in the types of its own records."""
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=memory_url)
    fine, coarse, _ = FITTING["another scale"]
    formed, written = Event(), Event()
    done = []

    def pause(step: Step) -> None:
        if step is Step.REQUESTED:
            formed.set()
            written.wait(60)

    second = Thread(target=lambda: done.append(table.upsert(rows(coarse, 2), on_step=pause)))
    second.start()
    assert formed.wait(60)
    # Its instant is older, so it has to begin again, behind the other one's commit.
    table.upsert(rows(fine, 1))
    written.set()
    second.join(60)
    assert (done[0].inserted, done[0].updated) == (0, 2)
    assert stored(table) == [("1.00", "1.00", 2), ("2.50", "2.50", 2)]
    assert table.verify_index().agrees


def test_rolled_back_table_takes_new_types(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=memory_url)
    fine, coarse, _ = FITTING["another scale"]
    table.upsert(rows(fine, 1))
    table.rollback("last")
    table.upsert(rows(coarse, 2))
    assert stored(table) == [("1.0", "1.0", 2), ("2.5", "2.5", 2)]


def test_categories_of_polars_are_strings(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", index=memory_url)
    frame = pl.DataFrame({"id": ["a", "b"], "city": ["x", "y"]}).with_columns(pl.all().cast(pl.Categorical))
    assert table.upsert(frame).inserted == 2
    assert table.get(frame)["city"].to_pylist() == ["x", "y"]
    assert table.delete(frame).deleted == 2


@pytest.mark.parametrize("kind", [pa.float64(), pa.timestamp("us"), pa.binary(), pa.list_(pa.int64())])
@pytest.mark.parametrize("column", ["id", "city"])
def test_a_schema_with_other_types(tmp_path: Path, column: str, kind: pa.DataType) -> None:
    schema = pa.schema([(name, kind if name == column else pa.string()) for name in ("id", "city")])
    with pytest.raises(SchemaError, match=f"type that is no key: column={column}"):
        create_table(tmp_path / "t", record_key="id", partition_by="city", schema=schema)
    assert not (tmp_path / "t").exists()


def test_a_dict_is_refused(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id")
    for verb in (table.delete, table.lookup, table.get):
        with pytest.raises(InvalidInputError, match=r"is neither keys nor rows; pass pyarrow.table"):
            verb({"id": [1]})


def test_lazy_frame_must_be_collected(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id")
    lazy = pl.LazyFrame({"id": [1]})
    for verb in (table.upsert, table.insert, table.delete, table.lookup):
        with pytest.raises(InvalidInputError, match="type=LazyFrame; collect it"):
            verb(lazy)
