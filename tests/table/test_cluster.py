"""Clustering: small files become fewer, and nothing else changes; what others do meanwhile has precedence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli import (
    ConflictError,
    CorruptIndexError,
    InstantNotFoundError,
    InvalidInputError,
    RliError,
    SettingsError,
    Step,
    Table,
    create_table,
    open_table,
)
from rli.hudi.meta_columns import FILE_NAME, META_COLUMNS
from rli.model import FileGroupId
from rli.settings import TableSettings
from rli.table.options import TableOptions
from rli.table.table import opened_table
from rli.view.file_slices import DataFile, FileSlice
from rli.write.rewrites.clustering import plan_clustering
from tests.crash.writes import pointed
from tests.support.indexes import record_index
from tests.support.tables import by_key, check_stored, fingerprint, records, rows_of, turn_into_version_9

KEPT = [name for name in META_COLUMNS if name != FILE_NAME]
KEYS = [*(f"{letter}{number}" for letter in "xy" for number in range(5)), "m", "nobody"]


@pytest.fixture(params=[6, 9])
def scattered(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    """A table of either version with five file groups in each of two partitions, and ``m`` that moves to and fro."""
    table = new_table(tmp_path)
    if request.param == 9:
        turn_into_version_9(table)
    for number in range(5):
        table.upsert(records((f"x{number}", "x", 1, 1.0), (f"y{number}", "y", 1, 1.0), ("m", "xy"[number % 2], 1, 1.0)))
    yield table
    table.close()


def new_table(folder: Path, target_file_size: int = 1 << 20) -> Table:
    """A table in which each commit opens file groups of its own."""
    return create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{folder}/index",
        shards=3,
        small_file_size=0,
        target_file_size=target_file_size,
    )


def versions(table: Table) -> list[dict[str, object]]:
    """All records with their meta columns, but for the file that they are in."""
    return rows_of(table.read(columns=[*KEPT, "id", "city", "ts", "v"]))


def groups_in(table: Table) -> dict[str, int]:
    """How many file groups each partition has."""
    return dict(Counter(group.partition_path for group in opened_table(table).snapshot().slices))


def test_small_files_merge_within_partitions(scattered: Table) -> None:
    before, located = versions(scattered), scattered.lookup(KEYS)
    result = scattered.cluster()
    assert (result.files_replaced, result.files_created, result.files_rewritten) == (10, 2, 0)
    assert groups_in(scattered) == {"x": 1, "y": 1}
    assert versions(scattered) == before
    after = scattered.lookup(KEYS)
    for name in ("record_key", "partition_path", "instant_time"):
        assert after.column(name) == located.column(name)
    assert len(set(after.column("file_id").to_pylist())) == 3
    check_stored(scattered)
    assert scattered.timeline()[-1].action == "replacecommit"
    assert opened_table(scattered).snapshot().change(scattered.timeline()[-1]).operation == "CLUSTER"


def test_second_clustering_does_nothing(scattered: Table) -> None:
    scattered.cluster()
    before = fingerprint(scattered)
    assert scattered.cluster().instant is None
    assert fingerprint(scattered) == before


def test_later_writes_use_new_file_groups(scattered: Table) -> None:
    scattered.cluster()
    result = scattered.upsert(records(("x0", "x", 2, 2.0), ("m", "y", 2, 2.0), ("x1", "x", 0, 0.0), ("n", "x", 1, 1.0)))
    assert (result.inserted, result.updated, result.moved, result.unchanged) == (1, 1, 1, 1)
    assert scattered.delete(["y3", "nobody"]).deleted == 1
    rows = by_key(scattered.read().to_pylist())
    assert (rows["x0"]["v"], rows["m"]["city"], rows["x1"]["v"]) == (2.0, "y", 1.0)
    assert "y3" not in rows
    check_stored(scattered)


def test_emptied_and_old_groups_are_clustered(scattered: Table) -> None:
    wider = pa.schema([*records().schema, ("note", pa.string())])
    scattered.upsert(records(("w", "x", 1, 1.0, "wide"), schema=wider))
    scattered.delete(["y0", "y1"])
    before = versions(scattered)
    scattered.cluster()
    assert versions(scattered) == before
    notes = {row["id"]: row["note"] for row in rows_of(scattered)}
    assert notes["w"] == "wide"
    assert set(notes.values()) == {"wide", None}
    check_stored(scattered)


def test_rollback_restores_old_file_groups(scattered: Table) -> None:
    before, located = versions(scattered), scattered.lookup(KEYS)
    instant = scattered.cluster().instant
    assert instant is not None
    scattered.rollback(instant)
    assert groups_in(scattered) == {"x": 5, "y": 5}
    assert scattered.lookup(KEYS) == located
    assert versions(scattered) == before
    check_stored(scattered)
    scattered.cluster()
    assert scattered.lookup(KEYS).column("instant_time") == located.column("instant_time")
    check_stored(scattered)


def test_past_is_readable_until_clean(scattered: Table) -> None:
    last = scattered.timeline()[-1].time
    rows = rows_of(scattered)
    files = set(Path(scattered.location).glob("[!.]*/*.parquet"))
    clustered = scattered.cluster().instant or ""
    assert rows_of(scattered.read(as_of=last)) == rows
    # The clustering is the oldest commit that is kept: it can still be rolled back.
    scattered.clean(keep_commits=1)
    assert rows_of(scattered.read(as_of=clustered)) == rows
    scattered.upsert(records(("x0", "x", 2, 2.0)))
    scattered.clean(keep_commits=1)
    assert not files & set(Path(scattered.location).glob("[!.]*/*.parquet"))
    with pytest.raises(InstantNotFoundError, match="were cleaned"):
        scattered.read(as_of=last)
    scattered.rollback(opened_table(scattered).snapshot().timeline.completed_writes[-1].time)
    with pytest.raises(InstantNotFoundError, match="can no longer be rolled back"):
        scattered.rollback(clustered)
    assert rows_of(scattered) == rows
    check_stored(scattered)


@pytest.mark.invariant("P5")
def test_concurrently_changed_file_group_is_left(scattered: Table) -> None:
    other = open_table(scattered.location)

    def update_x(step: Step) -> None:
        if step is Step.WRITTEN:
            other.upsert(records(("x0", "x", 2, 2.0)))

    result = scattered.cluster(on_step=update_x)
    assert (result.files_replaced, result.files_created) == (5, 1)
    assert groups_in(scattered) == {"x": 5, "y": 1}
    assert by_key(scattered.read().to_pylist())["x0"]["v"] == 2.0
    check_stored(scattered)


def test_others_follow_clustering_without_losers(scattered: Table) -> None:
    other = open_table(scattered.location)

    def update_x_and_die(step: Step) -> None:
        if step is Step.WRITTEN:
            other.upsert(records(("x0", "x", 2, 2.0)))
        if step is Step.PUBLISHED:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scattered.cluster(on_step=update_x_and_die)
    assert len(other.sync_index().applied) == 1
    assert groups_in(other) == {"x": 5, "y": 1}
    check_stored(other)


@pytest.mark.parametrize("step", [Step.RESOLVED, Step.WRITTEN])
def test_clustering_is_retried_after_total_conflict(scattered: Table, step: Step) -> None:
    other = open_table(scattered.location)
    left = 1
    versions = count(2)

    def update_both(reported: Step) -> None:
        nonlocal left
        if reported is step and left:
            left -= 1
            ts = next(versions)
            other.upsert(records(("x0", "x", ts, 2.0), ("y0", "y", ts, 2.0), ("m", "xy"[left], ts, 2.0)))

    assert scattered.cluster(on_step=update_both).files_created == 2
    assert groups_in(scattered) == {"x": 1, "y": 1}
    check_stored(scattered)
    other.upsert(records(("new", "x", 1, 1.0), ("new too", "y", 1, 1.0)))
    left = 1
    before = groups_in(scattered)
    with pytest.raises(ConflictError, match="attempts=1"):
        scattered.cluster(on_step=update_both, attempts=1)
    assert groups_in(scattered) == before
    check_stored(scattered)


@pytest.mark.parametrize("step", [Step.TAGGED, Step.WRITTEN])
def test_writer_retries_after_clustering(scattered: Table, step: Step) -> None:
    other = open_table(scattered.location)
    clustered: list[int] = []

    def cluster_once(reported: Step) -> None:
        if reported is step and not clustered:
            clustered.append(other.cluster().files_replaced)

    result = scattered.upsert(
        records(("x0", "x", 2, 2.0), ("y0", "x", 2, 2.0), ("n", "x", 1, 1.0)), on_step=cluster_once
    )
    assert clustered == [10]
    assert (result.inserted, result.updated, result.moved) == (1, 1, 1)
    check_stored(scattered)


def test_other_process_follows_clustering_journal(scattered: Table) -> None:
    located = scattered.lookup(KEYS)

    def die(step: Step) -> None:
        if step is Step.PUBLISHED:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scattered.cluster(on_step=die)
    other = open_table(scattered.location)
    assert len(other.sync_index().applied) == 1
    assert other.lookup(KEYS).column("instant_time") == located.column("instant_time")
    check_stored(other)


def test_wrong_index_is_reported_without_writing(scattered: Table) -> None:
    keys = pa.array(["x0"])
    record_index(scattered).put(keys, record_index(scattered).get(pa.array(["y0"])))
    record_index(scattered).put(keys, record_index(scattered).get(pa.array(["m"])))
    before = groups_in(scattered)
    with pytest.raises(CorruptIndexError, match=r"x0.*verify the index"):
        scattered.cluster()
    assert groups_in(scattered) == before
    scattered.repair_index()
    scattered.cluster()
    check_stored(scattered)


def test_clustering_makes_no_small_row_groups(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(20):
        table.upsert(records((f"k{number}", "x", 1, 1.0)))
    table.cluster()
    (file,) = table.scan().files()
    assert pq.ParquetFile(file).metadata.num_row_groups == 1


def test_no_file_is_so_small(scattered: Table) -> None:
    with pytest.raises(InvalidInputError, match="smaller_than=0"):
        scattered.cluster(smaller_than=0)


def slices(partition_path: str, *sizes: int) -> list[FileSlice]:
    return [
        FileSlice(FileGroupId(partition_path, f"{number}-0"), "1", DataFile(f"{partition_path}/{number}", size))
        for number, size in enumerate(sizes)
    ]


def test_plan_fills_files_within_partitions() -> None:
    settings = TableSettings(table_id="t", index_url="memory:", target_file_size=1024)
    live = [*slices("p", 300, 500, 100, 511, 512, 400, 1000, 90), *slices("q", 10), *slices("r", 10, 10)]
    planned = plan_clustering(live, settings)
    sizes = [sorted(source.size for source in sources) for sources in planned]
    assert sizes == [[500, 511], [90, 100, 300, 400], [10, 10]]
    assert [{source.group.partition_path for source in sources} for sources in planned] == [{"p"}, {"p"}, {"r"}]
    # What comes of it is not clustered again, but for one file of a partition.
    outcome = [*slices("p", *(sum(each) for each in sizes if 10 not in each), 512, 1000), *slices("r", 20)]
    assert plan_clustering(outcome, settings) == []


def test_the_plan_follows_the_given_limit() -> None:
    settings = TableSettings(table_id="t", index_url="memory:", target_file_size=1024)
    assert plan_clustering(slices("p", 100, 200), settings, smaller_than=200) == []
    assert len(plan_clustering(slices("p", 100, 200), settings, smaller_than=201)) == 1
    assert plan_clustering(slices("p", 600, 700, 5000), settings, smaller_than=9999) == []


def test_clustering_writes_store_once_per_group(scattered: Table) -> None:
    """However many commits its records come from."""
    for number in range(10):
        scattered.upsert(records((f"more{number + 10}", "x", 1, 1.0)))
    points: list[str] = []
    table = pointed(scattered, points.append)
    created = table.cluster().files_created
    # A pointed store reports each put in two halves, and keys have two lengths.
    assert points.count("before put") <= 4 * created
    points.clear()
    table.rollback(opened_table(table).snapshot().timeline.completed_writes[-1].time)
    assert points.count("before put") <= 4 * created
    check_stored(scattered)


def hours_scattered(folder: Path, partitions: int = 1) -> Table:
    """A table whose files hold records of half a day or more each, and an index on the hour."""
    table = create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        index="global-simple:",
        small_file_size=0,
        target_file_size=1 << 15,
        maintenance=False,
    )
    first = datetime(2024, 5, 1, tzinfo=UTC)
    for day in range(24):
        at = [first + timedelta(days=day, minutes=minutes) for minutes in range(1440)]
        city = [f"c{minutes % partitions}" for minutes in range(1440)]
        table.upsert(pa.table({"id": [f"{day}-{number}" for number in range(1440)], "city": city, "at": at}))
    table.create_index("by_hour", on="at", expression="hour(at)")
    return table


def test_sorted_files_have_narrow_ranges(tmp_path: Path) -> None:
    table = hours_scattered(tmp_path)
    kept = [name for name in META_COLUMNS if name != FILE_NAME] + ["id", "at"]
    before = rows_of(table.read(kept))
    wanted = "hour(at) = 3"
    files = table.scan(filters=wanted).explain().files
    assert files.read == files.total >= 24
    done = table.cluster(sort_by=["hour(at)"])
    files = table.scan(filters=wanted).explain().files
    assert (files.total, files.read <= files.total // 10) == (done.files_created, True)
    assert table.scan(filters="at > timestamp '2024-05-12 00:00:00'").explain().files.read == files.total
    assert rows_of(table.read(kept)) == before
    assert table.read(["id"], wanted).num_rows == 24 * 60
    assert table.lookup(["3-7"]).num_rows == 1
    assert table.verify_index(deep=True).agrees
    assert table.metadata.verify() == ()
    assert table.cluster(sort_by=["hour(at)"]).instant is None
    assert done.instant is not None
    table.rollback(done.instant)
    assert rows_of(table.read(kept)) == before


def test_slices_without_records_are_left(tmp_path: Path) -> None:
    """Log files delete all of their records."""
    options: TableOptions = {"target_file_size": 1024, "small_file_size": 1024, "table_type": "merge_on_read"}
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", **options)
    table.insert(records(*[(f"k{number}", "x", 1, 1.0) for number in range(5)]))
    table.insert(records(*[(f"l{number}", "y", 1, -float(number)) for number in range(4)]))
    table.delete([f"k{number}" for number in range(5)])
    assert table.cluster(sort_by=["v"]).files_replaced > 0
    assert table.read().num_rows == 4
    check_stored(table)


def test_partitions_are_sorted_apart(tmp_path: Path) -> None:
    table = hours_scattered(tmp_path, partitions=2)
    before = rows_of(table.read())
    table.cluster(sort_by=["city", "hour(at)"])
    assert rows_of(table.read()) == before
    assert table.scan(filters="hour(at) = 3 and city = 'c1'").explain().files.read == 1
    appended = table.insert(pa.table({"id": ["new"], "city": ["c1"], "at": [datetime(2024, 6, 1, 3, tzinfo=UTC)]}))
    assert appended.inserted == 1
    assert table.cluster(sort_by=["city", "hour(at)"], smaller_than=1).instant is None


@pytest.mark.parametrize(
    ("sort_by", "error", "words"),
    [
        ("hour(at)", InvalidInputError, r"write \['hour\(at\)'\]"),
        (["nowhere"], RliError, "nowhere"),
        (["hour("], InvalidInputError, "hour"),
    ],
)
def test_what_cannot_be_sorted_by(scattered: Table, sort_by: list[str], error: type[RliError], words: str) -> None:
    before = versions(scattered)
    with pytest.raises(error, match=words):
        scattered.cluster(sort_by=sort_by)
    assert versions(scattered) == before


def test_nulls_and_nan_come_last(tmp_path: Path) -> None:
    table = new_table(tmp_path, target_file_size=1 << 10)
    values = [None, math.nan, 2.0, 1.0, None, -1.0, math.inf, math.nan]
    table.upsert(records(*((f"k{number}", "x", 1, value) for number, value in enumerate(values))))
    table.cluster(sort_by=["v"])
    stored = opened_table(table).snapshot().slices.values()
    bases = [Path(table.location, one.base.path) for one in stored if one.base is not None]
    contents = sorted((pq.read_table(base)["v"].to_pylist() for base in bases), key=str)
    assert [None, None] in contents
    assert "[nan, nan]" in map(str, contents)
    assert table.verify_index(deep=True).agrees
    assert Counter(map(str, table.read()["v"].to_pylist())) == Counter(map(str, values))


def test_buckets_are_not_sorted(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", index="consistent-bucket:?buckets=2")
    table.upsert(records(("a", "x", 1, 1.0)))
    with pytest.raises(SettingsError, match="sort_by"):
        table.cluster(sort_by=["ts"])
