"""Footers that a process keeps."""

from __future__ import annotations

import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli.hudi.kept_footers import KeptFooter, KeptFooters
from rli.storage import FileVersion, Storage


def footer(path: Path, rows: int) -> KeptFooter:
    pq.write_table(pa.table({"id": range(rows)}).replace_schema_metadata({"bloom": "x" * 10_000}), path)
    return KeptFooter.of(pq.read_metadata(path), None)


def version_of(storage: Storage, name: str) -> FileVersion:
    file, version = storage.open_versioned(name)
    file.close()
    assert version is not None
    return version


def get(footers: KeptFooters, storage: Storage, name: str) -> KeptFooter | None:
    return footers.get(storage, name, version_of(storage, name))


def keep(footers: KeptFooters, folder: Path, name: str, rows: int = 10) -> KeptFooter:
    storage, found = Storage(str(folder)), footer(folder / name, rows)
    footers.keep(storage, name, version_of(storage, name), found)
    return found


def test_a_file_written_again_differs(tmp_path: Path) -> None:
    storage, footers = Storage(str(tmp_path)), KeptFooters()
    kept = keep(footers, tmp_path, "a")
    assert get(footers, storage, "a") is kept
    # Of the same size.
    footer(tmp_path / "b", 10)
    (tmp_path / "b").rename(tmp_path / "a")
    assert get(footers, storage, "a") is None


def test_a_file_written_in_place_differs(tmp_path: Path) -> None:
    storage, footers = Storage(str(tmp_path)), KeptFooters()
    path = tmp_path / "a"
    kept = keep(footers, tmp_path, "a")
    assert get(footers, storage, "a") is kept
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"PAR1")
    # As rsync --inplace --times leaves it: of the same inode, size and time.
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert get(footers, storage, "a") is None


@pytest.mark.parametrize(("groups", "columns"), [(12, 10), (1, 60), (2, 3)])
def test_memory_of_footers_is_counted(tmp_path: Path, groups: int, columns: int) -> None:
    path = tmp_path / "a"
    rows = {f"column_{number}": np.arange(groups * 8) for number in range(columns)}
    pq.write_table(
        pa.table(rows), path, row_group_size=8, max_rows_per_page=2, write_page_index=True, store_schema=False
    )
    content, metadata = path.read_bytes(), pq.read_metadata(path)

    def read() -> KeptFooter:
        kept = KeptFooter.of(metadata, None)
        for group in range(groups):
            kept.cuts.rows(
                lambda ranges: [content[place.start : place.stop] for place in ranges], group, [*rows], np.array([1])
            )
        return kept

    # What libraries keep of their first call is not the footer's.
    read()
    tracemalloc.start()
    kept = read()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    # What pyarrow takes is not traced.
    assert used < kept.memory - metadata.serialized_size * 4


def test_tables_have_footers_of_their_own(tmp_path: Path) -> None:
    footers = KeptFooters()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    kept = [keep(footers, tmp_path / name, "a") for name in ("one", "two")]
    assert [get(footers, Storage(str(tmp_path / name)), "a") for name in ("one", "two")] == kept


def test_the_oldest_make_room(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    footers = KeptFooters(3 * footer(tmp_path / "a", 10).memory)
    for name in "abc":
        keep(footers, tmp_path, name)
    assert get(footers, storage, "a") is not None
    keep(footers, tmp_path, "d")
    assert [name for name in "abcd" if get(footers, storage, name)] == ["a", "c", "d"]


def test_threads_count_a_footer_once(tmp_path: Path) -> None:
    storage, kept = Storage(str(tmp_path)), footer(tmp_path / "a", 10)
    footers = KeptFooters(2 * kept.memory)
    version = version_of(storage, "a")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: footers.keep(storage, "a", version, kept), range(2_000)))
    keep(footers, tmp_path, "b")
    assert get(footers, storage, "a") is kept


@pytest.mark.parametrize("rows", [1, 5_000])
def test_footers_lose_key_values_alone(tmp_path: Path, rows: int) -> None:
    kept = footer(tmp_path / "a", rows)
    whole = pq.read_metadata(tmp_path / "a")
    assert set(whole.metadata) == {b"bloom", b"ARROW:schema"}
    assert set(kept.metadata.metadata) == {b"ARROW:schema"}
    assert kept.metadata.schema == whole.schema
    assert kept.metadata.row_group(0).to_dict() == whole.row_group(0).to_dict()
