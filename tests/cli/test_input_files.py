from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli as library
from rli.cli.files.column_types import ExpectedColumns
from rli.cli.files.input import RecordFile
from rli.cli.files.json_source import BLOCK_BYTES
from rli.hudi.column_names import simple_name
from tests.cli.conftest import Rli


def schema_of(path: str) -> pa.Schema:
    schema = library.open_table(path).schema
    assert schema is not None
    return schema


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["7", "-12", "0"], pa.int64()),
        (["007", "8"], pa.string()),
        (["+7"], pa.string()),
        (["1.0"], pa.string()),
        (["2024-05-01"], pa.date32()),
        (["99999999999999999999"], pa.string()),
        (["NA", "null"], pa.string()),
        (["123e4567-e89b-12d3-a456-426614174000"], pa.string()),
        (["2024-05-01 10:00:00"], pa.string()),
    ],
)
def test_csv_keys_keep_their_spelling(rli: Rli, tmp_path: Path, values: list[str], kind: pa.DataType) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / "d.csv").write_text("".join(f"{line}\n" for line in ("id,v", *(f"{value},1" for value in values))))
    rli("upsert", "t", "d.csv")
    assert schema_of("t").field("id").type == kind
    keys = rli("read", "t", "--columns", "_hoodie_record_key", "--json").json
    assert sorted(row["_hoodie_record_key"] for row in keys) == sorted(values)


def test_key_changed_by_parsing_is_refused(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / "d.csv").write_text("id,v\n7,1\n")
    rli("upsert", "t", "d.csv")
    (tmp_path / "e.csv").write_text("id,v\n8,1\n007,1\n")
    refused = rli("upsert", "t", "e.csv", status=2).err
    assert "file=e.csv:3 column=id value='007' becomes '7'" in refused
    assert len(rli("timeline", "t", "--json").json) == 1


def test_columns_get_table_types(rli: Rli, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("when", pa.timestamp("us", tz="UTC")),
            ("day", pa.date32()),
            ("price", pa.decimal128(10, 2)),
            ("code", pa.string()),
            ("share", pa.float64()),
        ]
    )
    library.create_table(tmp_path / "t", record_key="id", schema=schema).close()
    (tmp_path / "a.csv").write_text("id,when,day,price,code,share\n1,2024-05-01 10:00:00,2024-05-01,1.50,07,1\n")
    (tmp_path / "b.csv").write_text("id,when,day,price,code,share\n2,2024-05-01T10:00:00Z,,2,NA,\n")
    (tmp_path / "c.csv").write_text("id,when,day,price,code,share\n3,2024-05-01,2024-05-01,2,,1e3\n")
    (tmp_path / "d.jsonl").write_text(
        '{"id":"4","when":"2024-05-01T10:00:00","day":"2024-05-01","price":"3.25","code":7,"share":1}\n'
        '{"id":"5","when":"2024-05-01T10:00:00.25Z","day":null,"price":null,"code":8,"share":null}\n'
    )
    rli("upsert", "t", "a.csv", "b.csv", "c.csv", "d.jsonl")
    assert schema_of("t") == schema
    rows = {row["id"]: row for row in rli("read", "t", "--json").json}
    assert rows["1"] == {
        "id": "1",
        "when": "2024-05-01T10:00:00+00:00",
        "day": "2024-05-01",
        "price": "1.50",
        "code": "07",
        "share": 1.0,
    }
    assert (rows["2"]["when"], rows["2"]["day"], rows["2"]["code"]) == (rows["1"]["when"], None, "NA")
    assert (rows["3"]["when"], rows["3"]["code"]) == ("2024-05-01T00:00:00+00:00", None)
    assert (rows["4"]["day"], rows["4"]["price"], rows["4"]["code"]) == ("2024-05-01", "3.25", "7")
    assert rows["5"]["when"] == "2024-05-01T10:00:00.250000+00:00"


def test_columns_are_renamed_only_on_demand(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "domain_name")
    (tmp_path / "d.csv").write_text("Domain name,Domain Type,orgId\na.gov,City,1\n")
    refused = rli("upsert", "t", "d.csv", status=2).err
    assert "--rename-columns" in refused
    assert "'Domain name'" in refused
    rli("upsert", "t", "d.csv", "--rename-columns")
    assert rli("read", "t", "--json").json == [{"domain_name": "a.gov", "domain_type": "City", "org_id": 1}]


@pytest.mark.parametrize(
    ("name", "renamed"),
    [("Domain name", "domain_name"), ("2nd", "_2nd"), ("a--b ", "a_b"), ("HTTPCode", "httpcode"), ("é", "_")],
)
def test_simple_names(name: str, renamed: str) -> None:
    assert simple_name(name) == renamed


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.jsonl", '{"id": 1}\n{"id": ', "cannot be read as json: file=d.jsonl"),
        ("d.json", "[1, 2", "cannot be read as json: file=d.json"),
        ("d.jsonl", "", "cannot be read as json: file=d.jsonl"),
        ("d.csv", "id,v\n1,2,3\n", "cannot be read as csv: file=d.csv"),
        ("d.csv", "id,id\n1,2\n", "columns occur twice: file=d.csv columns=['id']"),
        ("d.csv.gz", "no gzip", "cannot be read as csv: file=d.csv.gz"),
        ("d.parquet", "PAR1", "cannot be read as parquet: file=d.parquet"),
        ("d.xlsx", "", "does not tell its format: file=d.xlsx"),
        ("d.csv", "v\n1\n", "column is missing: column=id"),
        ("d.csv", 'id,v\n"",1\n', "record key is empty"),
        ("d.csv", "id,v\n,1\n", "record key is null"),
        ("d.csv", b"id,v\n\xff\xfe,1\n", "d.csv"),
    ],
)
def test_malformed_file_is_refused_by_name(
    rli: Rli, tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused = rli("upsert", "t", name, status=2)
    assert message in refused.err
    assert refused.out == ""
    assert rli("timeline", "t", "--json").json == []


def test_later_files_are_not_coerced(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / "first.csv").write_text("id,code\na,7\n")
    for value in ("007", "7.5", "+7", "18446744073709551616", "seven"):
        (tmp_path / "second.csv").write_text(f"id,code\nb,8\nc,{value}\n")
        refused = rli("upsert", "t", "first.csv", "second.csv", status=2)
        assert "file=second.csv:3 column=code" in refused.err
    assert rli("read", "t", "--json").json == [{"id": "a", "code": 7}]


def test_all_files_are_checked_before_writing(rli: Rli, trips: str) -> None:
    assert "no such file: file=nope.csv" in rli("upsert", trips, "day2.csv", "nope.csv", status=2).err
    assert len(rli("timeline", trips, "--json").json) == 2


def test_empty_new_columns_are_left_out(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text('id,city,ts,fare,note,text,clock\nk4,Oslo,1,,,"",12:30\n')
    assert "columns=['note']" in rli("upsert", trips, "d.csv").err
    row = rli("read", trips, "--where", "id = 'k4'", "--json").json[0]
    assert row == {"id": "k4", "city": "Oslo", "ts": 1, "fare": None, "text": "", "clock": "12:30"}


def test_parquet_keeps_its_types(rli: Rli, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"], "n": pa.array([1], pa.int32())}), tmp_path / "d.parquet")
    rli("create", "t", "--record-key", "id")
    rli("upsert", "t", "d.parquet")
    assert schema_of("t").field("n").type == pa.int32()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["02134", "10001"], pa.string()),
        (["7", "", "-12"], pa.int64()),
        (["18446744073709551616", "1"], pa.string()),
        (["100000000000000000000"], pa.string()),
        (["9007199254740993", "1.5"], pa.string()),
        (["+5"], pa.string()),
        (["0x10"], pa.string()),
        (["1.10", "1.9"], pa.string()),
        (["1.5", "2", "-0.25", "3.0"], pa.float64()),
        (["0.30000000000000004", "1e-07", "1.0E-5"], pa.float64()),
        (["0.1000000000000000055511151231257827"], pa.string()),
        (["2E10"], pa.string()),
        (["1.5", "NaN"], pa.string()),
        (["null", "NA"], pa.string()),
        (["yes", "no"], pa.string()),
        (["True", "False", ""], pa.bool_()),
        (["True", "false"], pa.string()),
        (["2024-02-29"], pa.date32()),
        (["2024-02-30"], pa.string()),
        (["2024-05-01 10:00:00.123456"], pa.timestamp("us", tz="UTC")),
        (["2024-05-01 10:00:00.1234567"], pa.string()),
        (["2024-05-01T10:00:00Z", "2024-05-01T12:00:00+02:00"], pa.timestamp("us", tz="UTC")),
        (["2024-05-01T10:00:00Z", "2024-05-01T10:00:00"], pa.string()),
        ([" 5"], pa.string()),
    ],
)
def test_csv_types_are_inferred_if_lossless(rli: Rli, tmp_path: Path, values: list[str], kind: pa.DataType) -> None:
    rli("create", "t", "--record-key", "id")
    rows = "".join(f"{row},{value}\n" for row, value in enumerate(values))
    (tmp_path / "d.csv").write_text(f"\ufeffid,v\n{rows}")
    rli("upsert", "t", "d.csv")
    found = library.open_table("t").read().sort_by("id").column("v")
    assert found.type == kind
    if pa.types.is_string(kind):
        assert found.to_pylist() == values


def test_value_beyond_first_block_decides_type(tmp_path: Path) -> None:
    rows, padding = 20_000, "x" * 1_000
    content = "".join(f"{row},1,{padding}\n" for row in range(rows))
    (tmp_path / "d.csv").write_text(f"id,v,p\n{content}{rows},02134,\n")
    assert (tmp_path / "d.csv").stat().st_size > BLOCK_BYTES
    records = RecordFile.at(str(tmp_path / "d.csv")).read(ExpectedColumns(None, frozenset()))
    assert records.column("v")[rows].as_py() == "02134"
    assert records.schema.field("id").type == pa.int64()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("02134,1,1", ":5 column=zip value='02134' type=int64"),
        ("9223372036854775808,1,1", ":5 column=zip value='9223372036854775808'"),
        ("1.5,1,1", ":5 column=zip value='1.5'"),
        ("1,n/a,1", ":5 column=share value='n/a' type=double"),
        ("1,9007199254740993,1", ":5 column=share value='9007199254740993'"),
        ("1,1,2024-05-01T10:00:00.1234567", ":5 column=at value="),
    ],
)
def test_value_of_wrong_type_names_line(rli: Rli, tmp_path: Path, value: str, reason: str) -> None:
    (tmp_path / "a.csv").write_text("id,zip,share,at,note\n1,10001,0.5,2024-05-01T10:00:00Z,x\n")
    rli("create", "t", "--record-key", "id")
    rli("upsert", "t", "a.csv")
    (tmp_path / "b.csv").write_text(f'id,zip,share,at,note\n2,1,1.10,2024-05-01,"two\nlines"\n\n3,{value},y\n')
    refused = rli("upsert", "t", "b.csv", status=2).err
    assert f"file=b.csv{reason}" in refused
    assert len(rli("timeline", "t", "--json").json) == 1


def test_column_types_can_be_given(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "id", "--ordering", "ts")
    (tmp_path / "d.csv").write_text("id,ts,price\n1,007,1.10\n")
    assert ":2 column=ts value='007'" in rli("upsert", "t", "d.csv", status=2).err
    rli("upsert", "t", "d.csv", "--column-type", "ts=bigint", "--column-type", "price=double")
    assert library.open_table("t").read().to_pylist() == [{"id": 1, "ts": 7, "price": 1.1}]
    assert "has another type" in rli("upsert", "t", "d.csv", "--column-type", "ts=string", status=2).err


def test_json_integers_keep_their_digits(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / "d.jsonl").write_text(
        '{"id":"1","n":18446744073709551617,"share":1.10,"at":"2024-05-01","big":1e300}\n'
        '{"id":"2","n":5,"share":2,"at":"2024-05-02","big":1}\n'
    )
    noted = rli("upsert", "t", "d.jsonl").err
    assert ":1 column=n value=18446744073709551617" in noted
    rows = library.open_table("t").read().sort_by("id").to_pylist()
    assert rows[0] == {"id": "1", "n": "18446744073709551617", "share": 1.1, "at": date(2024, 5, 1), "big": 1e300}
    (tmp_path / "e.jsonl").write_text('{"id":"3","share":1}\n{"id":"4","share":9007199254740993}\n')
    assert ":2 column=share value=" in rli("upsert", "t", "e.jsonl", status=2).err
