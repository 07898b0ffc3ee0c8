"""Indexes on columns: the catalogue, and what an index is made of."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rli import (
    ColumnIndexState,
    IndexExistsError,
    IndexNotFoundError,
    InvalidInputError,
    PruningStep,
    SchemaError,
    Table,
    create_table,
    open_table,
)
from rli.services.column_indexes import forget_index
from rli.table.table import opened_table
from tests.support.tables import records, turn_into_version_9
from tests.support.waiting import eventually


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    turn_into_version_9(table)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    return table


def shown(table: Table) -> dict[str, tuple[tuple[str, ...], ColumnIndexState]]:
    return {index.name: (index.columns, index.state) for index in table.indexes()}


VALID, INVALID = ColumnIndexState.VALID, ColumnIndexState.INVALID


def test_statistics_of_chosen_columns_skip_files(table: Table) -> None:
    assert table.create_index("by_v", on="v", using="column_stats").state is VALID
    assert table.create_index("by_ts", on="ts", using="column_stats").bytes > 0
    assert shown(table) == {"by_v": (("v",), VALID), "by_ts": (("ts",), VALID)}
    for where in ("v > 5", "ts > 5"):
        pruned = table.scan(filters=where).explain().files.pruned
        assert sum(pruned.get(step, 0) for step in (PruningStep.PARTITION_STATS, PruningStep.COLUMN_STATS)) == 2
    table.upsert(records(("c", "x", 9, 9.0)))
    assert table.metadata.verify() == ()
    assert table.read(filters="v > 5")["id"].to_pylist() == ["c"]
    # Statistics that nobody keeps would hide rows.
    table.drop_index("by_v")
    table.upsert(records(("d", "y", 1, 99.0)))
    assert table.read(filters="v > 50")["id"].to_pylist() == ["d"]
    assert shown(table) == {"by_ts": (("ts",), VALID)}
    assert table.metadata.verify() == ()
    table.drop_index("by_ts")
    assert [found.partition for found in table.metadata.status().partitions] == ["files"]


def test_partitions_that_were_there_stay(table: Table) -> None:
    table.metadata.enable(["files", "column_stats", "bloom_filters"])
    listed = table.metadata.status().partitions
    assert {*shown(table)} == {"column_stats", "bloom_filters"}
    table.create_index("by_v", on="v", using="column_stats")
    table.create_index("again", on="v", using="column_stats")
    table.create_index("by_id", on="id", using="bloom_filters")
    assert shown(table)["column_stats"] == (("id", "city", "ts"), VALID)
    assert {*shown(table)} == {"by_v", "again", "by_id", "column_stats"}
    for name in ("by_v", "again", "by_id"):
        table.drop_index(name)
    assert table.metadata.status().partitions == listed


def test_data_of_an_index_have_heirs(table: Table) -> None:
    table.create_index("first", on="v", using="column_stats")
    table.create_index("second", on="v", using="column_stats")
    table.drop_index("first")
    assert shown(table) == {"second": (("v",), VALID)}
    table.drop_index("second")
    assert shown(table) == {}


def test_dropped_heirs_stay_dropped(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.create_index("first", on="v", using="column_stats")
    table.create_index("second", on="v", using="column_stats")
    holder = opened_table(open_table(table.location))
    with ThreadPoolExecutor(1) as other, caplog.at_level(logging.INFO):
        with holder.service("drop of the heir", patience=60) as (_, fence):
            dropped = other.submit(table.drop_index, "first")
            eventually(lambda: "waiting for the lease" in caplog.text, "the other process waits for the lease")
            forget_index("second", fence)
        dropped.result()
    assert {*shown(table)}.isdisjoint({"first", "second"})


def test_lost_indexes_are_shown_invalid(table: Table) -> None:
    table.create_index("by_id", on="id", using="bloom_filters")
    table.metadata.disable(["bloom_filters"])
    assert shown(table) == {"by_id": (("id",), INVALID)}
    assert table.create_index("by_id", on="id", using="bloom_filters").state is VALID
    table.metadata.disable()
    table.drop_index("by_id")
    assert shown(table) == {}


def test_impossible_indexes_are_refused(table: Table) -> None:
    table.create_index("by_v", on="v", using="column_stats")
    with pytest.raises(IndexExistsError, match="by_v"):
        table.create_index("by_v", on="ts", using="column_stats")
    with pytest.raises(SchemaError, match="nowhere"):
        table.create_index("other", on="nowhere", using="column_stats")
    with pytest.raises(InvalidInputError, match="record key"):
        table.create_index("other", on="v", using="bloom_filters")
    with pytest.raises(InvalidInputError, match="column_stats"):
        table.create_index("other", on="v", using="btree")
    with pytest.raises(InvalidInputError, match="expression"):
        table.create_index("other", on="ts", using="column_stats", expression="hour(ts)")
    with pytest.raises(InvalidInputError, match="background"):
        table.create_index("other", on="ts", using="column_stats", wait=False)
    with pytest.raises(InvalidInputError, match="Other"):
        table.create_index("Other", on="ts", using="column_stats")
    with pytest.raises(IndexNotFoundError, match="other"):
        table.drop_index("other")
    assert shown(table) == {"by_v": (("v",), VALID)}
