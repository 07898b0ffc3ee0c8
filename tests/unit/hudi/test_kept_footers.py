"""Footers that a process keeps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli.hudi.kept_footers import KeptFooter, KeptFooters
from rli.storage import Storage


def footer(path: Path, rows: int) -> KeptFooter:
    pq.write_table(pa.table({"id": range(rows)}).replace_schema_metadata({"bloom": "x" * 10_000}), path)
    with pa.OSFile(str(path)) as source:
        found = KeptFooter.read(source, pq.read_metadata(path), None)
    assert found is not None
    return found


def get(footers: KeptFooters, storage: Storage, name: str) -> KeptFooter | None:
    return footers.get(storage, name, footers.version(storage, name))


def keep(footers: KeptFooters, folder: Path, name: str, rows: int = 10) -> KeptFooter:
    storage, found = Storage(str(folder)), footer(folder / name, rows)
    version = footers.version(storage, name)
    assert version is not None
    footers.keep(storage, name, version, found)
    return found


def test_a_file_written_again_differs(tmp_path: Path) -> None:
    storage, footers = Storage(str(tmp_path)), KeptFooters()
    kept = keep(footers, tmp_path, "a")
    assert get(footers, storage, "a") is kept
    # Of the same size.
    footer(tmp_path / "b", 10)
    (tmp_path / "b").rename(tmp_path / "a")
    assert get(footers, storage, "a") is None
    (tmp_path / "a").unlink()
    assert get(footers, storage, "a") is None


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
    version = footers.version(storage, "a")
    assert version is not None
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
