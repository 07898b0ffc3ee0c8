"""Records of a few keys of a base file: found by hashes of the keys and by pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli
from rli.hudi.base_file_reader import BaseFileReader
from rli.hudi.key_hashes import KeyHashes, StoredHashes
from rli.hudi.page_cuts import Rows

ROWS = 20_000
KEYS = pa.array([f"key-{number * 7_919 % 1_000_003}" for number in range(ROWS)])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rli.Table]:
    folder = tmp_path_factory.mktemp("few")
    with rli.create_table(folder / "table", record_key="id", index=f"lmdb://{folder}/index", durability="os") as made:
        made.upsert(pa.table({"id": KEYS, "n": range(ROWS), "tags": [[n % 7] for n in range(ROWS)]}))
        yield made


def wanted(*positions: int) -> list[dict[str, object]]:
    return [{"id": KEYS[n].as_py(), "n": n, "tags": [n % 7]} for n in positions]


def test_records_are_those_of_keys(table: rli.Table) -> None:
    for position in (0, 1, 4_095, 4_096, 12_345, ROWS - 1):
        for _ in range(2):
            key = KEYS[position].as_py()
            assert table.get([key]).to_pylist() == wanted(position)
            assert table.get([key], ["n"]).to_pylist() == [{"n": position}]
            assert table.get([key], ["id"]).to_pylist() == [{"id": key}]


def found(table: rli.Table, keys: pa.Array) -> list[dict[str, Any]]:
    """The records of keys, which an index may seek in a file that lacks them."""
    snapshot = table._opened.snapshot()  # noqa: SLF001
    (file_slice,) = snapshot.slices.values()
    with snapshot.reader(file_slice) as reader:
        parts = reader.find(keys, snapshot.key_columns(reader.schema), pa.schema([pa.field("n", pa.int64())]))
        return [record for part in parts for record in part.records.to_pylist()]


@contextmanager
def no_column_read() -> Iterator[None]:
    """Whole columns are not read meanwhile."""

    def refused(*_: object) -> None:
        raise AssertionError("a whole column is read")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseFileReader, "batches_of", refused)
        yield


def test_keys_of_equal_hash_differ(table: rli.Table) -> None:
    others = pa.array([f"no-{number}" for number in range(500_000)])
    alike = others.filter(pa.array(KeyHashes.of(others).hashes == KeyHashes.of(KEYS).hashes[5]))
    assert len(alike)
    with no_column_read():
        assert found(table, alike.slice(0, 1)) == []
        assert found(table, pa.concat_arrays([alike.slice(0, 1), KEYS.slice(5, 1)])) == [{"n": 5}]


def test_key_is_read_with_its_columns(table: rli.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, rows_at = list[list[str]](), BaseFileReader.rows_at

    def noting(reader: BaseFileReader, row_group: int, names: list[str], rows: Rows) -> pa.Table | None:
        reads.append(names)
        return rows_at(reader, row_group, names, rows)

    table.get([KEYS[5].as_py()])
    monkeypatch.setattr(BaseFileReader, "rows_at", noting)
    assert table.get([KEYS[5].as_py()], ["n", "id"]).to_pylist() == [{"n": 5, "id": KEYS[5].as_py()}]
    assert reads == [["_hoodie_record_key", "n"]]


def test_absent_keys_read_no_column(table: rli.Table) -> None:
    with no_column_read():
        for number in range(300):
            assert found(table, pa.array([f"nobody-{number}"])) == []


@pytest.mark.parametrize("count", [100, 3_000, ROWS])
def test_many_keys_are_all_found(table: rli.Table, count: int) -> None:
    """Of some, the hashes tell which records may have them; of most, they tell nothing."""
    chosen = np.random.default_rng(count).choice(ROWS, count, replace=False)
    others = pa.array([f"no-{number}" for number in range(count)])
    sought = pa.concat_arrays([others, KEYS.take(pa.array(chosen))])
    assert sorted(record["n"] for record in found(table, sought)) == sorted(chosen.tolist())


def test_damaged_hashes_hide_no_record(table: rli.Table) -> None:
    assert table.get([KEYS[77].as_py()]).to_pylist() == wanted(77)
    (path,) = map(Path, table.scan().files())
    stored = StoredHashes.from_footer(pq.read_metadata(path).metadata, path.name)
    assert stored is not None
    with path.open("r+b") as file:
        file.seek(stored.offset)
        file.write(bytes(2 * ROWS))
    with no_column_read(), pytest.raises(AssertionError):
        found(table, KEYS.slice(77, 1))
    assert table.get([KEYS[77].as_py()]).to_pylist() == wanted(77)
    assert len(found(table, KEYS.slice(70, 100))) == 100
