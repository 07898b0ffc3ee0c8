"""rli and Apache Hudi take turns on a table, both with an index of the same scope: each finds the records of the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import rli
from rli.index.bloom.table_index import BloomIndex
from rli.table.table import opened_table
from rli.view.slice_reader import SliceReader
from tests.support.histories import SCHEMA, Layout, trip
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, with_hudi, write_options
from tests.support.meta_columns import without_meta_columns
from tests.support.soak import in_ci

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY = Layout(partition_by=("city",))

KINDS: Final = [
    ("simple:", "SIMPLE"),
    ("global-simple:", "GLOBAL_SIMPLE"),
    ("bloom:", "BLOOM"),
    ("global-bloom:", "GLOBAL_BLOOM"),
    ("record-index:", "RECORD_INDEX"),
]


@pytest.mark.parametrize(
    ("engine", "url", "hudi_type"),
    in_ci(
        [(NEWEST, *KINDS[4]), ("1.0.2", *KINDS[4])],
        of=[(version, *kind) for version in (NEWEST, "1.0.2") for kind in KINDS],
    ),
    indirect=["engine"],
)
def test_upserts_take_turns(engine: HudiEngine, tmp_path: Path, url: str, hudi_type: str) -> None:
    table = rli.create_table(tmp_path / "trips", record_key="id", partition_by="city", ordering="ts", index=url)
    # The tests below have metadata tables, and so has RECORD_INDEX.
    options = write_options(engine, BY_CITY, index=hudi_type) | {"hoodie.metadata.enable": "false"}
    _require_turns(engine, table, hudi_type, options)


@pytest.mark.parametrize(
    ("engine", "url", "hudi_type"),
    in_ci(
        [(NEWEST, *KINDS[2])],
        of=[(version, *kind) for version in (NEWEST, "1.0.2", "0.15.0") for kind in KINDS[2:4]],
    ),
    indirect=["engine"],
)
def test_statistics_of_both_find_keys(
    engine: HudiEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, hudi_type: str
) -> None:
    """Both take ranges and filters from the metadata table, which both write."""
    monkeypatch.setattr(BloomIndex, "fewest_asked", 1)
    partitions = ["files", "column_stats", "bloom_filters"]
    table = rli.create_table(
        tmp_path / "trips",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=url,
        metadata=partitions,
    )
    options = write_options(engine, BY_CITY, index=hudi_type) | {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.bloom.index.use.metadata": "true",
        # Those of rli are of the other type.
        "hoodie.bloom.index.filter.type": "SIMPLE",
    }
    _require_turns(engine, table, hudi_type, options)
    assert not table.metadata.verify()
    assert set(partitions) <= {found.partition for found in table.metadata.status().partitions}


@with_hudi(NEWEST)
def test_hudi_builds_filters_of_our_files(engine: HudiEngine, tmp_path: Path) -> None:
    """Whatever type a filter has, Hudi's build says the type of its option: ours are of its default."""
    table = rli.create_table(
        tmp_path / "trips", record_key="id", partition_by="city", ordering="ts", index="global-bloom:"
    )
    table.upsert(_records(*(trip(f"k{number}", ts=1) for number in range(9))))
    options = write_options(engine, BY_CITY, index="GLOBAL_BLOOM") | {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.bloom.index.use.metadata": "true",
    }
    engine.write(table.location, _records(trip("k1", ts=2), trip("k8", ts=2), trip("new", ts=2)), options)
    assert sorted(key for key, _, ts in _versions(table.read()) if ts == 2) == ["k1", "k8", "new"]
    assert table.read().num_rows == 10
    assert "bloom_filters" in {found.partition for found in table.metadata.status().partitions}
    assert table.metadata.verify() == ()


def _require_turns(engine: HudiEngine, table: rli.Table, hudi_type: str, options: dict[str, str]) -> None:
    path = table.location
    for kind in ("simple", "bloom", "record"):
        options[f"hoodie.{kind}.index.update.partition.path"] = "true"
    if hudi_type == "RECORD_INDEX":
        # One index: each finds the entries of the other.
        options |= {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    is_global = hudi_type in {"GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX"}

    table.upsert(_records(trip("ours", ts=1), trip("moves", ts=1)))
    engine.write(path, _records(trip("ours", ts=2), trip("hudi's", ts=2), trip("moves", city="Rome", ts=2)), options)
    found = table.upsert(
        _records(trip("hudi's", ts=3, fare=3.0), trip("hudi's", ts=2), trip("moves", city="Lima", ts=3))
    )
    assert (found.inserted, found.updated, found.moved) == ((0, 1, 1) if is_global else (1, 1, 0))
    engine.write(path, _records(trip("hudi's", ts=4, fare=4.0), trip("moves", city="Lima", ts=4)), options)

    expected = {("ours", "Oslo", 2), ("hudi's", "Oslo", 4), ("moves", "Lima", 4)}
    if not is_global:
        expected |= {("moves", "Oslo", 1), ("moves", "Rome", 2)}
    for rows in (table.read(), without_meta_columns(engine.read(path))):
        assert sorted(_versions(rows)) == sorted(expected)
    assert table.verify_index().agrees
    assert table.delete(["moves"]).deleted == (1 if is_global else 3)
    assert sorted(_versions(engine.read(path))) == [("hudi's", "Oslo", 4), ("ours", "Oslo", 2)]


@with_hudi(NEWEST)
def test_partitioned_index_takes_turns_with_hudi(engine: HudiEngine, tmp_path: Path) -> None:
    """Each has its own; a key is unique in its partition in both."""
    path = tmp_path / "trips"
    index = f"lmdb://{tmp_path}/index?scope=partition"
    table = rli.create_table(path, record_key="id", partition_by="city", ordering="ts", index=index)
    options = {
        **write_options(engine, BY_CITY, index="RECORD_LEVEL_INDEX"),
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.level.index.enable": "true",
    }
    table.upsert(_records(trip("k", ts=1), trip("k", city="Rome", ts=1), trip("ours", ts=1)))
    # Of a key in two partitions, Hudi 1.2 takes one record of a batch, and so loses the other.
    engine.write(path, _records(trip("k", city="Lima", ts=2)), options)
    engine.write(path, _records(trip("k", ts=2), trip("hudi's", ts=2)), options)
    assert "record_index" in (path / ".hoodie" / "hoodie.properties").read_text()
    found = table.upsert(
        _records(trip("k", city="Lima", ts=3), trip("hudi's", ts=3), trip("hudi's", city="Rome", ts=3))
    )
    assert (found.inserted, found.updated, found.moved) == (1, 2, 0)
    engine.write(path, _records(trip("hudi's", city="Rome", ts=4), trip("k", city="Rome", ts=4)), options)
    expected = [
        ("hudi's", "Oslo", 3),
        ("hudi's", "Rome", 4),
        ("k", "Lima", 3),
        ("k", "Oslo", 2),
        ("k", "Rome", 4),
        ("ours", "Oslo", 1),
    ]
    for rows in (table.read(), without_meta_columns(engine.read(path))):
        assert sorted(_versions(rows)) == expected
    assert table.lookup(["k"])["partition_path"].to_pylist() == ["Lima", "Oslo", "Rome"]
    assert table.delete(["k"]).deleted == 3
    assert table.verify_index().agrees


@with_hudi(NEWEST)
@pytest.mark.parametrize("filter_type", in_ci(["DYNAMIC_V0"], of=["SIMPLE", "DYNAMIC_V0"]))
def test_keys_are_found_by_hudis_filters(engine: HudiEngine, tmp_path: Path, filter_type: str) -> None:
    path = tmp_path / "trips"
    table = rli.create_table(path, record_key="id", partition_by="city", ordering="ts", index="global-bloom:")
    options = write_options(engine, BY_CITY, index="GLOBAL_BLOOM") | {
        "hoodie.bloom.index.filter.type": filter_type,
        # So few that a dynamic filter grows by rows, and a simple one claims foreign keys.
        "hoodie.index.bloom.num_entries": "20",
        "hoodie.bloom.index.filter.dynamic.max.entries": "80",
        "hoodie.parquet.block.size": "1024",
    }
    keys = [*(f"käse {number}" for number in range(150)), "\U0001f600", "\ufb01", "z"]
    engine.write(path, _records(*(trip(key, ts=1) for key in keys)), options)

    filters = [reader.bloom_filter for reader in _readers(table)]
    assert [found is not None and len(found.rows) for found in filters] == [1 if filter_type == "SIMPLE" else 4]
    foreign = [f"foreign {number}" for number in range(200)]
    found = table.lookup([*keys, *foreign]).column("file_id")
    assert found.null_count == len(foreign)
    assert found.slice(len(keys)).null_count == len(foreign)
    assert table.upsert(_records(*(trip(key, ts=2) for key in keys))).updated == len(keys)
    # Hudi finds them by the ranges and filters of ours.
    engine.write(path, _records(*(trip(key, ts=3) for key in [*keys, *foreign])), options)
    assert {row[2] for row in _versions(table.read())} == {3}
    assert table.verify_index().agrees
    assert table.read().num_rows == len(keys) + len(foreign)


def _readers(table: rli.Table) -> Iterator[SliceReader]:
    snapshot = opened_table(table).snapshot()
    for file_slice in snapshot.slices.values():
        with snapshot.reader(file_slice) as reader:
            yield reader


def _records(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def _versions(rows: pa.Table) -> list[tuple[str, str, int]]:
    return list(zip(*(rows.column(name).to_pylist() for name in ("id", "city", "ts")), strict=True))
