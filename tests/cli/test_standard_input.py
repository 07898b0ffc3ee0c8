"""Records and keys from standard input, and the lines that messages name."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from typer.testing import CliRunner

from rli.cli.app import app
from tests.cli.conftest import Rli

_ROWS = pa.table({"id": ["a"], "v": [1]})


def piped(content: bytes, *arguments: str, status: int = 0) -> str:
    """What a command prints that reads ``content`` from standard input; standard error, too."""
    done = CliRunner().invoke(app, list(arguments), input=content, prog_name="rli")
    assert done.exit_code == status, done.output
    return done.output


def in_memory(write: Callable[[pa.Table, io.BytesIO], None]) -> bytes:
    target = io.BytesIO()
    write(_ROWS, target)
    return target.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b'{"id":"a","v":1}\n',
        b'[{"id":"a",\n"v":1}]',
        b"id,v\na,1\n",
        gzip.compress(b"id,v\na,1\n"),
        in_memory(pq.write_table),
        in_memory(feather.write_feather),
    ],
    ids=["lines", "list", "csv", "gzip", "parquet", "arrow"],
)
@pytest.mark.parametrize("verb", ["upsert", "insert"])
def test_records_of_any_format(rli: Rli, verb: str, content: bytes) -> None:
    rli("create", "t", "--record-key", "id")
    piped(content, verb, "t", "-")
    assert rli("read", "t", "--json").json == [{"id": "a", "v": 1}]


@pytest.mark.parametrize("content", [b"007\nk2\n", b'{"id":"007"}\n{"id":"k2"}', b"id\n007\nk2\n"])
def test_keys_of_any_format(rli: Rli, trips: str, content: bytes) -> None:
    assert piped(content, "lookup", trips, "--file", "-").count("Bergen") == 2
    assert piped(content, "get", trips, "--file", "-").count("Bergen") == 2
    assert "records: 2 deleted" in piped(content, "delete", trips, "--file", "-")
    assert [row["id"] for row in rli("read", trips, "--json").json] == ["k3"]


def test_the_format_is_said(trips: str) -> None:
    assert "records: 1 unchanged" in piped(b"id\n", "delete", trips, "--file", "-", "--format", "lines")
    refused = piped(b"id,city\n", "upsert", trips, "-", "--format", "json", status=2)
    assert "cannot be read as json: file=-:1" in refused


def test_standard_input_is_read_once(trips: str) -> None:
    assert "name - once" in piped(b"", "upsert", trips, "-", "-", status=2)
    assert "Empty CSV file" in piped(b"", "upsert", trips, "-", status=2)
    assert "no whole gzip stream" in piped(gzip.compress(b"id,v\n")[:-4], "upsert", trips, "-", status=2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.jsonl", '{"id":"1","v":1}\n\n{"id":null,"v":2}\n', "a record key is null: column=id file=d.jsonl:3"),
        ("d.json", '[{"id":"1","v":1},\n{"id":"",\n"v":2}]', "a record key is empty: column=id file=d.json:2"),
        ("d.csv", 'id,v\n"a\nb",1\n,2\n', "a record key is null: column=id file=d.csv:4"),
        ("d.jsonl", '{"id":"1","v":1}\n{"id":"2","v":\n', "cannot be read as json: file=d.jsonl:2"),
        ("d.json", '[{"id":"1"},\n{"id":"2"},\n]', "cannot be read as json: file=d.json:2"),
        ("d.jsonl", '{"id":"1","w":1}\n\n{"id":"2","w":"x"}\n', "cannot be read as json: file=d.jsonl:3"),
        ("d.csv", "id,v\na,1\nb,2,3\n", "cannot be read as csv: file=d.csv:3"),
        ("d.csv", "id,v\na,1\nb,x\n", "does not fit its column: file=d.csv:3 column=v"),
        ("d.csv", "w\na\n", "the record-key column is missing: column=id found=['w'] file=d.csv"),
    ],
)
def test_a_message_names_file_and_line(rli: Rli, tmp_path: Path, name: str, content: str, message: str) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / "first.csv").write_text("id,v\nz,1\n")
    (tmp_path / name).write_text(content)
    assert message in rli("upsert", "t", "first.csv", name, status=2).err


def test_a_parquet_file_has_rows(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "id")
    pq.write_table(pa.table({"id": ["a", None]}), tmp_path / "d.parquet")
    assert "column=id file=d.parquet row=1" in rli("upsert", "t", "d.parquet", status=2).err
