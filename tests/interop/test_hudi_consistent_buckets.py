"""rli's buckets that are split and merged, as Apache Hudi sees them: its reader, and its writer on a copy.

Hudi writes by consistent hashing on merge-on-read tables alone. A table of rli's without log files is one of these but for its
name, so a copy that calls itself merge-on-read shows whether Hudi takes the hashing metadata as it stands.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import rli
from rli import Table
from rli.hudi.consistent_hashing import Ring, folder_of, key_hashes
from rli.index.consistent_bucket.rings import ring_of
from rli.index.hashed.settings import HashSettings
from rli.table.table import opened_table
from tests.support.histories import SCHEMA, Layout, trip
from tests.support.hudi import HudiEngine, HudiError
from tests.support.hudi_options import newest_only, write_options
from tests.support.meta_columns import without_meta_columns

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

URL = "consistent-bucket:?buckets=2&min.num.buckets=1&split.threshold=1"
BY_CITY = Layout(partition_by=("city",))


@newest_only
def test_hudi_follows_splits_and_merges(engine: HudiEngine, tmp_path: Path) -> None:
    path = tmp_path / "trips"
    table = rli.create_table(
        path,
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=URL,
        target_file_size=20_000,
        compression="none",
        maintenance=False,
    )
    table.upsert(_trips("Oslo", range(1_000), ts=1))
    table.upsert(_trips("Rome", range(20), ts=1))
    table.cluster()
    table.delete([f"r{number}" for number in range(15)])
    table.cluster(smaller_than=10_000)
    table.overwrite_partitions(_trips("Rome", range(15, 20), ts=1))
    assert (len(_ring(table, "Oslo").buckets), len(_ring(table, "Rome").buckets)) == (4, 1)
    expected = _versions(table.read())
    assert _versions(without_meta_columns(engine.read(path))) == expected

    options = write_options(engine, BY_CITY, index="BUCKET") | {
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.metadata.enable": "false",
    }
    with pytest.raises(HudiError, match="does not work with COW table"):
        engine.write(path, _trips("Oslo", range(10), ts=2), options)

    copy = _as_merge_on_read(path, tmp_path / "copy")
    options["hoodie.datasource.write.table.type"] = "MERGE_ON_READ"
    engine.write(copy, _trips("Oslo", range(100, 310), ts=2), options)
    engine.write(copy, _trips("Rome", range(10, 25), ts=2), options)
    found = _versions(without_meta_columns(engine.read(copy)))
    written = {(f"o{number}", "Oslo", 2) for number in range(100, 310)} | {
        (f"r{number}", "Rome", 2) for number in range(10, 25)
    }
    assert found == written | {version for version in expected if not any(version[0] == key for key, *_ in written)}
    for city in ("Oslo", "Rome"):
        _require_buckets(copy, _ring(table, city), {key for key, place, _ in written if place == city})


def _require_buckets(copy: Path, ring: Ring, keys: set[str]) -> None:
    """Hudi has appended to the buckets of the ring, to those of the keys alone, and has made no ring of its own."""
    logs = {path.name[1:].partition("_")[0] for path in (copy / ring.partition_path).glob(".*.log.*[0-9]")}
    assert logs == set(ring.owners_of(key_hashes(pa.array(sorted(keys)), ["id"], ["id"])).to_pylist())
    newest = max((copy / folder_of(ring.partition_path)).glob("*.hashing_meta"))
    assert Ring.from_json(newest.read_bytes(), newest.name) == ring


def _as_merge_on_read(table: Path, copy: Path) -> Path:
    shutil.copytree(table, copy, ignore=shutil.ignore_patterns(".*.crc"))
    properties = copy / ".hoodie" / "hoodie.properties"
    text = properties.read_text(encoding="utf-8")
    assert "COPY_ON_WRITE" in text
    properties.write_text(text.replace("COPY_ON_WRITE", "MERGE_ON_READ"), encoding="utf-8")
    return copy


def _ring(table: Table, city: str) -> Ring:
    return ring_of(opened_table(table).snapshot(), city, HashSettings(2))


def _trips(city: str, numbers: range, ts: int) -> pa.Table:
    rows = [trip(f"{city[0].lower()}{number}", city=city, ts=ts) for number in numbers]
    return pa.Table.from_pylist(rows, SCHEMA)


def _versions(rows: pa.Table) -> set[tuple[str, str, int]]:
    found = list(zip(*(rows.column(name).to_pylist() for name in ("id", "city", "ts")), strict=True))
    assert len(set(found)) == len(found)
    return set(found)
