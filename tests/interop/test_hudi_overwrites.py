"""rli and Apache Hudi overwrite and drop partitions of one table in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pytest

from rli import CommitResult
from tests.support.agreement import require_agreement, require_hudi_agrees
from tests.support.histories import SCHEMA, History, Layout, Row, new_history, trip
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, with_hudi, write_options

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P51")]

BY_CITY: Final = Layout(partition_by=("city",), hive_style=True)
CLEANS_AND_ARCHIVES: Final = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.clean.commits.retained": "1",
    # Archiving waits for the compaction of the metadata table.
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


@with_hudi(NEWEST, in_soak=("0.15.0",))
def test_both_overwrite_in_turn(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    cities = ("Oslo", "Rome", "Lima", "Bern")
    history.upsert([trip(f"{city} {number}", city=city, ts=5) for city in cities for number in range(3)])
    assert overwrite(history, [trip("Oslo 0"), trip("new"), trip("Rome 0")], ["city=Bern"]).deleted == 5
    assert history.table.drop_partitions(["city=Lima"]).deleted == 3
    gone(history, "Lima")
    both_agree(engine, history)

    # An upsert by Hudi finds the records in the new file groups, and those of dropped partitions nowhere.
    theirs = [trip("Oslo 0", ts=9), trip("Lima 0", city="Lima"), trip("new", city="Rome", ts=9)]
    hudi_writes(engine, history, theirs, "upsert", CLEANS_AND_ARCHIVES)
    history.expect_upserted(theirs)
    history.table.sync_index()
    require_agreement(history)

    replacing = [trip("Rome 1", city="Rome"), trip("Lima 0", city="Rome")]
    hudi_writes(engine, history, replacing, "insert_overwrite")
    gone(history, "Rome")
    # Hudi's overwrite compares keys with no other partition: one of them is in Lima, too, until that is dropped.
    hudi_writes(engine, history, [], "delete_partition", {"hoodie.datasource.write.partitions.to.delete": "city=Lima"})
    gone(history, "Lima")
    history.expect_upserted(replacing)
    both_agree(engine, history)

    overwrite(history, [trip("Rome 1", city="Oslo"), trip("Lima 0", city="Lima")], "all")
    for number in range(4):
        rows = [trip(f"later {number}", city="Bern", ts=number), trip("Rome 1", city="Oslo", ts=10 + number)]
        hudi_writes(engine, history, rows, "upsert", CLEANS_AND_ARCHIVES)
        history.expect_upserted(rows)
        # The index follows before Hudi archives a commit that it has not seen.
        history.table.sync_index()
    both_agree(engine, history)
    assert not list(history.path.glob("city=Rome/*.parquet"))
    assert list(history.path.glob(".hoodie/archived/*"))
    everything = [trip("later 0", city="Bern"), trip("last", city="Rome")]
    hudi_writes(engine, history, everything, "insert_overwrite_table")
    for city in cities:
        gone(history, city)
    history.expect_upserted(everything)
    both_agree(engine, history)
    history.table.close()


def overwrite(history: History, rows: list[Row], partitions: list[str] | Literal["all"]) -> CommitResult:
    done = history.table.overwrite_partitions(pa.Table.from_pylist(rows, SCHEMA), partitions=partitions)
    named = {f"city={row['city']}" for row in rows}.union([] if partitions == "all" else partitions)
    for row in history.rows:
        if partitions == "all" or f"city={row['city']}" in named or row["id"] in {one["id"] for one in rows}:
            history.expect_deleted([row["id"]])
    history.expect_upserted(rows)
    return done


def gone(history: History, city: str) -> None:
    history.expect_deleted([row["id"] for row in history.rows if row["city"] == city])


def hudi_writes(
    engine: HudiEngine, history: History, rows: list[Row], operation: str, further: dict[str, str] | None = None
) -> None:
    options = write_options(engine, BY_CITY, operation) | (further or {})
    engine.write(history.path, pa.Table.from_pylist(rows, SCHEMA), options)


def both_agree(engine: HudiEngine, history: History) -> None:
    history.table.sync_index()
    require_agreement(history)
    require_hudi_agrees(engine, history)
