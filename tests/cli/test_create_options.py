"""What ``rli create`` takes beyond the names of columns: a schema, and settings without a flag."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import rli as library
from tests.cli.conftest import Rli

_AVRO = {
    "type": "record",
    "name": "trip",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
    ],
}
_SCHEMA = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])


@pytest.mark.parametrize("name", ["s.avsc", "s.parquet", "s.arrow"])
def test_a_file_tells_the_columns(rli: Rli, tmp_path: Path, name: str) -> None:
    (tmp_path / "s.avsc").write_text(json.dumps(_AVRO))
    pq.write_table(_SCHEMA.empty_table(), tmp_path / "s.parquet")
    feather.write_feather(_SCHEMA.empty_table(), tmp_path / "s.arrow")
    rli("create", "t", "--record-key", "id", "--schema", name)
    assert rli("info", "t", "--json").json["columns"] == {"id": "string", "at": "timestamp[us, tz=UTC]"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.avsc", "{", "the file tells no schema: file=s.avsc"),
        ("s.parquet", "PAR1", "the file tells no schema: file=s.parquet"),
        ("s.sql", "", "does not tell its format: file=s.sql; use .avsc, .parquet"),
        ("s.avsc", json.dumps(_AVRO).replace('"string"', '"double"'), "type that is no key: column=id type=double"),
    ],
)
def test_no_table_without_a_schema(rli: Rli, tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    assert message in rli("create", "t", "--record-key", "id", "--schema", name, status=2).err
    assert not (tmp_path / "t").exists()


def test_settings_without_a_flag(rli: Rli) -> None:
    given = ["compression=snappy", "write_attempts=20", "lease_seconds=45", "small_file_size=1M"]
    rli("create", "t", "--record-key", "id", *(part for text in given for part in ("--option", text)))
    settings = library.open_table("t").settings
    assert (settings.compression, settings.write_attempts, settings.lease_seconds) == ("snappy", 20, 45)
    assert settings.small_file_size == 1 << 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shards=4", "give --shards"),
        ("write_atempts=4", "write_attempts"),
        ("write_attempts=many", "write a number"),
        ("compression=rar", "compression"),
    ],
)
def test_a_wrong_setting_is_refused(rli: Rli, tmp_path: Path, text: str, message: str) -> None:
    assert message in rli("create", "t", "--record-key", "id", "--option", text, status=2).err
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("name", library.TableOptions.__annotations__)
def test_every_setting_has_an_option(rli: Rli, name: str) -> None:
    refused = rli("create", "t", "--record-key", "id", "--option", f"{name}=?", status=2).err
    assert "is not a setting" not in refused
