"""A copy of a table's locations that follows it by journals says what the table says, or that it cannot (P38)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rli import Maintenance, Step, Table, create_table, open_table
from rli.index.contract import FileIndex
from rli.index.following import Position, relocated, relocations_of, unseen_writes
from rli.locations import LOCATION_SCHEMA
from rli.table.table import opened_table
from rli.view import paths
from rli.view.snapshot import Snapshot
from tests.support.soak import cases
from tests.support.tables import forget_the_journal, records

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.invariant("P38")

KEYS = st.sampled_from("abcdefgh")
RECORDS = st.dictionaries(KEYS, st.sampled_from("xyz"), min_size=1)
CHANGES = st.one_of(
    st.tuples(st.just("upsert"), RECORDS),
    st.tuples(st.just("insert"), RECORDS),
    st.tuples(st.just("delete"), st.sets(KEYS, min_size=1)),
    st.tuples(st.just("cluster"), st.none()),
)
Copy = tuple[Position, pa.Table]


def create(folder: Path, index: str = "global-simple:") -> Table:
    shutil.rmtree(folder, ignore_errors=True)
    return create_table(
        folder, record_key="id", partition_by="city", index=index, small_file_size=0, maintenance=Maintenance.off()
    )


def change(table: Table, kind: str, what: object) -> None:
    if isinstance(what, dict):
        write = table.upsert if kind == "upsert" else table.insert
        write(records(*((key, city, 1, 1.0) for key, city in what.items())))
    elif isinstance(what, set):
        table.delete(sorted(what))
    else:
        table.cluster()


def snapshot_of(table: Table) -> Snapshot:
    return Snapshot.now(opened_table(table).definition)


def copy_of(table: Table) -> Copy:
    """All locations, as the files have them."""
    index = opened_table(table).index
    assert isinstance(index, FileIndex)
    locator = index.locator_of(index.sync(opened_table(table).definition).snapshot)
    found = pa.concat_tables(list(locator.stored(locator.candidates(None))) or [LOCATION_SCHEMA.empty_table()])
    return Position.of(locator.snapshot), found.select(["record_key", "partition_path", "file_id"])


def followed(copy: Copy, now: Snapshot) -> pa.Table | None:
    position, locations = copy
    unseen = unseen_writes(position, now)
    commits = [relocations_of(now.table.storage, instant) for instant in unseen or ()]
    told = [commit for commit in commits if commit is not None]
    return None if unseen is None or len(told) < len(commits) else relocated(locations, told)


def as_set(locations: pa.Table | None) -> list[tuple[str, str, str]]:
    assert locations is not None
    return sorted(tuple(row.values()) for row in locations.to_pylist())


@pytest.mark.parametrize("index", ["global-simple:", "simple:"])
@settings(max_examples=cases(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(CHANGES, min_size=1, max_size=6))
def test_copy_follows_to_any_later_state(tmp_path: Path, index: str, changes: Sequence[tuple[str, object]]) -> None:
    table = create(tmp_path / "t", index)
    copies = [copy_of(table)]
    for kind, what in changes:
        change(table, kind, what)
        copies.append(copy_of(table))
    now = snapshot_of(table)
    for position, locations in copies:
        assert as_set(followed((Position.from_string(position.to_string()), locations), now)) == as_set(copies[-1][1])
    # Locations of several ages, each followed from the oldest on.
    commits = [relocations_of(now.table.storage, write.time) for write in now.timeline.completed_writes]
    for _, locations in copies:
        assert as_set(relocated(locations, [commit for commit in commits if commit])) == as_set(copies[-1][1])


def test_what_was_undone_cannot_be_followed(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    table.upsert(records(("a", "x", 1, 1.0)))
    before = copy_of(table)
    table.upsert(records(("b", "x", 1, 1.0)))
    after = copy_of(table)
    table.rollback("last")
    assert unseen_writes(after[0], snapshot_of(table)) is None
    assert as_set(followed(before, snapshot_of(table))) == as_set(before[1])


def test_pending_write_is_followed_despite_instant(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    table.upsert(records(("first", "z", 1, 1.0)))
    seen: list[Copy] = []

    def overtake(step: Step) -> None:
        if step is Step.TAGGED and not seen:
            open_table(table.location).upsert(records(("b", "y", 1, 1.0)))
            seen.append(copy_of(table))

    overtaken = table.upsert(records(("a", "x", 1, 1.0)), on_step=overtake)
    assert overtaken.attempts == 1
    assert max(seen[0][0].writes) > (overtaken.instant or "")
    assert as_set(followed(seen[0], snapshot_of(table))) == as_set(copy_of(table)[1])


@pytest.mark.parametrize("held", [0, 1])
def test_copy_before_archived_writes_is_useless(tmp_path: Path, held: int) -> None:
    table = create(tmp_path / "t")
    for number in range(held):
        table.upsert(records((f"held{number}", "x", 1, 1.0)))
    copy = copy_of(table)
    for number in range(4):
        table.upsert(records((f"n{number}", "x", 1, 1.0)))
    later = copy_of(table)
    table.clean(keep_commits=1)
    table.archive(keep_commits=2)
    assert unseen_writes(copy[0], snapshot_of(table)) is None
    assert unseen_writes(later[0], snapshot_of(table)) == ()


def test_commit_without_journal_cannot_be_followed(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    copy = copy_of(table)
    damaged = table.upsert(records(("a", "x", 1, 1.0))).instant or ""
    for file in opened_table(table).definition.storage.list_files(paths.journal_folder(damaged)):
        if file.name.endswith(".parquet"):
            opened_table(table).definition.storage.write_bytes(file.path, b"no parquet")
    assert unseen_writes(copy[0], snapshot_of(table)) == (damaged,)
    assert relocations_of(opened_table(table).definition.storage, damaged) is None
    forget_the_journal(table, damaged)
    assert relocations_of(opened_table(table).definition.storage, damaged) is None


def test_copy_of_other_table_is_useless(tmp_path: Path) -> None:
    position, _ = copy_of(create(tmp_path / "t"))
    assert unseen_writes(position, snapshot_of(create(tmp_path / "t"))) is None


def test_keys_and_folders_are_told_apart(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    table.upsert(records(("a", "x", 1, 1.0), ("a\x00x", "x", 1, 1.0), ("ä", "x", 1, 1.0)))
    copy = copy_of(table)
    table.delete(["a\x00x"])
    assert as_set(followed(copy, snapshot_of(table))) == as_set(copy_of(table)[1])
