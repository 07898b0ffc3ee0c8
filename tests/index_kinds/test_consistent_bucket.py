"""The consistent bucket index: whatever is split, merged, killed or undone, each key stands in its bucket, once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rli
from rli import ConflictError, CorruptTableError, IndexMismatchError, SettingsError, Step, Table, open_table
from rli.hudi.consistent_hashing import (
    FIRST_INSTANT,
    Ring,
    commit_marker_path,
    folder_of,
    instants_of_rings,
    key_hashes,
    ring_path,
)
from rli.index.consistent_bucket.hashing import RingHashing
from rli.index.consistent_bucket.resizing import Limits, plan_resizes
from rli.index.consistent_bucket.rings import ring_of, stored_ring
from rli.index.consistent_bucket.settings import ConsistentBucketSettings
from rli.index.hashed.settings import HashSettings
from rli.model import FileGroupId
from rli.table.table import opened_table
from rli.view.file_slices import DataFile, FileSlice
from rli.view.snapshot import Snapshot
from tests.crash.writes import pointed
from tests.support.children import was_killed
from tests.support.faults import KillAt
from tests.support.soak import EVERY_POINT
from tests.support.tables import SCHEMA, check_stored, records

URL = "consistent-bucket:?buckets=2&min.num.buckets=1&split.threshold=1"
KEYS = [f"k{number}" for number in range(200)]
MANY = [f"k{number}" for number in range(3_000)]
"""Uncompressed, of ten times the bytes of a file without records."""

ALL = 1 << 20
"""Bytes: every bucket is smaller."""


def create(folder: Path, index: str = URL, **settings: Any) -> Table:
    """A table whose buckets are split from a few records on."""
    options: dict[str, Any] = {"target_file_size": 5_000, "small_file_size": 0, "maintenance": False, **settings}
    path = folder / "t"
    return rli.create_table(
        path, record_key="id", partition_by="city", ordering="ts", index=index, schema=SCHEMA, **options
    )


def versions(*keys: str, ts: int = 1, city: str = "x") -> pa.Table:
    return records(*((key, city, ts, float(ts)) for key in keys))


def ring(table: Table, partition_path: str = "x") -> Ring:
    settings = ConsistentBucketSettings.parse(table.index.url)
    return ring_of(opened_table(table).snapshot(), partition_path, settings.hashed)


def owners(table: Table, keys: list[str]) -> list[str]:
    """The file group of the bucket of each key."""
    found: list[str] = ring(table).owners_of(key_hashes(pa.array(keys), ["id"], ["id"])).to_pylist()
    return found


def stranger_to(table: Table, key: str) -> str:
    """A key of another bucket."""
    (own,) = owners(table, [key])
    return next(other for other, owner in zip(KEYS, owners(table, KEYS), strict=True) if owner != own)


def rings_of(table: Table, partition_path: str = "x") -> list[str]:
    """The instants of the stored rings, the oldest first."""
    folder = Path(table.location, folder_of(partition_path))
    return instants_of_rings(path.name for path in folder.iterdir())[::-1]


def require_sound(table: Table, *keys: str) -> None:
    """Each key is there once, in the bucket of its hash, and found by look-ups."""
    require_keys(table, *keys)
    check_stored(table)


def require_keys(table: Table, *keys: str) -> None:
    """The same, whatever a killed writer has left."""
    with open_table(table.location) as again:
        assert sorted(again.read(columns=["id"])["id"].to_pylist()) == sorted(keys)
        assert again.verify_index().agrees
        assert again.lookup(keys)["file_id"].null_count == 0


def once(step: Step, action: Callable[[Table], object], table: Table) -> Callable[[Step], None]:
    """Does something in another table object when a step is reported for the first time."""
    left = [action]

    def on_step(reported: Step) -> None:
        if reported is step and left:
            with open_table(table.location) as other:
                left.pop()(other)

    return on_step


# Splits and merges ----------------------------------------------------------------------------------------------


def test_large_buckets_split_and_small_merge(tmp_path: Path) -> None:
    table = create(tmp_path, target_file_size=35_000, compression="none")
    table.upsert(versions(*MANY))
    assert (len(ring(table).buckets), rings_of(table)) == (2, [FIRST_INSTANT])

    split = table.cluster()
    assert (split.files_replaced, split.files_created, split.inserted) == (2, 4, 0)
    assert rings_of(table) == [FIRST_INSTANT, split.instant]
    require_sound(table, *MANY)
    assert table.upsert(versions(*MANY[:9], "new", ts=2)).updated == 9

    table.delete(MANY[5:])
    merged = table.cluster(smaller_than=ALL)
    assert (merged.files_replaced, merged.files_created, len(ring(table).buckets)) == (4, 1, 1)
    assert rings_of(table)[-1] == merged.instant
    require_sound(table, *MANY[:5], "new")
    assert table.cluster(smaller_than=ALL).instant is None


def test_limits_of_numbers_are_kept(tmp_path: Path) -> None:
    limits = "consistent-bucket:?buckets=2&min.num.buckets=2&max.num.buckets=3&split.threshold=1"
    table = create(tmp_path, limits, target_file_size=30_000, compression="none")
    table.upsert(versions(*MANY))
    table.cluster()
    assert len(ring(table).buckets) == 3
    assert table.cluster().instant is None
    table.delete(MANY[1:])
    table.cluster(smaller_than=ALL)
    assert len(ring(table).buckets) == 2
    require_sound(table, MANY[0])


def test_a_table_without_partitions(tmp_path: Path) -> None:
    table = rli.create_table(
        tmp_path / "t", record_key="id", ordering="ts", index=URL, target_file_size=5_000, small_file_size=0
    )
    table.upsert(versions(*KEYS))
    assert table.cluster().files_created == 4
    assert rings_of(table, "")[0] == FIRST_INSTANT
    require_sound(table, *KEYS)


@given(
    st.integers(1, 12),
    st.lists(st.none() | st.integers(0, 400), min_size=12, max_size=12),
    st.tuples(st.integers(1, 4), st.integers(12, 16)),
    st.integers(0, 150),
)
def test_plans_replace_neighbours_within_the_limits(
    buckets: int, sizes: list[int | None], numbers: tuple[int, int], merge: int
) -> None:
    whole = Ring.first("p", buckets)
    slices = {
        position: FileSlice(FileGroupId("p", file_id), "1" * 17, DataFile(file_id, size))
        for position, (file_id, size) in enumerate(zip(whole.file_ids, sizes, strict=False))
        if size is not None
    }
    limits = Limits(*numbers, target=200, split=250.0, merge=float(merge))
    plan = plan_resizes(whole, slices, limits)
    goes = [bucket for resize in plan for bucket in resize.goes]
    assert len(goes) == len(set(goes))
    after = whole
    for number, resize in enumerate(plan):
        positions = [whole.buckets.index(bucket) for bucket in resize.goes]
        assert all((one + 1) % buckets == two for one, two in pairwise(positions))
        assert resize.sources == tuple(slices[position] for position in positions if position in slices)
        assert resize.sources
        assert resize.comes[-1].value == resize.goes[-1].value
        size = sum(source.size for source in resize.sources)
        is_split = len(resize.comes) == 2
        assert (size > 250) if is_split else (size <= 200 and all(source.size <= merge for source in resize.sources))
        after = after.with_changes(f"{number:017}", resize.changes)
        after.require_valid()
    assert min(buckets, numbers[0]) <= len(after.buckets) <= numbers[1]


# Other writers --------------------------------------------------------------------------------------------------

STEPS = [Step.INFLIGHT, Step.WRITTEN]


@pytest.mark.invariant("P39")
@pytest.mark.parametrize("step", STEPS)
def test_write_beside_split_uses_new_ring(tmp_path: Path, step: Step) -> None:
    table = create(tmp_path)
    table.upsert(versions(*KEYS))
    result = table.upsert(versions(*KEYS[:3], "new", ts=2), on_step=once(step, Table.cluster, table))
    assert (result.updated, result.inserted, result.attempts) == (3, 1, 2)
    assert len(ring(table).buckets) == 4
    require_sound(table, *KEYS, "new")


@pytest.mark.invariant("P39")
@pytest.mark.parametrize("step", STEPS)
def test_first_insert_beside_bucket_merge(tmp_path: Path, step: Step) -> None:
    """There is no file group whose change would tell."""
    table = create(tmp_path, URL.replace("buckets=2", "buckets=8", 1))
    first = "k0"
    stranger = stranger_to(table, first)
    table.upsert(versions(first))
    result = table.upsert(versions(stranger), on_step=once(step, lambda other: other.cluster(smaller_than=ALL), table))
    assert (result.inserted, result.attempts) == (1, 2)
    assert len(ring(table).buckets) == 1
    require_sound(table, first, stranger)


@pytest.mark.invariant("P39")
@pytest.mark.parametrize("step", STEPS)
def test_merge_beside_first_insert(tmp_path: Path, step: Step) -> None:
    table = create(tmp_path, URL.replace("buckets=2", "buckets=8", 1))
    first = "k0"
    stranger = stranger_to(table, first)
    table.upsert(versions(first))
    insert = once(step, lambda other: other.upsert(versions(stranger)), table)
    result = table.cluster(smaller_than=ALL, on_step=insert)
    assert (result.files_replaced, result.attempts) == (2, 2)
    require_sound(table, first, stranger)


@pytest.mark.invariant("P39")
@pytest.mark.parametrize("step", STEPS)
def test_split_beside_update_of_bucket(tmp_path: Path, step: Step) -> None:
    """The other bucket is split; this one is left to the next clustering."""
    table = create(tmp_path)
    table.upsert(versions(*KEYS))
    update = once(step, lambda other: other.upsert(versions(KEYS[0], ts=2)), table)
    result = table.cluster(on_step=update)
    assert (result.files_replaced, result.attempts) == (1, 1)
    assert set(table.get([KEYS[0]])["ts"].to_pylist()) == {2}
    require_sound(table, *KEYS)
    table.cluster()
    require_sound(table, *KEYS)


@pytest.mark.invariant("P39")
@pytest.mark.parametrize("step", STEPS)
def test_two_resizes_at_once(tmp_path: Path, step: Step) -> None:
    table = create(tmp_path, f"{URL}&max.num.buckets=4")
    table.upsert(versions(*KEYS))
    result = table.cluster(on_step=once(step, Table.cluster, table))
    assert result.instant is None
    assert (len(ring(table).buckets), len(rings_of(table))) == (4, 2)
    require_sound(table, *KEYS)


@pytest.mark.invariant("P39")
def test_older_resize_yields_to_later(tmp_path: Path) -> None:
    """The ring with the newest name counts, so the older resize must not come after it."""
    table = create(tmp_path, f"{URL}&max.num.buckets=3")
    low, high = ring(table).file_ids
    keys = [key for key, owner in zip(KEYS, owners(table, KEYS), strict=True) if owner == low]
    others = [key for key, owner in zip(MANY, owners(table, MANY), strict=True) if owner == high]
    table.upsert(versions(*keys))

    def grow_and_split(other: Table) -> None:
        other.upsert(versions(*others))
        other.cluster()

    result = table.cluster(on_step=once(Step.WRITTEN, grow_and_split, table))
    assert result.instant is None
    assert low in ring(table).file_ids
    assert (len(ring(table).buckets), len(rings_of(table))) == (3, 2)
    require_sound(table, *keys, *others)


@pytest.mark.invariant("P39")
def test_write_beside_rollback_of_split(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(versions(*KEYS))
    split = table.cluster().instant
    assert split is not None
    undo = once(Step.WRITTEN, lambda other: other.rollback(split), table)
    result = table.upsert(versions(*KEYS[:3], "new", ts=2), on_step=undo)
    assert (result.updated, result.inserted, result.attempts) == (3, 1, 2)
    assert len(ring(table).buckets) == 2
    require_sound(table, *KEYS, "new")


@pytest.mark.invariant("P39")
@pytest.mark.parametrize("step", STEPS)
def test_two_writers_begin_a_partition(tmp_path: Path, step: Step) -> None:
    table = create(tmp_path)
    result = table.upsert(versions("a", "b"), on_step=once(step, lambda other: other.upsert(versions("c", "d")), table))
    assert result.inserted == 2
    assert rings_of(table) == [FIRST_INSTANT]
    require_sound(table, "a", "b", "c", "d")


@pytest.mark.invariant("P39")
def test_stored_ring_overrules_writer_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other writer stores the first ring of a partition just before this one, and then gives up."""
    table = create(tmp_path)
    rivals = ["consistent-bucket:?buckets=8"]

    def give_up(step: Step) -> None:
        if step is Step.WRITTEN:
            raise RuntimeError(step)

    def overtaken(snapshot: Snapshot, partition_path: str) -> Ring | None:
        found = stored_ring(snapshot, partition_path)
        if rivals:
            with open_table(table.location, index=rivals.pop()) as other, pytest.raises(RuntimeError):
                other.upsert(versions("other"), on_step=give_up)
        return found

    monkeypatch.setattr("rli.index.consistent_bucket.hashing.stored_ring", overtaken)
    assert table.upsert(versions(*KEYS)).inserted == len(KEYS)
    assert len(ring(table).buckets) == 8
    require_sound(table, *KEYS)


@pytest.mark.invariant("P39")
@pytest.mark.parametrize("use", ["get", "lookup", "verify"])
def test_lookup_beside_rollback_of_split(tmp_path: Path, use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(tmp_path)
    table.upsert(versions(*KEYS))
    splits = [table.cluster().instant]
    of = RingHashing.of

    def overtaken(snapshot: Snapshot, settings: HashSettings) -> RingHashing:
        if splits:
            with open_table(table.location) as other:
                other.rollback(splits.pop() or "")
        return of(snapshot, settings)

    monkeypatch.setattr(RingHashing, "of", overtaken)
    with open_table(table.location) as reader:
        if use == "get":
            assert reader.get(KEYS).num_rows == len(KEYS)
        elif use == "lookup":
            assert reader.lookup(KEYS)["file_id"].null_count == 0
        else:
            assert reader.verify_index().agrees


# Undoing, cleaning, moving --------------------------------------------------------------------------------------


@pytest.mark.invariant("P39")
@pytest.mark.parametrize("undo", ["rollback", "restore"])
def test_an_undone_resize_leaves_no_ring(tmp_path: Path, undo: str) -> None:
    table = create(tmp_path)
    first = table.upsert(versions(*KEYS)).instant
    split = table.cluster().instant
    assert first is not None
    assert split is not None
    assert Path(table.location, commit_marker_path("x", split)).exists()
    table.rollback(split) if undo == "rollback" else table.restore(first)
    names = [path.name for path in Path(table.location, folder_of("x")).iterdir()]
    assert names == [f"{FIRST_INSTANT}.hashing_meta"]
    assert table.upsert(versions(*KEYS, ts=2)).updated == len(KEYS)
    require_sound(table, *KEYS)


def test_buckets_survive_clean_archive_and_move(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(versions(*KEYS))
    table.cluster()
    for ts in range(2, 6):
        table.upsert(versions(*KEYS, ts=ts))
    table.clean(keep_commits=1)
    table.archive(keep_commits=2)
    require_sound(table, *KEYS)
    moved = shutil.move(table.location, tmp_path / "elsewhere")
    with open_table(moved) as there:
        there.relocate()
        assert there.upsert(versions(*KEYS, ts=9)).updated == len(KEYS)
        require_sound(there, *KEYS)


def test_rings_of_incomplete_resizes_are_ignored(tmp_path: Path) -> None:
    """Hudi leaves them where it rolls a clustering back, and they outlive the rollback's record on the timeline."""
    table = create(tmp_path)
    table.upsert(versions(*KEYS))
    stray = Ring.first("x", 8)
    for instant in ("20000101000000000", "20990101000000000"):
        other = stray.with_changes(instant, {})
        Path(table.location, ring_path("x", instant)).write_bytes(other.to_json())
    Path(table.location, ring_path("x", "20990101000000001") + ".tmp.17").write_bytes(b"{")
    assert ring(table) == Ring.first("x", 2)
    assert table.upsert(versions(*KEYS, ts=2)).updated == len(KEYS)
    require_sound(table, *KEYS)


def test_lost_or_damaged_ring_is_named(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(versions(*KEYS))
    split = table.cluster().instant
    assert split is not None
    path = Path(table.location, ring_path("x", split))
    content = path.read_bytes()
    path.write_bytes(content[:50])
    with open_table(table.location) as again, pytest.raises(CorruptTableError, match=f"{split}.hashing_meta"):
        again.upsert(versions("a"))
    path.unlink()
    with (
        open_table(table.location) as again,
        pytest.raises(IndexMismatchError, match=r"no bucket.*was lost: restore it from a backup"),
    ):
        again.upsert(versions("a"))
    path.write_bytes(content)
    require_sound(table, *KEYS)


# Kills ----------------------------------------------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.invariant("P39")
@pytest.mark.parametrize("work", ["split", "merge", "rollback"])
def test_kill_at_every_change_of_resize(tmp_path: Path, work: str) -> None:
    template = tmp_path / "template"
    template.mkdir()
    keys = KEYS if work != "merge" else KEYS[:4]
    table = create(template, URL.replace("buckets=2", "buckets=4", 1) if work == "merge" else URL)
    table.upsert(versions(*keys))
    if work == "rollback":
        table.cluster()
    points: list[str] = []
    do_work(pointed(open_table(_copied(template, tmp_path / "whole") / "t"), points.append), work)
    changes = [number for number, point in enumerate(points, 1) if point.startswith("before")]
    for number in changes if EVERY_POINT else changes[::5]:
        folder = _copied(template, tmp_path / str(number))
        assert was_killed(work_and_die, folder, work, number), points[number - 1]
        found = open_table(folder / "t")
        require_keys(found, *keys)
        assert found.upsert(versions(*keys, "new", ts=2)).updated == len(keys), points[number - 1]
        # What a killed writer left is gone: what lies there has completed.
        completed = {FIRST_INSTANT, *(instant.time for instant in found.timeline())}
        assert set(rings_of(found)) <= completed, points[number - 1]
        do_work(found, "split" if work == "rollback" else work)
        require_sound(found, *keys, "new")
        shutil.rmtree(folder)


def do_work(table: Table, work: str) -> None:
    if work == "rollback":
        last = table.timeline()[-1]
        table.rollback(last.time)
    else:
        table.cluster(smaller_than=ALL if work == "merge" else 1)


def work_and_die(folder: Path, work: str, number: int) -> None:
    """A child's work."""
    do_work(pointed(open_table(folder / "t"), KillAt(number)), work)


def _copied(template: Path, target: Path) -> Path:
    return Path(shutil.copytree(template, target))


# Settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "not the URL"),
        ("?buckets=0", "a number of buckets, from 1 to 65536: buckets=0"),
        ("?buckets=65537", "buckets=65537"),
        ("?buckets=4&min.num.buckets=5", r"min.num.buckets <= buckets <= max.num.buckets"),
        ("?buckets=4&max.num.buckets=3", r"min.num.buckets <= buckets <= max.num.buckets"),
        ("?buckets=4&max.num.buckets=many", r"max\.num\.buckets=many"),
        ("?buckets=4&split.threshold=0.5", "split.threshold must be 1 or more"),
        ("?buckets=4&merge.threshold=2", "merge.threshold less than"),
        ("?buckets=4&merge.threshold=nan", "a threshold is no number: merge.threshold=nan"),
        ("?buckets=4&size=1", "no such setting: setting=size"),
        ("?buckets=4&fields=city", "fields=city record key=id"),
    ],
)
def test_urls_that_are_refused(tmp_path: Path, query: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        create(tmp_path, f"consistent-bucket:{query}")
    assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()


def test_part_of_key_may_be_hashed(tmp_path: Path) -> None:
    table = rli.create_table(
        tmp_path / "t", record_key=["id", "city"], ordering="ts", index="consistent-bucket:?buckets=8&fields=city"
    )
    table.upsert(records(*((f"k{number}", "xyz"[number % 3], 1, 1.0) for number in range(60))))
    assert len(opened_table(table).snapshot().slices) <= 3
    assert table.verify_index().agrees


def test_table_of_other_kind_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path, "simple:")
    table.upsert(versions(*KEYS))
    with pytest.raises(IndexMismatchError, match=r"a file group is no bucket.*another kind of index wrote"):
        rli.open_table(table.location, index=URL).bootstrap_index()
    assert open_table(table.location).upsert(versions(*KEYS, ts=2)).updated == len(KEYS)


def test_resize_gives_up_after_attempts(tmp_path: Path) -> None:
    table = create(tmp_path, URL.replace("buckets=2", "buckets=1", 1))
    table.upsert(versions(*KEYS))
    update = once(Step.WRITTEN, lambda other: other.upsert(versions(KEYS[0], ts=2)), table)
    with pytest.raises(ConflictError):
        table.cluster(attempts=1, on_step=update)
    assert rings_of(table) == [FIRST_INSTANT]
    require_sound(table, *KEYS)
