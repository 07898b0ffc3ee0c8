"""A column grows from the command line by the type that the user gives it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rli
from tests.cli.conftest import Rli

FILES = {"csv": "id,n\nb,5000000000\n", "jsonl": '{"id": "b", "n": 5000000000}\n'}


@pytest.fixture
def counts(tmp_path: Path) -> str:
    with rli.create_table(tmp_path / "counts", record_key="id", index="global-simple:") as table:
        table.upsert(pa.table({"id": ["a"], "n": pa.array([1], pa.int32())}))
        return table.location


def stored(location: str) -> pa.Table:
    with rli.open_table(location) as table:
        return table.read().sort_by("id")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("verb", ["upsert", "insert"])
def test_a_given_type_widens_a_column(rli: Rli, counts: str, verb: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / f"more.{name}"
    path.write_text(FILES[name], encoding="utf-8")
    rli(verb, counts, str(path), status=2)
    assert stored(counts).to_pylist() == [{"id": "a", "n": 1}]
    rli(verb, counts, str(path), "--column-type", "n=bigint")
    assert stored(counts).schema.field("n").type == pa.int64()
    assert stored(counts).to_pylist() == [{"id": "a", "n": 1}, {"id": "b", "n": 5_000_000_000}]


@pytest.mark.parametrize("kind", ["n=double", "n=string", "id=bigint"])
def test_other_types_are_refused(rli: Rli, counts: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "more.csv"
    path.write_text(FILES["csv"], encoding="utf-8")
    assert "has another type" in rli("upsert", counts, str(path), "--column-type", kind, status=2).err
