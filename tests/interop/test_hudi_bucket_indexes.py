"""rli and Apache Hudi take turns on a table with a bucket index: each finds the records of the other in their buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import rli
from rli.hudi.bucket_index import bucket_of_file_id
from rli.hudi.hashing_config import FOLDER
from rli.table.table import opened_table
from tests.support.histories import Layout
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import newest_only, write_options
from tests.support.meta_columns import without_meta_columns
from tests.support.soak import in_ci

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
HASHED: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "one column": (("a",), "a"),
    "second": (("a", "b"), "b"),
    "both": (("a", "b"), "a,b"),
}
"""The columns of the key, and those that make the bucket."""

ODD = ["", None, "é", "\U0001f600x", "日本", "2014-10-22 13:50:42", "x y", "__nil__", "c,d"]


@newest_only
@pytest.mark.parametrize("case", in_ci(["second"], of=HASHED))
def test_upserts_take_turns(engine: HudiEngine, tmp_path: Path, case: str) -> None:
    key, hashed = HASHED[case]
    path, url = tmp_path / "trips", f"bucket:?buckets=5&fields={hashed}"
    table = rli.create_table(path, record_key=key, partition_by="city", ordering="ts", index=url)
    options = _options(engine, Layout(record_key=key, partition_by=("city",)), hashed)
    rows = [(f"k{number}\U0001f600", ODD[number % len(ODD)], ["Oslo", "Rome"][number % 2]) for number in range(60)]

    table.upsert(_records(rows[:40], ts=1))
    engine.write(path, _records(rows[20:], ts=2), options)
    result = table.upsert(_records(rows[10:], ts=3))
    assert (result.inserted, result.updated) == (0, 50)
    engine.write(path, _records(rows[:30], ts=4), options)
    assert table.insert(_records(rows, ts=9)).unchanged == 60

    expected = {(a, b, 4 if number < 30 else 3) for number, (a, b, _) in enumerate(rows)}
    for found in (table.read(), without_meta_columns(engine.read(path))):
        stored = list(zip(*(found.column(name).to_pylist() for name in ("a", "b", "ts")), strict=True))
        assert len(stored) == 60
        assert set(stored) == expected
    assert table.verify_index().agrees
    assert set(_file_groups(table).values()) == {1}
    if key == ("a",):
        require_overwrites_in_turn(engine, table, options, rows)
    table.close()
    with rli.open_table(path) as again:
        assert again.bootstrap_index(url) == 60
        with pytest.raises(rli.IndexMismatchError, match=r"the files suggest bucket:\?buckets=5"):
            again.bootstrap_index(f"bucket:?buckets=10&fields={hashed}")


def require_overwrites_in_turn(
    engine: HudiEngine, table: rli.Table, options: dict[str, str], rows: list[tuple[str, str | None, str]]
) -> None:
    """New file groups of the same buckets take the place of the former ones; writes of both go on. Ends with all rows."""
    in_oslo, in_rome = rows[::2], rows[1::2]
    done = table.overwrite_partitions(_records(in_oslo[:20], ts=1))
    assert (done.updated, done.deleted) == (20, 10)
    engine.write(table.location, _records(in_oslo[10:], ts=2), options)
    operation = {"hoodie.datasource.write.operation": "insert_overwrite"}
    engine.write(table.location, _records(in_rome[:20], ts=3), options | operation)
    assert table.upsert(_records(in_rome[10:], ts=4)).inserted == 10
    assert table.drop_partitions(["Oslo"]).deleted == 30
    engine.write(table.location, _records(in_oslo, ts=5), options)
    for found in (table.read(), without_meta_columns(engine.read(table.location))):
        assert Counter(found.column("ts").to_pylist()) == {3: 10, 4: 20, 5: 30}
    assert table.verify_index().agrees
    assert set(_file_groups(table).values()) == {1}


@pytest.mark.soak
@newest_only
def test_partitions_rescaled_by_hudi(engine: HudiEngine, tmp_path: Path) -> None:
    """Each partition gets the number of buckets of the first pattern in its path; Hudi keeps them in a hashing config."""
    path, layout, rules = tmp_path / "trips", Layout(record_key=("a",), partition_by=("city",)), "^O.*,2;ome$,3"
    options = _options(engine, layout, "a")
    keys = [(f"k{number}", "x", city) for number in range(60) for city in ("Oslo", "Rome", "Lima")]
    engine.write(path, _records(keys[:120], ts=1), options, mode="overwrite")
    engine.sql(f"create table rescaled using hudi location '{path}'")
    stay = "hoodie.bucket.index.hash.field=a,hoodie.write.table.version=6,hoodie.write.auto.upgrade=false"
    engine.sql(
        f"call partition_bucket_index_manager(table => 'rescaled', overwrite => '{rules}', bucket_number => 5, "
        f"dry_run => false, options => '{stay}')"
    )
    assert list((path / FOLDER).glob("*.hashing_config"))

    with rli.open_table(path) as table:
        with pytest.raises(rli.IndexMismatchError, match=r"write bucket:\?buckets=5"):
            table.bootstrap_index("bucket:?buckets=6")
        assert table.bootstrap_index("bucket:?buckets=5") == 120
        result = table.upsert(_records(keys[60:], ts=2))
        assert (result.inserted, result.updated) == (60, 60)
        engine.write(path, _records(keys[90:], ts=3), options | {"hoodie.bucket.index.partition.expressions": rules})
        assert Counter(partition for partition, _ in _file_groups(table)) == {"Oslo": 2, "Rome": 3, "Lima": 5}
        assert Counter(table.read()["ts"].to_pylist()) == {1: 60, 2: 30, 3: 90}
        assert table.verify_index().agrees


def _options(engine: HudiEngine, layout: Layout, hashed: str) -> dict[str, str]:
    return write_options(engine, layout, index="BUCKET") | {
        "hoodie.index.bucket.engine": "SIMPLE",
        # One of the tables is enough: it takes most of the time of a write.
        "hoodie.metadata.enable": str(hashed == "a").lower(),
        "hoodie.bucket.index.num.buckets": "5",
        "hoodie.bucket.index.hash.field": hashed,
    }


def _records(rows: Sequence[tuple[str, str | None, str]], ts: int) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, (*row, ts), strict=True)) for row in rows], SCHEMA)


def _file_groups(table: rli.Table) -> dict[tuple[str, int | None], int]:
    groups = opened_table(table).snapshot().slices
    return dict(Counter((group.partition_path, bucket_of_file_id(group.file_id)) for group in groups))
