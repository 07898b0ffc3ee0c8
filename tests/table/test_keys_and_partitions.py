"""Record keys of every kind, and tables with no, one or several partition columns."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from rli import InvalidKeyError, Table, create_table, open_table
from rli.hudi.properties import Key, save_properties
from rli.table.table import opened_table
from tests.support.tables import by_key, check_stored, live_files, rows_of

AWKWARD_KEYS = [
    "\0",
    "a\0b",
    "k" * 65_536,
    "\U0001f600\U0010ffff",
    "7",
    "007",
    "-7",
    "-0",
    "99999999999999999999",
    "123e4567-e89b-12d3-a456-426614174000",
    "123E4567-E89B-12D3-A456-426614174000",
    "123e4567e89b12d3a456426614174000",
    "{123e4567-e89b-12d3-a456-426614174000}",
    " ",
    "id:1,id:2",
    "null",
    "__null__",
    "/../x",
    "é",
    "e\u0301",
]


def test_awkward_keys_stay_distinct(trips: Table) -> None:
    def batch(ts: int) -> pa.Table:
        count = len(AWKWARD_KEYS)
        return pa.table({"id": AWKWARD_KEYS, "city": ["x", "y"] * (count // 2), "ts": [ts] * count})

    assert trips.upsert(batch(1)).inserted == len(AWKWARD_KEYS)
    assert trips.upsert(batch(2)).updated == len(AWKWARD_KEYS)
    assert set(by_key(trips.read().to_pylist())) == set(AWKWARD_KEYS)
    check_stored(trips)
    assert trips.delete(AWKWARD_KEYS[::2]).deleted == len(AWKWARD_KEYS) // 2
    assert set(by_key(trips.read().to_pylist())) == set(AWKWARD_KEYS[1::2])
    check_stored(trips)


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        (pa.array([0, -1, 127], pa.int8()), ["0", "-1", "127"]),
        (pa.array([-(2**63), 2**63 - 1, 0], pa.int64()), ["-9223372036854775808", "9223372036854775807", "0"]),
        (pa.array([0, 2**32 - 1, 5], pa.uint32()), ["0", "4294967295", "5"]),
        (pa.array([date(2024, 1, 2), date(1969, 12, 31), date(1, 1, 1)]), ["2024-01-02", "1969-12-31", "0001-01-01"]),
        (pa.array([Decimal("1.50"), Decimal("-0.01"), Decimal("100.00")]), ["1.50", "-0.01", "100.00"]),
        (pa.array(["b", "a", "c"]).dictionary_encode(), ["b", "a", "c"]),
        (pa.array(["b", "a", "c"], pa.large_string()), ["b", "a", "c"]),
        (pa.array(["b", "a", "c"], pa.string_view()), ["b", "a", "c"]),
    ],
    ids=["int8", "int64", "uint32", "date", "decimal", "dictionary", "large string", "string view"],
)
def test_key_columns_of_other_types(tmp_path: Path, memory_url: str, values: pa.Array, keys: list[str]) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)
    table.upsert(pa.table({"id": values, "v": [1, 2, 3]}))
    assert table.upsert(pa.table({"id": values, "v": [4, 5, 6]})).updated == 3
    assert table.read(columns=["_hoodie_record_key", "v"]).to_pydict() == {"_hoodie_record_key": keys, "v": [4, 5, 6]}
    assert table.lookup(keys).column("file_id").null_count == 0
    assert table.delete(keys[:1]).deleted == 1
    check_stored(table)


def test_composite_keys(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key=["a", "b"], partition_by="p", index=memory_url)
    # Separators in values are harmless where no other values have the same text.
    rows = [("1", "2"), ("1,a:2", ""), ("1", "2,b:x"), (":", ","), ("", "2"), (None, "2"), ("x", None), ("null", "3")]
    keys = [
        "a:1,b:2",
        "a:1,a:2,b:__empty__",
        "a:1,b:2,b:x",
        "a::,b:,",
        "a:__empty__,b:2",
        "a:__null__,b:2",
        "a:x,b:__null__",
        "a:null,b:3",
    ]
    batch = pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows], "p": ["p", "q"] * 4})
    assert table.upsert(batch).inserted == len(rows)
    assert table.upsert(batch).unchanged == len(rows)
    assert sorted(table.read(columns=["_hoodie_record_key"]).column(0).to_pylist()) == sorted(keys)
    assert table.lookup(keys).column("partition_path").to_pylist() == ["p", "q"] * 4
    assert table.delete(keys[1:]).deleted == len(rows) - 1
    assert table.read().to_pylist() == [{"a": "1", "b": "2", "p": "p"}]
    check_stored(table)


@pytest.mark.parametrize("columns", [(), ("city",), ("city", "day")])
@pytest.mark.parametrize("hive_style", [False, True])
def test_partition_columns(tmp_path: Path, memory_url: str, columns: tuple[str, ...], *, hive_style: bool) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by=columns, hive_style=hive_style, index=memory_url)
    rows = [("a", "x", date(2024, 1, 1)), ("b", "y", date(2024, 1, 1)), ("c", None, date(2024, 1, 2)), ("d", "", None)]
    table.upsert(pa.Table.from_pylist([dict(zip(("id", "city", "day"), row, strict=True)) for row in rows]))

    def path_of(city: str | None, day: date | None) -> str:
        values = {"city": city or "__HIVE_DEFAULT_PARTITION__", "day": str(day or "__HIVE_DEFAULT_PARTITION__")}
        return "/".join(f"{name}={values[name]}" if hive_style else values[name] for name in columns)

    expected = [path_of(city, day) for _, city, day in rows]
    assert table.lookup(["a", "b", "c", "d"]).column("partition_path").to_pylist() == expected
    assert {path.rpartition("/")[0] for path in live_files(table)} == set(expected)
    for path in set(expected):
        metadata = (tmp_path / "t" / path / ".hoodie_partition_metadata").read_text()
        assert f"partitionDepth={len(columns)}\n" in metadata
    table.upsert(pa.table({"id": ["a"], "city": ["new"], "day": [date(2025, 1, 1)]}))
    assert [(row["id"], row["city"], row["day"]) for row in rows_of(table)] == [
        ("a", "new", date(2025, 1, 1)),
        *rows[1:],
    ]
    check_stored(open_table(tmp_path / "t"))


def test_partition_values_may_be_percent_encoded(tmp_path: Path, memory_url: str) -> None:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="p", url_encode_partitions=True, hive_style=True, index=memory_url
    )
    values = ["a/b", "a=b", "50%", "x y", "..", "é:\U0001f600", "\n", "#1"]
    keys = [str(number) for number in range(len(values))]
    table.upsert(pa.table({"id": keys, "p": values}))
    assert table.lookup(keys).column("partition_path").to_pylist() == [
        "p=a%2Fb",
        "p=a%3Db",
        "p=50%25",
        "p=x y",
        "p=..",
        "p=é%3A\U0001f600",
        "p=%0A",
        "p=%231",
    ]
    assert [row["p"] for row in rows_of(table)] == values
    check_stored(table)


def test_slash_in_partition_value_nests_folders(trips: Table) -> None:
    trips.upsert(pa.table({"id": ["a", "b"], "city": ["eu/fr", "eu/de"], "ts": [1, 1]}))
    assert trips.lookup(["a", "b"]).column("partition_path").to_pylist() == ["eu/fr", "eu/de"]
    trips.upsert(pa.table({"id": ["a"], "city": ["eu"], "ts": [2]}))
    assert [row["city"] for row in rows_of(trips)] == ["eu", "eu/de"]
    check_stored(trips)


@pytest.mark.parametrize(
    ("values", "paths"),
    [
        (pa.array([1, -2, None]), ["1", "-2"]),
        (pa.array([True, False, None]), ["true", "false"]),
        (pa.array(["x", "y", None]).dictionary_encode(), ["x", "y"]),
        (pa.array([Decimal("1.50"), Decimal("2.00"), None]), ["1.50", "2.00"]),
    ],
)
def test_partition_columns_of_other_types(tmp_path: Path, memory_url: str, values: pa.Array, paths: list[str]) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="p", index=memory_url)
    batch = pa.table({"id": ["a", "b", "c"], "p": values})
    table.upsert(batch)
    found = table.lookup(["a", "b", "c"]).column("partition_path").to_pylist()
    assert found == [*paths, "__HIVE_DEFAULT_PARTITION__"]
    assert table.upsert(batch).unchanged == 3
    check_stored(table)


def test_stored_ambiguous_keys_stay_readable(tmp_path: Path) -> None:
    """Of three key columns, a value could not be written that a record of two of them holds."""
    table = create_table(tmp_path / "t", record_key=["a", "c"], index="global-simple:")
    table.upsert(pa.table({"a": ["1,b:2", "x"], "b": ["y", "y"], "c": ["3", "4"]}))
    storage = opened_table(table).definition.storage
    save_properties(storage, opened_table(table).definition.properties.changed({Key.RECORD_KEY_FIELDS: "a,b,c"}))
    table = open_table(tmp_path / "t")
    ambiguous = pa.table({"a": ["1,b:2"], "b": ["y"], "c": ["3"]})
    assert table.read().num_rows == 2
    assert table.get(["a:1,b:2,c:3"]) == ambiguous
    for use in (table.upsert, table.get, table.delete):
        with pytest.raises(InvalidKeyError, match=r"column=a row=0 value='1,b:2'"):
            use(ambiguous)
    assert table.upsert(pa.table({"a": ["z"], "b": ["y"], "c": ["3"]})).inserted == 1
    assert table.delete(["a:1,b:2,c:3"]).deleted == 1
    assert sorted(table.read()["a"].to_pylist()) == ["x", "z"]
