"""``create_table(..., if_exists="open")``: the table is opened if it agrees with what is given."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rli
from rli.errors import IndexNotReadyError, SettingsError, TableExistsError
from rli.table.table import opened_table

KEYS: Mapping[str, Any] = {"record_key": "id", "partition_by": ["city"], "ordering": "ts"}


def test_same_call_creates_then_opens(tmp_path: Path) -> None:
    options: Any = {
        **KEYS,
        "schema": pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())]),
        "hive_style": True,
        "compression": "snappy",
        "key_mode": "digest",
        "shards": 4,
        "maintenance": False,
        "lease_seconds": 20,
        "metadata": ["files", "record_index"],
    }
    created = rli.create_table(tmp_path / "t", **options, if_exists="open")
    opened = rli.create_table(tmp_path / "t", **options, if_exists="open")
    assert opened.settings == created.settings
    with pytest.raises(TableExistsError):
        rli.create_table(tmp_path / "t", **options)
    # What is not given is taken as it is.
    assert rli.create_table(tmp_path / "t", **KEYS, if_exists="open").settings.compression == "snappy"


def test_new_table_equals_reopened_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    created = rli.create_table("t", **KEYS, durability="os")
    opened = rli.open_table("t")
    assert created.location == created.info().location == opened.location == str(tmp_path / "t")
    # Commits of this table do not wait for the disk, from the first one on.
    assert not opened_table(created).definition.storage.is_durable
    assert not opened_table(opened).definition.storage.is_durable


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.int8(),
        pa.timestamp("ns"),
        pa.list_(pa.int64()),
        pa.dictionary(pa.int32(), pa.string()),
        pa.struct([("n", pa.large_list(pa.int16()))]),
    ],
    ids=str,
)
def test_schema_opens_table_with_wider_types(kind: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("v", kind)])
    rli.create_table(tmp_path / "t", record_key="id", schema=schema, if_exists="open")
    table = rli.create_table(tmp_path / "t", record_key="id", schema=schema, if_exists="open")
    table.upsert(pa.Table.from_pylist([{"id": "a"}], schema=schema))
    assert rli.create_table(tmp_path / "t", record_key="id", schema=schema, if_exists="open").schema == table.schema


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"record_key": ["id", "city"]}, r"record_key=id \(given id,city\)"),
        ({"partition_by": ()}, r"partition_by=city \(given none\)"),
        ({"ordering": None}, r"ordering=ts \(given none\)"),
        ({"index": "redis://user:secret@h/0"}, r"index=lmdb:.* \(given redis://user@h/0\)"),
        ({"name": "other"}, "name=t "),
        ({"metadata": ["bloom_filters"]}, r"metadata=none \(given files,bloom_filters\)"),
        (
            {"schema": pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64())])},
            r"schema\.id=string ",
        ),
        (
            {"schema": pa.schema([("id", "string"), ("city", "string"), ("ts", "int64"), ("new", "int8")])},
            r"schema\.new=none ",
        ),
        ({"hive_style": True}, "hive_style=False"),
        ({"compression": "none", "durability": "os"}, "compression=zstd .*durability="),
        ({"maintenance": False}, "maintenance="),
        ({"shards": 3}, r"shards=64 \(given 3\)"),
        ({"key_mode": "digest"}, "key_mode=exact "),
    ],
)
def test_what_differs_is_named(tmp_path: Path, given: Mapping[str, Any], named: str) -> None:
    table = rli.create_table(tmp_path / "t", **KEYS)
    table.upsert(pa.table({"id": ["a"], "city": ["x"], "ts": [1]}))
    table.close()
    with pytest.raises(SettingsError, match=rf"exists and differs from the arguments: .*{named}"):
        rli.create_table(tmp_path / "t", **{**KEYS, **given}, if_exists="open")


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such option: option=compresion; known options: shards, "):
        rli.create_table(tmp_path / "t", record_key="id", compresion="zstd")  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match="no such choice: if_exists='replace'"):
        rli.create_table(tmp_path / "t", record_key="id", if_exists="replace")  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()


def test_foreign_table_requires_bootstrap_first(tmp_path: Path) -> None:
    rli.create_table(tmp_path / "t", **KEYS).close()
    (tmp_path / "t" / ".hoodie" / ".rli" / "table.json").unlink()
    with pytest.raises(IndexNotReadyError, match="bootstrap"):
        rli.create_table(tmp_path / "t", **KEYS, if_exists="open")


def test_concurrent_creation_yields_single_table(tmp_path: Path) -> None:
    def create(number: int) -> int:
        table = rli.create_table(tmp_path / "t", **KEYS, index="memory:many", if_exists="open")
        return table.upsert(pa.table({"id": [f"k{number}"], "city": ["x"], "ts": [1]})).inserted

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(create, range(8))) == [1] * 8
    assert rli.open_table(tmp_path / "t").read().num_rows == 8
