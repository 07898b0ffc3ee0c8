"""Deletes and updates by a condition in Spark: the same records as in plain Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli import InvalidInputError, SchemaError, Step
from tests.support.index_kinds import stored_rows
from tests.support.lanes import first_on_every_spark
from tests.support.soak import in_ci
from tests.support.steps import Once
from tests.support.table_model import Version
from tests.support.tables import check_stored, records

pytestmark = [pytest.mark.spark, pytest.mark.invariant("P47")]

ROWS: list[Version] = [(f"k{n}", "xyz"[n % 3], n % 5, float(n)) for n in range(60)]


def filled(folder: Path, name: str, index: str) -> rli.Table:
    url = index.format(folder=folder / f"index-of-{name}")
    table = rli.create_table(folder / name, record_key="id", partition_by="city", ordering="ts", index=url)
    table.upsert(records(*ROWS))
    return table


INDEXES = ["lmdb://{folder}", "simple:", "global-bloom:", "bucket:?buckets=3"]


@pytest.mark.parametrize("index", first_on_every_spark(in_ci([INDEXES[0], "global-bloom:"], of=INDEXES)))
def test_same_as_in_plain_python(spark: SparkSession, tmp_path: Path, index: str) -> None:
    with filled(tmp_path, "local", index) as local, filled(tmp_path, "spark", index) as table:
        where = "city != 'z' and (v * 2 > 80 or id like 'k1_')"
        expected, done = local.delete_where(where), rli_spark.delete_where(spark, table, where)
        assert (done.deleted, done.files_rewritten) == (expected.deleted, expected.files_rewritten)
        assert done.deleted > 0
        assert done.receipt is not None
        assert expected.receipt is not None
        assert sorted(done.receipt.keys) == sorted(expected.receipt.keys)
        values = {"v": "case when ts > 2 then v / 0 else round(v * 1.5) end", "ts": "ts - 1"}
        expected, done = (
            local.update_where("city = 'x'", values),
            rli_spark.update_where(spark, table, "city = 'x'", values),
        )
        assert done.updated == expected.updated > 0
        assert stored_rows(table) == stored_rows(local)
        check_stored(table)


@pytest.mark.one_spark
def test_records_move_between_partitions(spark: SparkSession, tmp_path: Path) -> None:
    with filled(tmp_path, "t", "global-simple:") as table:
        done = rli_spark.update_where(spark, table, "city = 'x' and v < 10", {"city": "'new'", "v": "v + 0.5"})
        assert done.moved == 4
        moved = {(key, "new", ts, v + 0.5) for key, city, ts, v in ROWS if city == "x" and v < 10}
        stay = {row for row in ROWS if not (row[1] == "x" and row[3] < 10)}
        assert stored_rows(table) == moved | stay
        check_stored(table)


@pytest.mark.one_spark
def test_conflicts_and_repeats_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    with filled(tmp_path, "t", "lmdb://{folder}") as table:
        meanwhile = Once(Step.WRITTEN, lambda: table.upsert(records(("k0", "x", 9, -1.0))))
        done = rli_spark.delete_where(spark, table, "city = 'x' and v >= 0", transaction=("job", 1), on_step=meanwhile)
        assert (done.deleted, done.attempts) == (19, 2)
        again = rli_spark.delete_where(spark, table, "city = 'x' and v >= 0", transaction=("job", 1))
        assert (again.repeated, again.deleted) == (True, 19)
        with pytest.raises((InvalidInputError, SchemaError), match="cannot be computed"):
            rli_spark.update_where(spark, table, "city = 'y'", {"v": "cast(id as double)"})
        check_stored(table)


@pytest.mark.one_spark
def test_computed_filters_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    with filled(tmp_path, "t", "simple:") as table:
        for where in ["v * 2 > 80 and city != 'z'", "substring(id, 2) in ('7', '8')", "not (v / ts < 3)", "ts % 2 = 0"]:
            expected = sorted(table.read(filters=where)["id"].to_pylist())
            assert expected
            found = rli_spark.read(spark, table, columns=["v", "id"], filters=where).collect()
            assert sorted(row.id for row in found) == expected, where
            keys = spark.createDataFrame([(key,) for key in expected], "id string")
            assert rli_spark.read(spark, table, columns=["v"], keys=keys, filters=where).count() == len(expected)
