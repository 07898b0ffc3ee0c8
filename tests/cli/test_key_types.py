"""On the command line, too, one value has one key, in whatever type a file has it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli
from tests.cli.conftest import Rli


@pytest.fixture
def prices(tmp_path: Path) -> str:
    """A record with the key 1.00."""
    with rli.create_table(tmp_path / "prices", record_key="id", index="global-simple:") as table:
        table.upsert(pa.table({"id": [Decimal("1.00")], "v": [1]}))
        return table.location


def stored(location: str) -> list[dict[str, object]]:
    with rli.open_table(location) as table:
        return table.read(columns=["_hoodie_record_key", "v"]).to_pylist()


def coarse(folder: Path) -> dict[str, str]:
    """The key of the record with one decimal, in each format."""
    paths = {name: str(folder / f"coarse.{name}") for name in ("parquet", "jsonl")}
    pq.write_table(pa.table({"id": [Decimal("1.0")], "v": [2]}), paths["parquet"])
    Path(paths["jsonl"]).write_text('{"id": 1.0, "v": 2}\n', encoding="utf-8")
    return paths


@pytest.mark.parametrize("name", ["parquet", "jsonl"])
def test_files_fit_keys(rli: Rli, prices: str, name: str, tmp_path: Path) -> None:
    path = coarse(tmp_path)[name]
    rli("upsert", prices, path)
    assert stored(prices) == [{"_hoodie_record_key": "1.00", "v": 2}]
    rli("insert", prices, path)
    assert stored(prices) == [{"_hoodie_record_key": "1.00", "v": 2}]
    rli("delete", prices, "--file", path)
    assert stored(prices) == []


def test_a_changing_key_is_refused(rli: Rli, prices: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [Decimal("1.005")], "v": [2]}), tmp_path / "fine.parquet")
    for command in (["upsert"], ["insert"], ["delete", "--file"]):
        verb, *option = command
        failed = rli(verb, prices, *option, str(tmp_path / "fine.parquet"), status=2)
        assert "would change in its column: column=id" in failed.err
    assert stored(prices) == [{"_hoodie_record_key": "1.00", "v": 1}]
