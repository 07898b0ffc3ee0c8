"""Nested values of JSON files: parts kept as text, names made simple inside of them, and numbers that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli as library
from tests.cli.conftest import Rli

EVENTS = (
    '{"id": "a", "event": {"kind": "x", "payload": {"n": 1.10, "big": 18446744073709551617}}}\n'
    '{"id": "b", "event": {"kind": "y", "payload": [1, "z", null, true]}}\n'
    '{"id": "c", "event": {"kind": "z", "payload": "text"}}\n'
    '{"id": "d", "event": {"kind": "z", "payload": null}}\n'
)
PAYLOADS = ['{"n":1.10,"big":18446744073709551617}', '[1,"z",null,true]', "text", None]


@pytest.fixture
def table(rli: Rli) -> str:
    rli("create", "t", "--record-key", "id", "--index", "global-simple:")
    return "t"


def stored(name: str = "t") -> list[dict[str, Any]]:
    with library.open_table(name) as opened:
        return opened.read().sort_by("id").to_pylist()


@pytest.mark.parametrize("name", ["e.jsonl", "e.ndjson", "e.json"])
def test_parts_are_kept_as_strings(rli: Rli, table: str, name: str) -> None:
    Path(name).write_text(EVENTS, encoding="utf-8")
    assert "cannot be read as json" in rli("upsert", table, name, status=2).err
    rli("upsert", table, name, "--column-type", "event.payload=string")
    assert [row["event"]["payload"] for row in stored()] == PAYLOADS
    assert [row["event"]["kind"] for row in stored()] == ["x", "y", "z", "z"]
    rli("upsert", table, name, "--column-type", "event.payload=string")


def test_a_column_is_kept_as_string(rli: Rli, table: str) -> None:
    Path("e.json").write_text("[" + ",".join(EVENTS.splitlines()) + "]", encoding="utf-8")
    rli("upsert", table, "e.json", "--column-type", "event=string")
    assert stored()[0]["event"] == f'{{"kind":"x","payload":{PAYLOADS[0]}}}'
    Path("f.jsonl").write_text('{"id": "e", "event": 1.10}\n', encoding="utf-8")
    rli("upsert", table, "f.jsonl", "--column-type", "event=string")
    assert stored()[-1]["event"] == "1.10"
    assert (
        "has another type"
        in rli("upsert", table, "f.jsonl", "--column-type", "id.x=string", "--column-type", "id=int", status=2).err
    )


def test_parts_inside_of_lists(rli: Rli, table: str) -> None:
    Path("e.jsonl").write_text(
        '{"id": "a", "items": [{"n": 1, "raw": {"x": 1}}, {"n": 2, "raw": [2]}]}\n', encoding="utf-8"
    )
    rli("upsert", table, "e.jsonl", "--column-type", "items.raw=string")
    assert stored()[0]["items"] == [{"n": 1, "raw": '{"x":1}'}, {"n": 2, "raw": "[2]"}]


def test_names_inside_are_made_simple(rli: Rli, table: str) -> None:
    Path("e.jsonl").write_text(
        '{"id": "a", "Meta Data": {"Domain name": "x", "sub": [{"Org-Id": 1, "Raw JSON": {"a b": 1}}]}}\n',
        encoding="utf-8",
    )
    assert "--rename-columns" in rli("upsert", table, "e.jsonl", status=2).err
    rli("upsert", table, "e.jsonl", "--rename-columns", "--column-type", "meta_data.sub.raw_json=string")
    assert stored() == [{"id": "a", "meta_data": {"domain_name": "x", "sub": [{"org_id": 1, "raw_json": '{"a b":1}'}]}}]


def test_odd_names_inside_are_refused(rli: Rli, table: str) -> None:
    Path("e.jsonl").write_text('{"id": "a", "days": {"2024-05-01": 1}}\n', encoding="utf-8")
    refused = rli("upsert", table, "e.jsonl", status=2).err
    assert "days.2024-05-01" in refused
    assert "--column-type COLUMN=string" in refused
    rli("upsert", table, "e.jsonl", "--column-type", "days=string")
    assert stored() == [{"id": "a", "days": '{"2024-05-01":1}'}]


@pytest.mark.parametrize("records", [[{"a b": 1, "a_b": 2}], [{"a b": 1}, {"a-b": 2}]], ids=["one", "two"])
def test_names_that_become_one(rli: Rli, table: str, records: list[dict[str, int]]) -> None:
    lines = [json.dumps({"id": str(row), "s": record}) for row, record in enumerate(records)]
    Path("e.jsonl").write_text("\n".join(lines), encoding="utf-8")
    refused = rli("upsert", table, "e.jsonl", "--rename-columns", status=2).err
    assert "two names become one: file=e.jsonl column=s.a_b" in refused
    assert len(rli("timeline", table, "--json").json) == 0


@pytest.mark.parametrize(
    "content",
    [
        '{"id": "a", "p": 1} rubbish {"id": "b"}',
        '{"id": "a", "p": {"x": 1, "x": 2}}',
        '[{"id": "a"}, 5]',
        '{"id": "a", "p": ' + "[" * 100_000,
    ],
    ids=["between records", "name twice", "no object", "too deep"],
)
def test_malformed_files_are_refused(rli: Rli, table: str, content: str) -> None:
    Path("e.json").write_text(content, encoding="utf-8")
    assert (
        "cannot be read as json: file=e.json"
        in rli("upsert", table, "e.json", "--column-type", "p=string", status=2).err
    )


@pytest.mark.parametrize(
    ("kind", "number", "given"),
    [
        (pa.int32(), "5000000000", "n=bigint"),
        (pa.float32(), "16777217", None),
        (pa.float64(), "9007199254740993", None),
        (pa.int64(), "1.5", "NEW=double"),
        (pa.int64(), "18446744073709551617", "'NEW=decimal(20,0)'"),
        (pa.decimal128(5, 2), "12345.678", "'n=decimal(8,3)'"),
    ],
)
def test_numbers_that_do_not_fit(rli: Rli, table: str, kind: pa.DataType, number: str, given: str | None) -> None:
    with library.open_table(table) as opened:
        opened.upsert(pa.table({"id": ["a"], "n": pa.array(["1"]).cast(kind)}))
    Path("e.jsonl").write_text(f'{{"id": "b", "n": 1}}\n{{"id": "c", "n": {number}}}\n', encoding="utf-8")
    refused = rli("upsert", table, "e.jsonl", status=2).err
    assert ":2 column=n" in refused
    assert given is None or f"--column-type {given}" in refused
    assert [row["id"] for row in stored()] == ["a"]


def test_names_inside_parquet_are_renamed(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "id")
    rows = [{"Unit price": 1, "All tags": [{"Tag name": "x"}]}, None, {"Unit price": 2, "All tags": []}]
    pq.write_table(pa.table({"id": ["a", "b", "c"], "Full order": rows}), tmp_path / "d.parquet")
    rli("upsert", "t", "d.parquet", "--rename-columns")
    found = {row["id"]: row["full_order"] for row in rli("read", "t", "--json").json}
    assert found["a"] == {"unit_price": 1, "all_tags": [{"tag_name": "x"}]}
    assert (found["b"], found["c"]) == (None, {"unit_price": 2, "all_tags": []})
    pq.write_table(pa.table({"id": ["a"], "o": [{"a b": 1, "a-b": 2}]}), tmp_path / "e.parquet")
    assert (
        "two names become one: file=e.parquet column=o.a_b"
        in rli("upsert", "t", "e.parquet", "--rename-columns", status=2).err
    )


@pytest.mark.parametrize("declared", ["nosuch=string", "o.nosuch=string"])
def test_type_without_column_is_refused(rli: Rli, tmp_path: Path, declared: str) -> None:
    rli("create", "t", "--record-key", "id")
    (tmp_path / "d.jsonl").write_text('{"id":"a","o":{"x":1}}\n')
    column = declared.partition("=")[0]
    assert f"column={column} found=" in rli("upsert", "t", "d.jsonl", "--column-type", declared, status=2).err
    pq.write_table(pa.table({"id": ["a"], "v": [1]}), tmp_path / "d.parquet")
    refused = rli("upsert", "t", "d.parquet", "--column-type", "v=string", status=2).err
    assert "--column-type is for text files: file=d.parquet column=v" in refused
