"""What the metadata table leaves out holds no record of the filter, whatever Hudi has written into it."""

from __future__ import annotations

import datetime as dt
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rli
from rli import PruningStep, Query, Table
from rli.filters.filter import Filter
from rli.hudi.meta_columns import with_meta_columns
from rli.hudi.properties import Key, load_properties, save_properties
from rli.storage import Storage
from rli.table.table import opened_table
from rli.view.snapshot import Snapshot
from tests.support.edge_values import EDGES, table_after_all_changes
from tests.support.metadata_tables import METADATA_TABLES, state_before_later_commits, unpack_metadata_table
from tests.support.soak import cases
from tests.support.tables import change_properties, records, turn_into_version_9

OF_HUDI = (*METADATA_TABLES, "v9_gaps", "v9_logs", "v6_logs")
OF_RLI = {
    "kept v6": (6, rli.TableType.COPY_ON_WRITE),
    "kept v9": (9, rli.TableType.COPY_ON_WRITE),
    "kept v6 logs": (6, rli.TableType.MERGE_ON_READ),
    "kept v9 logs": (9, rli.TableType.MERGE_ON_READ),
}
TABLES = (*OF_HUDI, *OF_RLI)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    folder = tmp_path_factory.mktemp("tables")
    unpacked = {name: rli.open_table(unpack_metadata_table(name, folder / name)) for name in OF_HUDI}
    return unpacked | {name: table_after_all_changes(folder / name, *form) for name, form in OF_RLI.items()}


@pytest.fixture(scope="module")
def full(tables: dict[str, Table]) -> dict[tuple[str, Query], pa.Table]:
    """All records of the files in the folders."""
    states = {name: Snapshot.now(opened_table(table).definition) for name, table in tables.items()}
    return {(name, query): state.read(query=query) for name, state in states.items() for query in Query}


@pytest.mark.parametrize("name", TABLES)
@given(data=st.data())
@settings(max_examples=cases(4), deadline=None)
def test_skipping_loses_no_record(
    tables: dict[str, Table], full: dict[tuple[str, Query], pa.Table], name: str, data: st.DataObject
) -> None:
    query = data.draw(st.sampled_from([*Query]))
    records = full[name, query]
    filters = data.draw(conditions(records))
    passes = Filter.of(filters, with_meta_columns(records.schema))
    assert passes is not None
    expected = ids(records.filter(passes.expression))
    scan = tables[name].scan(filters=filters, query=query)
    assert ids(scan.to_table()) == ids(tables[name].read(filters=filters, query=query)) == expected, filters
    assert scan.explain().files.total == scan.explain().files.read + sum(scan.explain().files.pruned.values())


@pytest.mark.parametrize("name", TABLES)
def test_skipping_holds_for_the_past(tables: dict[str, Table], name: str) -> None:
    table = tables[name]
    # In the others, files of earlier commits were cleaned.
    for entry in table.history()[-1:] if name != "v9_gaps" else table.history():
        past = table.read(as_of=entry.time)
        for limit in (1, 3, 5):
            filters = f"ts > {limit}"
            assert ids(table.read(filters=filters, as_of=entry.time)) == ids(
                past.filter(pa.compute.field("ts") > limit)
            )


def conditions(records: pa.Table) -> st.SearchStrategy[str]:
    """Filters in SQL over the columns of a table, with values that are there and values at the edges."""
    usable = [field for field in records.schema if str(field.type) in EDGES]
    single = st.sampled_from(usable).flatmap(lambda field: comparisons(field, records))
    return st.recursive(
        single,
        lambda inner: st.one_of(
            inner.map(lambda one: f"not ({one})"),
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
                lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
            ),
        ),
        max_leaves=4,
    )


def comparisons(field: pa.Field, records: pa.Table) -> st.SearchStrategy[str]:
    stored = [value for value in records[field.name].unique().to_pylist() if value is not None and str(value) != "nan"]
    values = st.sampled_from([*stored, *EDGES[str(field.type)]]).map(literal)
    name = field.name
    forms = [
        st.tuples(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), values).map(
            lambda one: f"{name} {one[0]} {one[1]}"
        ),
        st.lists(values, min_size=1, max_size=3).map(lambda some: f"{name} in ({', '.join(some)})"),
        st.sampled_from([f"{name} is null", f"{name} is not null"]),
        st.tuples(values, values).map(lambda one: f"{name} between {one[0]} and {one[1]}"),
    ]
    if pa.types.is_string(field.type):
        forms.append(st.sampled_from(["a%", "%b", "x%", "_", "%"]).map(lambda pattern: f"{name} like '{pattern}'"))
    if pa.types.is_integer(field.type):
        forms.append(st.integers(-2, 9).map(lambda number: f"cast({name} as double) > {number + 0.5}"))
        forms.append(
            st.sampled_from(["1%", "-_", "%7%"]).map(lambda pattern: f"cast({name} as string) like '{pattern}'")
        )
    if pa.types.is_date(field.type):
        forms.append(values.map(lambda value: f"cast({name} as timestamp) >= cast({value} as timestamp)"))
    return st.one_of(forms)


def literal(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("'", "''")
        return f"'{escaped}'"
    return f"'{value.isoformat()}'" if isinstance(value, dt.date) else str(value)


def ids(records: pa.Table) -> list[str]:
    return sorted(records["id"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return rli.open_table(unpack_metadata_table("v9", tmp_path))


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "rli"):
        yield caplog


def metadata_warnings(warnings: pytest.LogCaptureFixture) -> set[str]:
    unused = (vars(record) for record in warnings.records)
    return {found["rli_partition"] for found in unused if found.get("rli_event") == "metadata.unused"}


def test_explanation_names_partitions_of_metadata(table: Table) -> None:
    found = table.scan(filters="id = 'nobody' and ts >= 1").explain().files
    assert list(found.pruned)[1:4] == [PruningStep.PARTITION_STATS, PruningStep.COLUMN_STATS, PruningStep.BLOOM_FILTERS]
    assert found.read == 0
    assert found.pruned[PruningStep.FOOTERS] == 0


@pytest.mark.parametrize("partition", ["files", "column_stats", "partition_stats", "bloom_filters"])
def test_broken_partition_breaks_no_read(table: Table, warnings: pytest.LogCaptureFixture, partition: str) -> None:
    expected = ids(table.read(filters="ts >= 1 and id = '3'"))
    for file in Path(table.location, ".hoodie/metadata", partition).iterdir():
        if not file.name.endswith("_partition_metadata"):
            file.write_bytes(b"broken" * 20)
    assert ids(table.read(filters="ts >= 1 and id = '3'")) == expected
    assert metadata_warnings(warnings) == {partition}


@pytest.mark.parametrize("is_emptied", [True, False])
@pytest.mark.parametrize("version", [6, 9])
def test_lost_logs_hide_no_record(
    version: int, tmp_path: Path, warnings: pytest.LogCaptureFixture, *, is_emptied: bool
) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    if version == 9:
        turn_into_version_9(table)
    table.upsert(records(("a", "x", 1, 1.0)))
    partitions = ["files", "column_stats", "partition_stats"]
    table.metadata.enable(partitions)
    for number in range(2, 5):
        table.upsert(records(("a", "x", number, 10.0 * number), (f"b{number}", "y", 1, 0.0)))
    expected = ids(table.read(["id"], "v > 15"))
    # Hudi 0.15, which writes tables of version 6, leaves statistics of partitions as they were.
    asks_partitions = PruningStep.PARTITION_STATS in table.scan(filters="v > 15").explain().files.pruned
    assert asks_partitions is (version == 9)
    for partition in ("partition_stats", "files") if asks_partitions else ("files",):
        logs = sorted(Path(table.location, ".hoodie/metadata", partition).glob(".*.log.*"), key=lambda log: log.name)
        # Neither the first nor the last change.
        lost = logs[-2]
        content = lost.read_bytes()
        lost.write_bytes(b"") if is_emptied else lost.unlink()
        warnings.clear()
        assert ids(table.read(["id"], "v > 15")) == expected
        assert metadata_warnings(warnings) == {partition}
        lost.write_bytes(content)
    assert table.metadata.verify() == ()


def test_list_without_last_commit_is_distrusted(tmp_path: Path, warnings: pytest.LogCaptureFixture) -> None:
    table = rli.open_table(unpack_metadata_table("v9_gaps", tmp_path))
    expected = ids(table.read())
    timeline = Path(table.location, ".hoodie/metadata/.hoodie/timeline")
    last = table.history()[-1].time
    for file in timeline.glob(f"{last}*"):
        file.unlink()
    assert ids(table.read()) == expected
    assert metadata_warnings(warnings) == {"files"}


def test_unlisted_partitions_are_not_asked(table: Table, warnings: pytest.LogCaptureFixture) -> None:
    storage = Storage(table.location)
    save_properties(storage, load_properties(storage).changed({Key.METADATA_PARTITIONS: None}))
    storage.delete_folder(".hoodie/metadata")
    found = table.scan(filters="ts > 100").explain().files
    assert PruningStep.COLUMN_STATS not in found.pruned
    assert metadata_warnings(warnings) == set()


def test_later_partition_statistics_hide_no_record(tmp_path: Path) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    turn_into_version_9(table)
    table.upsert(records(("a", "x", 1, 99.0)))
    earlier = opened_table(table).definition.load_timeline()
    table.upsert(records(("a", "x", 2, 1.0)))
    table.metadata.enable(["files", "column_stats", "partition_stats"])
    assert state_before_later_commits(table, earlier).scan(["id"], "v > 50").to_table()["id"].to_pylist() == ["a"]
    assert table.scan(filters="v > 50").explain().files.pruned[PruningStep.PARTITION_STATS] == 1


@pytest.mark.parametrize("table_type", rli.TableType)
def test_statistics_of_overlapping_writes(table_type: rli.TableType, tmp_path: Path) -> None:
    """Of two commits, readers take the statistics of a partition that have the greater instant."""
    table = rli.create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", table_type=table_type, small_file_size=0
    )
    turn_into_version_9(table)
    table.metadata.enable(["files", "column_stats", "partition_stats"])
    table.upsert(records(("a", "x", 1, 1.0)))
    left = [records(("b", "x", 1, 2.0))]

    def write_meanwhile(step: rli.Step) -> None:
        if step is rli.Step.WRITTEN and left:
            rli.open_table(table.location).upsert(left.pop())

    table.upsert(records(("c", "x", 1, 99.0)), on_step=write_meanwhile)
    assert table.read(["id"], "v > 50")["id"].to_pylist() == ["c"]
    assert table.metadata.verify() == ()


@pytest.mark.parametrize("initial", ["6", "SIX"])
def test_statistics_left_behind_prove_nothing(initial: str, tmp_path: Path) -> None:
    """Hudi 0.15 leaves those of partitions as they were, and an upgrade keeps them."""
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    turn_into_version_9(table)
    change_properties(table, {Key.INITIAL_VERSION: initial})
    table.upsert(records(("a", "Oslo", 1, 1.0), ("c", "Rome", 1, 1.0)))
    table.metadata.enable(["files", "partition_stats"])
    change_properties(table, {Key.METADATA_PARTITIONS: "column_stats,files"})
    table.upsert(records(("b", "Oslo", 9, 9.0)))
    change_properties(table, {Key.METADATA_PARTITIONS: "column_stats,files,partition_stats"})
    table = rli.open_table(table.location)
    assert {one.item.split()[0] for one in table.metadata.verify() if one.fault == "wrong"} == {"Oslo"}
    assert [row["id"] for row in table.read(filters="ts > 5").to_pylist()] == ["b"]
    assert PruningStep.PARTITION_STATS not in table.scan(filters="ts > 5").explain().partitions.pruned
    table.upsert(records(("a", "Oslo", 10, 2.0)))
    assert table.metadata.verify() == ()
    assert table.read(filters="ts > 5").num_rows == 2


def test_unlisted_columns_prove_nothing(tmp_path: Path) -> None:
    """A job of Hudi may choose other columns: the statistics of partitions of the former ones stay as they were."""
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    turn_into_version_9(table)
    table.upsert(records(("a", "Oslo", 1, 1.0), ("b", "Oslo", 1, 1.0), ("c", "Rome", 1, 1.0)))
    table.metadata.enable(["files", "column_stats", "partition_stats"])
    definitions = Path(table.location, ".hoodie/.index_defs/index.json")
    content = json.loads(definitions.read_text())
    content["indexDefinitions"]["column_stats"]["sourceFields"].remove("ts")
    definitions.write_text(json.dumps(content))
    table = rli.open_table(table.location)
    # As many records as before.
    table.upsert(records(("a", "Oslo", 9, 2.0)))
    assert [row["id"] for row in table.read(filters="ts > 5").to_pylist()] == ["a"]
    assert table.scan(filters="v > 1.5").explain().partitions.pruned[PruningStep.PARTITION_STATS] == 1
