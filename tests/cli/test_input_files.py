from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli as library
from rli.cli.input_files import snake_case
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
def test_keys_of_a_csv_file_keep_their_spelling(rli: Rli, tmp_path: Path, values: list[str], kind: pa.DataType) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / "d.csv").write_text("".join(f"{line}\n" for line in ("id,v", *(f"{value},1" for value in values))))
    rli("upsert", "t", "d.csv")
    assert schema_of("t").field("id").type == kind
    keys = rli("read", "t", "--columns", "_hoodie_record_key", "--json").json
    assert sorted(row["_hoodie_record_key"] for row in keys) == sorted(values)


def test_a_key_that_would_change_is_refused(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / "d.csv").write_text("id,v\n7,1\n")
    rli("upsert", "t", "d.csv")
    (tmp_path / "e.csv").write_text("id,v\n8,1\n007,1\n")
    refused = rli("upsert", "t", "e.csv", status=2).err
    assert "file=e.csv column=id value='007' becomes '7'" in refused
    assert len(rli("timeline", "t", "--json").json) == 1


def test_columns_get_the_types_of_the_table(rli: Rli, tmp_path: Path) -> None:
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
def test_snake_case(name: str, renamed: str) -> None:
    assert snake_case(name) == renamed


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
def test_a_malformed_file_is_refused_by_name(
    rli: Rli, tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused = rli("upsert", "t", name, status=2)
    assert message in refused.err
    assert refused.out == ""
    assert rli("timeline", "t", "--json").json == []


def test_files_are_checked_before_the_first_is_written(rli: Rli, trips: str) -> None:
    assert "no such file: file=nope.csv" in rli("upsert", trips, "day2.csv", "nope.csv", status=2).err
    assert len(rli("timeline", trips, "--json").json) == 2


def test_new_columns_without_values_are_left_out(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text('id,city,ts,fare,note,text,clock\nk4,Oslo,1,,,"",12:30\n')
    assert "columns=['note']" in rli("upsert", trips, "d.csv").err
    row = rli("read", trips, "--where", "id = 'k4'", "--json").json[0]
    assert row == {"id": "k4", "city": "Oslo", "ts": 1, "fare": None, "text": "", "clock": "12:30"}


def test_parquet_keeps_its_types(rli: Rli, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"], "n": pa.array([1], pa.int32())}), tmp_path / "d.parquet")
    rli("create", "t", "--record-key", "id")
    rli("upsert", "t", "d.parquet")
    assert schema_of("t").field("n").type == pa.int32()
