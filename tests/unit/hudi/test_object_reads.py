"""Base files of an object store that are read for a few keys: how many requests that takes, and files that are written again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from pyarrow import fs

import rli
from rli.hudi.base_file_reader import BaseFileReader
from rli.hudi.key_hashes import KeyHashes
from rli.storage import Storage
from rli.storage.contract import OpenedStorage
from rli.storage.object_filesystem import ObjectFileSystem
from rli.storage.read_only import NoChanges
from tests.support.requests import READS, at_requests

ROWS = 20_000
COLUMNS = [f"column_{number}" for number in range(30)]


@pytest.fixture(scope="module")
def base_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The content of two base files of equal size, by their names."""
    folder, found = tmp_path_factory.mktemp("objects"), dict[str, bytes]()
    for name in ("one", "two"):
        with rli.create_table(
            folder / name, record_key="id", index=f"lmdb://{folder}/{name}-index", durability="os"
        ) as table:
            columns = {column: np.arange(ROWS) + len(found) for column in COLUMNS}
            table.upsert(pa.table({"id": [f"key-{number}" for number in range(ROWS)], **columns}))
            (path,) = map(Path, table.scan().files())
            found[path.name] = path.read_bytes()
    return found


def memory_storage(store: MemoryStore) -> Storage:
    objects = ObjectFileSystem(store, "bucket")  # type: ignore[arg-type]  # it has the methods of the other stores
    opened = OpenedStorage(
        fs.PyFileSystem(objects), "bucket", NoChanges("memory"), objects.read_ranges, objects.open_versioned
    )
    return Storage(f"memory://{id(store)}", _opened=opened)


def read(storage: Storage, name: str, size: int) -> list[int]:
    """The values of a record that is found by its key's hash."""
    with BaseFileReader(storage, name, size) as reader:
        reader.keep_footer()
        hashes = reader.key_hashes(0)
        assert hashes is not None
        rows = np.flatnonzero(hashes == KeyHashes.of(pa.array(["key-777"])).hashes[0])
        found = reader.rows_at(0, COLUMNS, rows)
        assert found is not None
        return [found[column][rows.tolist().index(777)].as_py() for column in COLUMNS]


def test_many_columns_take_few_requests(base_files: dict[str, bytes]) -> None:
    (name, content), *_ = base_files.items()
    store, sent = MemoryStore(), list[str]()
    obstore.put(store, name, content)
    storage = memory_storage(store)
    with at_requests(sent.append, READS):
        assert read(storage, name, len(content)) == [777] * len(COLUMNS)
        # The end of the file, its footer, hashes, offset indexes and pages.
        assert sent == ["get", "get_range", "get_ranges", "get_ranges", "get_ranges"]
        sent.clear()
        assert read(storage, name, len(content)) == [777] * len(COLUMNS)
    assert sent == ["get", "get_ranges", "get_ranges"]


def with_large_footer(first: int) -> bytes:
    """A file with one column of integers, and a footer that is large enough to be kept."""
    content = pa.BufferOutputStream()
    rows = pa.table({"column_0": range(first, first + ROWS)})
    with pq.ParquetWriter(content, rows.schema, write_page_index=True, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({"padding": "x" * 2**20})
    return content.getvalue().to_pybytes()


def test_objects_written_again_are_read_again() -> None:
    store = MemoryStore()
    storage = memory_storage(store)
    for first in range(2):
        content = with_large_footer(first)
        # Within the same second, and of equal size.
        obstore.put(store, "file", content)
        with BaseFileReader(storage, "file", len(content)) as reader:
            (found,) = reader.batches_of(0, pa.schema([("column_0", pa.int64())]), ROWS)
            assert found["column_0"][777].as_py() == 777 + first
            assert reader.rows_at(0, ["column_0"], np.array([777])) is None
            reader.keep_footer()
            assert reader.rows_at(0, ["column_0"], np.array([777])) == pa.table({"column_0": [777 + first]})
