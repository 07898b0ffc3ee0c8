"""A last commit that a power cut has torn is rolled back by the next write; no other commit ever is."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from rli import CorruptTableError, Durability, RliError, Step, Table, create_table, open_table
from rli.commit.findings import torn_findings
from rli.commit.recovery import exclusive
from rli.publication.fence import Fence
from rli.services.rollback import ROLLBACK, rollback_plan
from rli.storage import Storage
from rli.table.table import opened_table
from rli.view import paths
from rli.view.snapshot import Snapshot
from tests.support.children import was_killed
from tests.support.clocks import later
from tests.support.tables import check_stored, records, rows_of

Tear = Callable[[Table, str], None]
"""Makes a commit what a power cut may have made it."""

SECOND: Final = [("a", "x", 2, 2.0), ("m", "y", 2, 2.0), ("c", "z", 2, 2.0)]
NEXT_VERSIONS: Final = [("a", "x", 4, 4.0), ("m", "y", 4, 4.0), ("c", "z", 4, 4.0)]


@dataclass(frozen=True)
class WatchedStorage(Storage):
    """A storage that notes for which files and folders it has waited for the disk."""

    on_disk: set[str] = field(default_factory=set, repr=False, compare=False)

    def flush(self, files: Iterable[str] = (), folders: Iterable[str] = ()) -> None:
        synced = [*files], [*folders]
        super().flush(*synced)
        if self.is_durable:
            self.on_disk.update(*synced)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two commits, of which the last updates ``a``, moves ``m``, deletes nothing and brings ``c``."""
    return made_in(tmp_path, Durability.DISK)


@pytest.fixture
def unsynced(tmp_path: Path) -> Table:
    """The same in a table that leaves it to the system when the disk gets what."""
    return made_in(tmp_path, Durability.OS)


def made_in(folder: Path, durability: Durability) -> Table:
    table = create_table(folder / "t", record_key="id", partition_by="city", ordering="ts", durability=durability)
    table.upsert(records(("a", "x", 1, 1.0), ("m", "x", 1, 1.0)))
    table.upsert(records(*SECOND))
    return table


def restart_the_machine(table: Table) -> None:
    """What is left on the disk is older than the machine's start."""
    for path in Path(table.location, ".hoodie").glob("*.commit"):
        os.utime(path, (0, 0))


def last(table: Table) -> str:
    return table.timeline()[-1].time


def content_of(table: Table, time: str) -> Path:
    return Path(table.location, f".hoodie/{time}.commit")


def base_files(table: Table, time: str) -> list[Path]:
    return sorted(Path(table.location).glob(f"*/*_{time}.parquet"))


def empty(table: Table, time: str) -> None:
    content_of(table, time).write_bytes(b"")


def empty_without_base_files(table: Table, time: str) -> None:
    for path in base_files(table, time):
        path.unlink()
    empty(table, time)


def cut_short(table: Table, time: str) -> None:
    content_of(table, time).write_bytes(content_of(table, time).read_bytes()[:100])


def without_a_base_file(table: Table, time: str) -> None:
    base_files(table, time)[0].unlink()


def with_half_a_base_file(table: Table, time: str) -> None:
    path = base_files(table, time)[0]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def with_zeros_at_the_end_of_a_base_file(table: Table, time: str) -> None:
    path = base_files(table, time)[0]
    path.write_bytes(path.read_bytes()[:-512] + bytes(512))


def without_its_name(table: Table, time: str) -> None:
    content_of(table, time).unlink()


def without_any_file_of_the_timeline(table: Table, time: str) -> None:
    for path in Path(table.location, ".hoodie").glob(f"{time}*"):
        path.unlink()


BROKEN: Final = [
    cut_short,
    without_a_base_file,
    with_half_a_base_file,
    with_zeros_at_the_end_of_a_base_file,
]
LOST: Final = [without_its_name, without_any_file_of_the_timeline]


def write_and_require_undone(table: Table, *torn: str) -> None:
    table.upsert(records(("c", "y", 4, 4.0)))
    assert [(row["id"], row["city"], row["ts"]) for row in rows_of(table)] == [
        ("a", "x", 1),
        ("c", "y", 4),
        ("m", "x", 1),
    ]
    assert opened_table(table).snapshot().timeline.rolled_back == set(torn)
    check_stored(table)


@pytest.mark.parametrize("tear", [empty, empty_without_base_files])
def test_next_write_rolls_back_torn_commit(table: Table, tear: Tear) -> None:
    torn = last(table)
    tear(table, torn)
    write_and_require_undone(table, torn)


@pytest.mark.parametrize("tear", [*BROKEN, *LOST])
def test_unsynced_torn_commit_is_rolled_back(unsynced: Table, tear: Tear) -> None:
    torn = last(unsynced)
    tear(unsynced, torn)
    restart_the_machine(unsynced)
    write_and_require_undone(unsynced, torn)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (cut_short, with_half_a_base_file),
        (without_a_base_file, empty),
        (without_its_name, cut_short),
        (empty, without_any_file_of_the_timeline),
    ],
)
def test_several_unsynced_commits_are_rolled_back(unsynced: Table, first: Tear, second: Tear) -> None:
    torn = [last(unsynced)]
    unsynced.upsert(records(("a", "y", 3, 3.0), ("n", "z", 3, 3.0)))
    torn.append(last(unsynced))
    first(unsynced, torn[0])
    second(unsynced, torn[1])
    restart_the_machine(unsynced)
    write_and_require_undone(unsynced, *torn)


@pytest.mark.parametrize("call", [Table.sync_index, Table.clean, lambda table: table.rollback(last(table))])
def test_services_roll_torn_commits_back_too(unsynced: Table, call: Callable[[Table], object]) -> None:
    torn = last(unsynced)
    cut_short(unsynced, torn)
    restart_the_machine(unsynced)
    call(unsynced)
    write_and_require_undone(unsynced, torn)


@pytest.mark.parametrize("tear", [cut_short, without_a_base_file])
def test_unacknowledged_commit_is_rolled_back(table: Table, tear: Tear) -> None:
    acknowledged = last(table)
    assert was_killed(publish_and_die, table.location)
    torn = last(table)
    tear(table, torn)
    restart_the_machine(table)
    table.upsert(records(("d", "x", 4, 4.0)))
    assert [row["id"] for row in rows_of(table)] == ["a", "c", "d", "m"]
    assert opened_table(table).snapshot().timeline.rolled_back == {torn}
    assert opened_table(table).snapshot().timeline.is_visible(acknowledged)
    check_stored(table)


def publish_and_die(location: str) -> None:
    """A child's work: write, and be killed before the index knows of it."""

    def die(step: Step) -> None:
        if step is Step.PUBLISHED:
            os.kill(os.getpid(), signal.SIGKILL)

    open_table(location).upsert(records(("a", "y", 3, 3.0), ("n", "z", 3, 3.0)), on_step=die)


@pytest.mark.parametrize("tear", BROKEN)
def test_synced_commit_is_never_rolled_back(table: Table, tear: Tear) -> None:
    damaged = last(table)
    tear(table, damaged)
    restart_the_machine(table)
    left = {path: path.read_bytes() for path in base_files(table, damaged)}
    with pytest.raises(RliError, match=damaged):
        table.upsert(records(*NEXT_VERSIONS))
    assert last(table) == damaged
    assert {path: path.read_bytes() for path in base_files(table, damaged)} == left


@pytest.mark.parametrize("tear", BROKEN)
def test_damage_without_restart_is_not_undone(unsynced: Table, tear: Tear) -> None:
    damaged = last(unsynced)
    tear(unsynced, damaged)
    with pytest.raises(RliError, match=damaged):
        unsynced.upsert(records(*NEXT_VERSIONS))
    assert last(unsynced) == damaged


def without_deleted_keys(path: Path) -> None:
    path.unlink()


def with_half_the_deleted_keys(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def with_zeros_for_deleted_keys(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.invariant("P42")
@pytest.mark.parametrize("tear", [without_deleted_keys, with_half_the_deleted_keys, with_zeros_for_deleted_keys])
@pytest.mark.parametrize("key", ["a", "nobody"])
def test_delete_without_keys_is_torn(unsynced: Table, tear: Callable[[Path], None], key: str) -> None:
    """It is undone as a whole: a table without the record would insert older ones that come late."""
    unsynced.delete([key], ordering=[9])
    deleted = last(unsynced)
    [file] = Path(unsynced.location, paths.DELETED_KEYS).glob("*.parquet")
    tear(file)
    restart_the_machine(unsynced)
    assert unsynced.upsert(records((key, "x", 1, 5.0), ("new", "x", 1, 1.0))).unchanged == (key == "a")
    assert opened_table(unsynced).snapshot().timeline.rolled_back == {deleted}
    assert [row["ts"] for row in rows_of(unsynced) if row["id"] == key] == [2 if key == "a" else 1]
    assert not list(Path(unsynced.location, paths.DELETED_KEYS).glob("*.parquet"))
    check_stored(unsynced)


@pytest.mark.invariant("P42")
def test_old_deleted_keys_stay_with_commit(unsynced: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that forgot them would leave a commit that counts as torn."""
    for number in range(3):
        unsynced.upsert(records(("a", "x", 3 + number, 0.0)))
    unsynced.delete(["a"], ordering=[9])
    deleted = last(unsynced)
    later(monkeypatch, timedelta(days=8))
    assert unsynced.archive(keep_commits=1).instants_archived
    restart_the_machine(unsynced)
    unsynced.upsert(records(("new", "x", 1, 1.0)))
    assert opened_table(unsynced).snapshot().timeline.rolled_back == set()
    assert deleted in {instant.time for instant in unsynced.timeline()}
    assert "a" not in {row["id"] for row in rows_of(unsynced)}
    check_stored(unsynced)


def test_older_damaged_commit_is_not_undone(unsynced: Table) -> None:
    damaged = last(unsynced)
    unsynced.upsert(records(("n", "new", 3, 3.0)))
    cut_short(unsynced, damaged)
    restart_the_machine(unsynced)
    unsynced.upsert(records(("n", "new", 4, 4.0)))
    assert opened_table(unsynced).snapshot().timeline.rolled_back == set()
    assert content_of(unsynced, damaged).exists()


@pytest.mark.parametrize(
    "write", [lambda table: table.upsert(records(("a", "x", 4, 4.0))), lambda table: table.delete(["a"])]
)
def test_missing_version_stops_writes(table: Table, write: Callable[[Table], object]) -> None:
    (path,) = Path(table.location, "x").glob(f"*_{last(table)}.parquet")
    path.unlink()
    before = table.timeline()
    with pytest.raises(CorruptTableError, match=path.name):
        write(table)
    assert table.timeline() == before


@pytest.mark.parametrize("tear", BROKEN)
def test_read_names_torn_file(unsynced: Table, tear: Tear) -> None:
    torn = last(unsynced)
    tear(unsynced, torn)
    restart_the_machine(unsynced)
    with pytest.raises(CorruptTableError, match=torn):
        unsynced.read()


def test_dead_writer_manifest_may_be_torn(unsynced: Table) -> None:
    assert was_killed(promote_and_die, unsynced.location)
    (manifest,) = Path(unsynced.location, ".hoodie/.rli/work").glob("*/manifest.json")
    manifest.write_bytes(b"")
    unsynced.upsert(records(("d", "x", 4, 4.0)))
    assert [row["id"] for row in rows_of(unsynced)] == ["a", "c", "d", "m"]
    assert base_files(unsynced, manifest.parent.name) == []
    check_stored(unsynced)


def promote_and_die(location: str) -> None:
    """A child's work: write, and be killed before the commit."""

    def die(step: Step) -> None:
        if step is Step.PROMOTED:
            os.kill(os.getpid(), signal.SIGKILL)

    open_table(location).upsert(records(("a", "y", 3, 3.0), ("n", "z", 3, 3.0)), on_step=die)


def test_several_torn_commits_are_rolled_back(table: Table) -> None:
    for path in Path(table.location, ".hoodie").glob("*.commit"):
        path.write_bytes(b"")
    assert table.read().num_rows == 0
    table.upsert(records(("n", "x", 1, 1.0)))
    assert [row["id"] for row in rows_of(table)] == ["n"]
    check_stored(table)


def without_any_trace(table: Table, time: str) -> None:
    without_any_file_of_the_timeline(table, time)
    for path in base_files(table, time):
        path.unlink()


@pytest.mark.parametrize("tear", [cut_short, without_any_trace])
@pytest.mark.parametrize("is_listed", [True, False])
def test_index_is_repaired_without_journal(unsynced: Table, *, tear: Tear, is_listed: bool) -> None:
    torn = last(unsynced)
    tear(unsynced, torn)
    journal = Path(unsynced.location, ".hoodie/.rli/journal", torn)
    for path in journal.iterdir():
        path.write_bytes(b"")
    if not is_listed:
        shutil.rmtree(journal)
    restart_the_machine(unsynced)
    write_and_require_undone(unsynced, torn)


def test_a_bootstrap_undoes_torn_commits_too(unsynced: Table) -> None:
    torn = last(unsynced)
    cut_short(unsynced, torn)
    restart_the_machine(unsynced)
    unsynced.bootstrap_index()
    write_and_require_undone(unsynced, torn)


def test_index_without_history_rolls_nothing_back(table: Table, tmp_path: Path) -> None:
    damaged = last(table)
    without_a_base_file(table, damaged)
    restart_the_machine(table)
    with pytest.raises(CorruptTableError, match=damaged):
        table.bootstrap_index(f"lmdb://{tmp_path}/another")
    with pytest.raises(RliError):
        table.upsert(records(*NEXT_VERSIONS))
    assert last(table) == damaged


def test_empty_foreign_commit_is_left_alone(table: Table) -> None:
    content = Path(table.location, ".hoodie/20990101000000000.commit")
    content.write_bytes(b"")
    assert {row["id"] for row in rows_of(table)} == {"a", "c", "m"}
    with pytest.raises(CorruptTableError, match=f"another engine is empty.*{content.name}.*write again later"):
        table.upsert(records(("n", "x", 1, 1.0)))
    assert content.exists()
    content.unlink()
    table.upsert(records(("n", "x", 1, 1.0)))
    assert {row["id"] for row in rows_of(table)} == {"a", "c", "m", "n"}
    check_stored(table)


def test_empty_commit_before_others_is_error(table: Table) -> None:
    first = Path(table.location, f".hoodie/{table.timeline()[0].time}.commit")
    first.write_bytes(b"")
    with pytest.raises(CorruptTableError, match=f"{first.name}; restore the file"):
        table.read()
    shutil.rmtree(table.location)


@pytest.mark.invariant("P17")
def test_finished_rollback_survives_power_cuts(unsynced: Table) -> None:
    """Also where an ordinary write finishes it, which itself does not wait for the disk."""
    definition = opened_table(unsynced).definition.durable()
    with exclusive(definition, opened_table(unsynced).index, "rollback") as lease:
        snapshot = Snapshot.now(definition)
        plan = rollback_plan(snapshot, snapshot.timeline.find(last(unsynced)))
        ROLLBACK.announce(plan, snapshot.timeline, Fence(definition, lease.require_held))
    storage = WatchedStorage(unsynced.location, is_durable=False)
    Table(replace(opened_table(unsynced).definition, storage=storage)).upsert(records(("d", "x", 1, 1.0)))
    assert "rollback" in {instant.action for instant in unsynced.timeline()}
    assert storage.on_disk >= {opened_table(unsynced).definition.timeline_layout.folder, "x", "y", "z"}


@pytest.mark.invariant("P49")
@pytest.mark.parametrize("tear", [empty, *BROKEN, without_its_name])
def test_saved_commit_is_not_rolled_back(unsynced: Table, tear: Tear) -> None:
    """A hostile disk lost what it had confirmed. Reads and writes say so, until the savepoint is given up."""
    saved = unsynced.savepoint()
    tear(unsynced, saved)
    restart_the_machine(unsynced)
    for _ in range(2):
        with pytest.raises(CorruptTableError, match=f"savepoint={saved}.*--delete"):
            unsynced.upsert(records(*NEXT_VERSIONS))
        for as_of in (saved, None):
            with pytest.raises(CorruptTableError, match=saved):
                unsynced.read(as_of=as_of)
    unsynced.delete_savepoint(saved)
    write_and_require_undone(unsynced, saved)


@pytest.mark.invariant("P49")
def test_state_before_broken_savepoint_is_readable(table: Table) -> None:
    saved = table.savepoint()
    empty(table, saved)
    assert [row["ts"] for row in table.read(as_of=table.timeline()[0].time).to_pylist()] == [1, 1]


@pytest.mark.invariant("P49")
def test_doctor_names_broken_savepoint(table: Table) -> None:
    saved = table.savepoint()
    empty(table, saved)
    [finding] = torn_findings(opened_table(table).definition, opened_table(table).index)
    assert saved in finding.detail
    assert "--delete" in (finding.advice or "")


@pytest.mark.invariant("P49")
def test_savepoint_waits_for_needed_files(unsynced: Table) -> None:
    unsynced.delete(["a"], ordering=[9])
    saved = last(unsynced)
    storage = WatchedStorage(unsynced.location, is_durable=False)
    Table(replace(opened_table(unsynced).definition, storage=storage)).savepoint(saved)
    needed = [
        *Path(unsynced.location).glob("*/*.parquet"),
        *Path(unsynced.location, paths.DELETED_KEYS).glob("*.parquet"),
    ]
    needed += [content_of(unsynced, instant.time) for instant in unsynced.timeline() if instant.action == "commit"]
    assert len(needed) > 5
    assert storage.on_disk >= {str(path.relative_to(unsynced.location)) for path in needed}
    assert storage.on_disk >= {
        opened_table(unsynced).definition.timeline_layout.folder,
        paths.DELETED_KEYS,
        "x",
        "y",
        "z",
    }
