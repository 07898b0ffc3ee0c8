"""Indexes on columns: the catalogue, and what an index is made of."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest

from rli import (
    ColumnIndexState,
    CorruptTableError,
    IndexExistsError,
    IndexNotFoundError,
    InvalidInputError,
    LeaseBusyError,
    PruningStep,
    RliError,
    SchemaError,
    Table,
    create_table,
    open_table,
)
from rli.services.column_indexes import forget_index
from rli.services.metadata_table import MetadataChange
from rli.table.metadata_of_table import build_partitions
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


VALID, INVALID, DROPPING = ColumnIndexState.VALID, ColumnIndexState.INVALID, ColumnIndexState.DROPPING


def test_statistics_of_chosen_columns_skip_files(table: Table) -> None:
    assert table.create_index("by_v", on="v", using="column_stats").state is VALID
    assert table.create_index("by_ts", on="ts", using="column_stats").size > 0
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
            dropped = other.submit(table.drop_index, "first", timeout=60)
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
    with pytest.raises(InvalidInputError, match="type=double using=bloom_filters"):
        table.create_index("other", on="v", using="bloom_filters")
    with pytest.raises(InvalidInputError, match="column_stats"):
        table.create_index("other", on="v", using="btree")
    with pytest.raises(InvalidInputError, match="expression"):
        table.create_index("other", on="ts", using="column_stats", expression="hour(ts)")
    with pytest.raises(InvalidInputError, match="Other"):
        table.create_index("Other", on="ts", using="column_stats")
    with pytest.raises(IndexNotFoundError, match="other"):
        table.drop_index("other")
    assert shown(table) == {"by_v": (("v",), VALID)}


@pytest.mark.parametrize(
    ("on", "using", "expression"),
    [
        ("v", "column_stats", None),
        ("ts", None, None),
        ("id", "bloom_filters", None),
        ("ts", "bloom_filters", None),
        ("ts", None, "ts * 2"),
    ],
)
def test_scheduled_indexes_are_built_later(table: Table, on: str, using: str | None, expression: str | None) -> None:
    made = table.create_index("later", on, using, expression=expression, wait=False)
    assert (made.name, made.state) == ("later", ColumnIndexState.BUILDING)
    assert table.create_index("later", on, using, expression=expression, wait=False) == made
    # Writers go on, and readers do without.
    table.upsert(records(("c", "x", 5, 5.0)))
    filters = "ts * 2 = 10" if expression else f"{on} = {'5' if on != 'id' else repr('c')}"
    assert table.read(filters=filters)["id"].to_pylist() == ["c"]
    assert not table.scan(filters=filters).explain().files.pruned.keys() & {
        PruningStep.COLUMN_STATS, PruningStep.SECONDARY_INDEX, PruningStep.BLOOM_FILTERS, PruningStep.EXPRESSION_INDEX,
    }  # fmt: skip
    [built] = open_table(table.location).build_indexes()
    assert built.state is VALID
    assert table.build_indexes() == ()
    table.upsert(records(("d", "y", 6, 6.0)))
    assert table.read(filters=filters)["id"].to_pylist() == ["c"]
    assert table.metadata.verify() == ()
    table.drop_index("later")
    assert table.indexes() == ()


def test_scheduled_indexes_can_be_dropped(table: Table) -> None:
    table.create_index("by_v", on="v", using="column_stats")
    for name, on, expression in (("one", "ts", None), ("two", "ts", "ts + 1")):
        table.create_index(name, on, "column_stats", expression=expression, wait=False)
        table.drop_index(name)
    assert shown(table) == {"by_v": (("v",), VALID)}
    assert table.build_indexes() == ()
    assert table.scan(filters="v > 5").explain().files.read == 0


def test_two_builders_build_an_index_once(table: Table) -> None:
    table.create_index("one", "v", "column_stats", wait=False)
    table.create_index("two", "ts", expression="ts + 1", wait=False)
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(open_table(table.location).build_indexes) for _ in range(2)]
        table.upsert(records(("c", "x", 5, 5.0)))
        assert all(index.state is VALID for one in running for index in one.result())
    assert {index.state for index in table.indexes()} == {VALID}
    assert table.metadata.verify() == ()
    table.drop_index("one")
    table.drop_index("two")
    assert table.indexes() == ()


def test_a_dead_builder_leaves_a_schedule(table: Table) -> None:
    table.create_index("by_ts", "ts", expression="ts + 1")
    # As if the builder had published the partition, and died before it said so.
    names = Path(table.location, ".hoodie/.rli/column_indexes.json")
    names.write_text(names.read_text().replace('"is_scheduled": false', '"is_scheduled": true'))
    assert shown(table) == {"by_ts": (("ts",), ColumnIndexState.BUILDING)}
    table.upsert(records(("c", "x", 5, 5.0)))
    assert table.read(filters="ts + 1 = 6")["id"].to_pylist() == ["c"]
    assert [index.state for index in table.build_indexes()] == [VALID]
    table.drop_index("by_ts")
    assert table.indexes() == ()
    assert [found.partition for found in table.metadata.status().partitions] == ["files"]


def test_a_wrong_schedule_stops_no_other(table: Table) -> None:
    table.create_index("one", "v", "column_stats", wait=False)
    table.create_index("two", "ts", expression="ts + 1", wait=False)
    names = Path(table.location, ".hoodie/.rli/column_indexes.json")
    # As after a change of the columns.
    names.write_text(names.read_text().replace('"v"', '"gone"'))
    with pytest.raises(SchemaError, match="gone"):
        table.build_indexes()
    assert shown(table) == {"one": (("gone",), ColumnIndexState.BUILDING), "two": (("ts",), VALID)}
    table.drop_index("one")
    assert table.build_indexes() == ()


def test_bloom_filters_of_columns_skip_files(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 2, 2.0)))
    made = table.create_index("by_ts", on="ts", using="bloom_filters")
    assert (made.using, made.columns, made.state, made.lag, made.covers) == ("bloom_filters", ("ts",), VALID, 0, 1.0)
    assert table.create_index("by_ts", on="ts", using="bloom_filters") == made
    table.upsert(records(("c", "z", 3, 3.0), ("d", "x", 5, 4.0)))
    for ts in (1, 2, 3, 5):
        explained = table.scan(filters=f"ts = {ts}").explain().files
        assert (explained.read, explained.pruned[PruningStep.EXPRESSION_INDEX]) == (1, 2)
        assert table.read(filters=f"ts = {ts}").num_rows == 1
    assert table.read(filters="ts in (1, 3) or ts = 2").num_rows == 3
    assert table.metadata.verify() == ()
    table.drop_index("by_ts")
    assert table.indexes() == ()


def test_lists_tell_what_indexes_cover(tmp_path: Path) -> None:
    """Not the values that it does not hold, and not the file groups with log files."""
    table = create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type="merge_on_read",
        maintenance=False,
    )
    table.insert(records(*((f"{city}{n}", city, n, n or float("nan")) for city in "wxyz" for n in range(9))))
    table.create_index("by_ts", on="ts", using="column_stats")
    table.create_index("twice", on="v", expression="v * 2")
    found = {index.name: (index.lag, index.covers) for index in table.indexes()}
    assert found == {"by_ts": (0, 1.0), "twice": (0, 0.0)}
    table.upsert(records(("w1", "w", 20, 1.0)))
    assert {index.name: index.covers for index in table.indexes()} == {"by_ts": 0.75, "twice": 0.0}


def test_failed_builds_are_all_named(table: Table) -> None:
    for name in ("one", "two"):
        table.create_index(name, on="ts", using="column_stats", expression=f"ts + {len(name)}", wait=False)
    table.create_index("three", on="v", using="column_stats", wait=False)

    def fail(*_: object, **__: object) -> NoReturn:
        raise CorruptTableError("broken", remedy="mend it")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rli.table.column_indexes.build_partitions", fail)
        with pytest.raises(RliError, match="one: broken; two: broken; three: broken") as failed:
            table.build_indexes()
    assert (failed.value.remedy, failed.value.__cause__ is None) == ("mend it", False)
    assert {index.name for index in table.build_indexes()} == {"one", "two", "three"}


@pytest.mark.parametrize(
    ("on", "using", "expression", "step"),
    [
        ("v", "column_stats", None, None),
        ("ts", "secondary", None, PruningStep.SECONDARY_INDEX),
        ("ts", "bloom_filters", None, PruningStep.EXPRESSION_INDEX),
        ("ts", "column_stats", "ts * 2", PruningStep.EXPRESSION_INDEX),
    ],
)
def test_drops_wait_for_no_writer(
    table: Table, on: str, using: str, expression: str | None, step: PruningStep | None
) -> None:
    """Readers leave a dropped index alone at once; later it goes, and its name is free."""
    table.create_index("other", on="city", using="column_stats")
    table.create_index("gone", on, using, expression=expression)
    filters = f"{expression or on} = 2"
    holder = opened_table(open_table(table.location))
    with holder.service("long service", patience=60):
        table.drop_index("gone")
        assert shown(table)["gone"] == ((on,), DROPPING)
        assert step not in open_table(table.location).scan(filters=filters).explain().files.pruned
        with pytest.raises(LeaseBusyError):
            table.create_index("gone", on="id", using="bloom_filters", timeout=0)
    table.upsert(records(("c", "x", 2, 2.0)))
    assert table.read(filters=filters).num_rows == (1 if filters == "ts = 2" else 2)
    assert table.build_indexes() == ()
    assert {*shown(table)} == {"other"} | ({"record_index"} & {*shown(table)})
    assert table.create_index("gone", on="id", using="bloom_filters").state is VALID
    assert table.metadata.verify() == ()


def test_cleans_remove_dropped_indexes(table: Table) -> None:
    table.create_index("gone", on="ts", expression="ts * 2")
    with opened_table(open_table(table.location)).service("long service", patience=60):
        table.drop_index("gone")
    table.clean()
    assert table.indexes() == ()


def test_dropped_builds_do_not_return(table: Table) -> None:
    """An index that is dropped while it is built stays dropped."""
    table.create_index("later", on="ts", expression="ts * 2", wait=False)

    def drop_first(*given: Any) -> MetadataChange:
        patch.undo()
        done = build_partitions(*given)
        with opened_table(open_table(table.location)).service("long service", patience=60):
            open_table(table.location).drop_index("later")
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rli.table.column_indexes.build_partitions", drop_first)
        with pytest.raises(IndexNotFoundError, match="dropped while it was built"):
            table.build_indexes()
    assert table.build_indexes() == ()
    assert table.indexes() == ()
    assert table.metadata.verify() == ()


def test_uses_of_indexes_are_counted(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 2, 2.0), ("c", "z", 3, 3.0)))
    table.create_index("by_ts", on="ts", using="column_stats")
    table.create_index("twice", on="ts", expression="ts * 2")
    table.create_index("by_v", on="v", using="column_stats")
    table.create_index("stored", on="ts")
    table.read(filters="ts * 2 = 4")
    table.read(filters="v > 0.5")
    table.read(filters="ts > 1")
    table.read(filters="ts = 1")
    assert {index.name: (index.uses, index.files_skipped) for index in table.indexes()} == {
        "by_ts": (2, 1), "twice": (1, 2), "by_v": (1, 0), "stored": (1, 2),
    }  # fmt: skip
