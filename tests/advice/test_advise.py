"""``rli.advise`` as it is called: with tables, folders, files and batches, and with what is none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli
from tests.support.advice import RATES

RECORDS = pa.table({"id": ["a", "b", "\N{GRINNING FACE}", "\uffff"], "day": ["1", None, "a/b", "1"], "n": [1, 2, 3, 4]})


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine was measured before."""
    monkeypatch.setattr("rli.advice.advise.calibration", lambda *_, **__: RATES)


def made(path: Path, **options: Any) -> rli.Table:
    table = rli.create_table(path, **{"record_key": "id", "index": "simple:", **options})
    table.upsert(RECORDS)
    return table


def test_table_and_folder_get_same_advice(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    advice = [rli.advise(given).choice for given in (table, tmp_path / "t", str(tmp_path / "t"))]
    assert len(set(advice)) == 1


def test_batch_may_be_records_or_files(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    pq.write_table(RECORDS, tmp_path / "batch.parquet")
    batches = [RECORDS, RECORDS.to_reader(), tmp_path / "batch.parquet", [str(tmp_path / "batch.parquet")]]
    found = [rli.advise(table, batch=batch).batch for batch in batches]
    assert [(batch.keys, batch.known) for batch in found] == [(4, 1)] * 4


def test_keys_of_several_columns_and_partitions(tmp_path: Path) -> None:
    options = {"record_key": ["id", "n"], "partition_by": ["day", "n"], "url_encode_partitions": True}
    found = rli.advise(made(tmp_path / "t", **options), batch=RECORDS)
    assert (found.table.keys, found.table.partitions, found.batch.known) == (4, 4, 1)


def test_a_table_whose_records_were_deleted(tmp_path: Path) -> None:
    table = made(tmp_path / "t", index=f"lmdb://{tmp_path}/index")
    table.delete(RECORDS["id"].to_pylist())
    found = rli.advise(table, batch=RECORDS)
    assert (found.table.keys, found.batch.known) == (0, 0)


def test_files_of_which_some_are_empty(tmp_path: Path) -> None:
    pq.write_table(RECORDS.slice(0, 0), tmp_path / "empty.parquet")
    pq.write_table(RECORDS, tmp_path / "full.parquet")
    found = rli.advise([tmp_path / "empty.parquet", tmp_path / "full.parquet"], record_key="id", partition_by="n")
    assert (found.table.keys, found.table.partitions) == (4, 4)
    assert rli.advise(tmp_path / "empty.parquet", record_key="id").table.keys == 0


def test_own_index_store_is_at_hand(tmp_path: Path) -> None:
    found = rli.advise(made(tmp_path / "t", index="memory:advised"))
    assert found.table.index == "memory:advised"
    assert not any(kind.url == "memory:advised" for kind in found.kinds if not kind.obstacles)


@pytest.mark.parametrize("given", [None, 3, [], [None], "nowhere", "gone.parquet", "batch.jsonl"])
def test_what_is_no_table_is_refused(given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("batch.jsonl").touch()
    with pytest.raises((rli.InvalidInputError, rli.TableNotFoundError)):
        rli.advise(given, record_key="id")


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    next((tmp_path / "t").rglob("*.parquet")).unlink()
    with pytest.raises(rli.CorruptTableError, match="missing"):
        rli.advise(table)


def test_nothing_is_written(tmp_path: Path) -> None:
    table = made(tmp_path / "t", index=f"lmdb://{tmp_path}/index")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    rli.advise(table, batch=RECORDS)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


def test_partition_scoped_index_keeps_its_scope(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/index?scope=partition"
    found = rli.advise(made(tmp_path / "t", index=url, partition_by="day"), batch=RECORDS)
    own = next(kind for kind in found.kinds if kind.url == url)
    assert (found.scope, own.scope, own.obstacles) == (rli.Scope.PARTITION, rli.Scope.PARTITION, ())
