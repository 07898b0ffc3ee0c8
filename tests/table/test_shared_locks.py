"""Writes of tables that name the lock of Hudi's writers, and tables that are refused."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from rli import LeaseLostError, SettingsError, Step, Table, UnsupportedTableError, create_table, open_table
from rli.commit.checked_write import CheckedWrite
from rli.commit.ready_write import ReadyWrite
from rli.coordination.locks.file_lock import FileLock, HeldFileLock
from rli.errors import LeaseBusyError
from rli.hudi.timeline.clean_metadata import CleanPlan
from rli.hudi.timeline.instant import Action, new_instant_time
from rli.hudi.timeline.rollback_metadata import RollbackPlan
from rli.publication.fence import Fence, PreparedCommit
from rli.publication.instants import TableInstant
from rli.storage import local_files
from rli.table.table import opened_table
from rli.view.table_stamp import TableStamp
from tests.support.children import was_killed
from tests.support.dead_writers import table_with_dead_deltacommit
from tests.support.tables import turn_into_version_9
from tests.support.unshared_commits import commit_to_bring

pytestmark = pytest.mark.invariant("P55")

ROWS = pa.table({"id": ["a", "b"], "city": ["Rome", "Oslo"], "ts": [1, 1]})
HOUR = timedelta(hours=1)
PACKAGE = "org.apache.hudi.client.transaction.lock"


def locked(folder: Path, lock: str = "filesystem") -> Table:
    return create_table(folder / "t", record_key="id", partition_by="city", ordering="ts", lock=lock, write_attempts=1)


def with_property(table: Table, line: str) -> Table:
    with Path(table.location, ".hoodie/hoodie.properties").open("a") as properties:
        properties.write(f"{line}\n")
    return open_table(table.location)


def test_write_waits_for_hudi(tmp_path: Path) -> None:
    table = locked(tmp_path)
    table.upsert(ROWS)
    lock = Path(table.location, ".hoodie/lock")
    lock.touch()
    with pytest.raises(LeaseBusyError, match="Hudi's lock"):
        table.clean(timeout=0)
    lock.unlink()
    assert table.delete(["a"]).deleted == 1
    assert not lock.exists()


def test_write_waits_for_empty_commit(tmp_path: Path) -> None:
    table = locked(tmp_path)
    table.upsert(ROWS)
    # Under its lock, Hudi creates the file of a commit before it writes it.
    commit_to_bring(table, pa.table({"id": ["c"], "city": ["Rome"], "ts": [1]}))()
    lock, heartbeats = Path(table.location, ".hoodie/lock"), Path(table.location, ".hoodie/.heartbeat")
    commit = Path(table.location, f".hoodie/{table.timeline()[-1].time}.commit")
    content = commit.read_bytes()
    commit.write_bytes(b"")
    (heartbeats / commit.stem).touch()
    lock.touch()
    with pytest.raises(LeaseBusyError, match="Hudi's lock"):
        table.clean(timeout=0)
    commit.write_bytes(content)
    lock.unlink()
    assert table.delete(["a"]).deleted == 1


def test_pending_write_gives_heartbeats(tmp_path: Path) -> None:
    table = locked(tmp_path)
    folder = Path(table.location, ".hoodie/.heartbeat")
    seen = list[list[str]]()

    def look(step: Step) -> None:
        if step is Step.WRITTEN:
            seen.append([file.name for file in folder.iterdir()])

    result = table.upsert(ROWS, on_step=look)
    assert seen == [[result.instant]]
    assert list(folder.iterdir()) == []


def test_request_without_the_lock_is_withdrawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = locked(tmp_path)
    request = TableInstant.request

    def lose(instant: TableInstant) -> bool:
        was_requested = request(instant)
        Path(table.location, ".hoodie/lock").unlink()
        return was_requested

    monkeypatch.setattr(TableInstant, "request", lose)
    with pytest.raises(LeaseLostError, match="Hudi's lock"):
        table.upsert(ROWS)
    assert list(table.timeline()) == []
    assert list(Path(table.location, ".hoodie/.heartbeat").iterdir()) == []
    monkeypatch.undo()
    assert table.upsert(ROWS).inserted == 2


INSERTED_BY_BOTH = pa.table({"id": ["c"], "city": ["Rome"], "ts": [5]})
IN_ANOTHER_CITY = pa.table({"id": ["d"], "city": ["Lima"], "ts": [1]})


@pytest.fixture
def before_lock(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens just before a write takes the lock: each function is called once, the last one first.

    A single function is called before the publication, and the first of two before the request of the instant.
    """
    attempt, happening, taken = FileLock.attempt, list[Callable[[], None]](), [0]

    def happen(lock: FileLock, require_leading: Callable[[], None]) -> HeldFileLock | None:
        # The first time, a write takes the lock to request its instant.
        taken[0] += bool(happening)
        if happening and (taken[0] > 1 or len(happening) > 1):
            happening.pop()()
        return attempt(lock, require_leading)

    monkeypatch.setattr(FileLock, "attempt", happen)
    return happening


def test_commit_behind_check_is_seen(tmp_path: Path, before_lock: list[Callable[[], None]]) -> None:
    # The check is made before the lock is taken, and this commit comes in between.
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", lock="filesystem")
    table.upsert(ROWS)
    before_lock.append(commit_to_bring(table, INSERTED_BY_BOTH.set_column(2, "ts", [[4]])))
    result = table.upsert(INSERTED_BY_BOTH)
    assert (result.inserted, result.updated) == (0, 1)
    assert sorted(table.read(["id", "ts"]).to_pylist(), key=itemgetter("id"))[2:] == [{"id": "c", "ts": 5}]
    assert table.verify_index().agrees


def test_commit_beside_the_write_stands(tmp_path: Path, before_lock: list[Callable[[], None]]) -> None:
    table = locked(tmp_path)
    table.upsert(ROWS)
    before_lock.append(commit_to_bring(table, IN_ANOTHER_CITY))
    result = table.upsert(INSERTED_BY_BOTH)
    assert result.inserted == 1
    assert sorted(table.read(["id"])["id"].to_pylist()) == ["a", "b", "c", "d"]
    assert table.verify_index().agrees


@pytest.mark.parametrize("is_prepared", [False, True])
@pytest.mark.parametrize("metadata", ["none", ["files", "record_index"]], ids=str)
def test_lost_lock_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: str | list[str], *, is_prepared: bool
) -> None:
    # A release of Hudi deletes the lock file of the next holder, and another writer of Hudi commits meanwhile.
    table = create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        lock="filesystem",
        metadata=metadata,
        write_attempts=8 if metadata == "none" else 1,
    )
    table.upsert(ROWS)
    # Such a commit would be missing in the metadata table.
    prepare, left = Fence.prepare_commit, [commit_to_bring(table, IN_ANOTHER_CITY) if metadata == "none" else None]

    def lose() -> None:
        if left:
            Path(table.location, ".hoodie/lock").unlink()
            if (bring := left.pop()) is not None:
                bring()

    def prepare_and_lose(*arguments: Any) -> PreparedCommit:
        if not is_prepared:
            lose()
        prepared = prepare(*arguments)
        lose()
        return prepared

    monkeypatch.setattr(Fence, "prepare_commit", prepare_and_lose)
    assert table.upsert(INSERTED_BY_BOTH).inserted == 1
    assert {"a", "b", "c"} <= {*table.read(["id"])["id"].to_pylist()}
    assert table.verify_index().agrees
    assert metadata == "none" or table.metadata.verify() == ()
    assert not Path(table.location, ".hoodie/lock").exists()


def roll_back_as_hudi(table: Table) -> None:
    """Begin a rollback of the only pending write."""
    meta = Path(table.location, ".hoodie")
    [instant] = [file.name.partition(".")[0] for file in meta.glob("*.commit.requested")]
    for file in meta.glob(f"{instant}*"):
        file.unlink()
    (meta / f"{int(instant) + 1}.rollback.requested").touch()


def test_instant_of_hudi_survives_a_collision(tmp_path: Path, before_lock: list[Callable[[], None]]) -> None:
    # rli registers a writer before it takes the lock, and Hudi requests an instant of the same time meanwhile.
    table = locked(tmp_path)
    meta = Path(table.location, ".hoodie")
    theirs = list[Path]()

    def request() -> None:
        [folder] = (meta / ".rli/work").iterdir()
        (meta / ".heartbeat").mkdir(exist_ok=True)
        theirs.extend((meta / f"{folder.name}.commit.requested", meta / ".heartbeat" / folder.name))
        for file in theirs:
            file.touch()

    before_lock.extend([lambda: None, request])
    assert table.upsert(ROWS).inserted == 2
    assert [file.exists() for file in theirs] == [True, True]


def killed_before_its_request(location: str) -> None:
    """A write that dies before it has Hudi's lock, while Hudi requests an instant of the same time."""
    meta = Path(location, ".hoodie")

    def attempt(lock: FileLock, require_leading: Callable[[], None]) -> HeldFileLock | None:
        del lock, require_leading
        for folder in (meta / ".rli/work").iterdir():
            (meta / ".heartbeat").mkdir(exist_ok=True)
            (meta / f"{folder.name}.commit.requested").touch()
            (meta / ".heartbeat" / folder.name).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    with patch.object(FileLock, "attempt", attempt):
        open_table(location).upsert(ROWS)


@pytest.mark.crash
def test_death_leaves_instant_of_hudi_alone(tmp_path: Path) -> None:
    table = locked(tmp_path)
    assert was_killed(killed_before_its_request, table.location)
    meta = Path(table.location, ".hoodie")
    [requested] = meta.glob("*.commit.requested")
    assert table.upsert(ROWS).inserted == 2
    assert requested.exists()
    assert (meta / ".heartbeat" / requested.name.partition(".")[0]).exists()
    assert list((meta / ".rli/work").iterdir()) == []


@pytest.mark.parametrize("plan", ["replacecommit.requested", "compaction.requested"])
def test_half_written_plan_is_passed_over(tmp_path: Path, before_lock: list[Callable[[], None]], plan: str) -> None:
    # Hudi creates the file of a plan under its lock, and writes it then.
    table_type: Any = "merge_on_read" if plan.startswith("compaction") else "copy_on_write"
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", lock="filesystem", table_type=table_type)
    table.upsert(ROWS.select(["id", "city"]))
    created = list[Path]()

    def create(step: Step) -> None:
        if step is Step.LEASED:
            created.append(Path(table.location, f".hoodie/{new_instant_time(datetime.now(UTC), None)}.{plan}"))
            created[0].touch()
            before_lock.extend([lambda: None, created[0].unlink])

    assert table.upsert(INSERTED_BY_BOTH.select(["id", "city"]), on_step=create).inserted == 1


def test_second_check_flushes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_lock: list[Callable[[], None]]
) -> None:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", lock="filesystem", metadata=["files", "record_index"]
    )
    table.upsert(ROWS.select(["id", "city"]))
    flush, prepare, flushed, unflushed = local_files.flush, Fence.prepare_commit, set[int](), list[str]()

    def flush_and_note(paths: Iterable[str]) -> None:
        known = [*paths]
        flushed.update(os.stat(path).st_ino for path in known if os.path.exists(path))
        flush(known)

    def prepare_and_look(fence: Fence, instant: TableInstant, change: Any, needed: Any, upkept: Any) -> PreparedCommit:
        made = [table.location + "/" + path for path in upkept.deltacommit.files]
        unflushed.extend(path for path in made if os.stat(path).st_ino not in flushed)
        assert made
        return prepare(fence, instant, change, needed, upkept)

    monkeypatch.setattr(local_files, "flush", flush_and_note)
    monkeypatch.setattr(Fence, "prepare_commit", prepare_and_look)
    before_lock.append(
        lambda: Path(table.location, f".hoodie/{new_instant_time(datetime.now(UTC), None)}.rollback.requested").touch()
    )
    assert table.upsert(INSERTED_BY_BOTH.select(["id", "city"])).inserted == 1
    assert unflushed == []


@pytest.mark.parametrize("version", [6, 9])
def test_request_repeats_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_lock: list[Callable[[], None]], version: int
) -> None:
    # The clock of Hudi's machine is ahead: its check of conflicts asks for commits that complete after its request.
    table, checked = locked(tmp_path), list[CheckedWrite]()
    if version == 9:
        turn_into_version_9(table)
    folder = Path(table.location, ".hoodie" if version == 6 else ".hoodie/timeline")
    requested = folder / f"{new_instant_time(datetime.now(UTC) + HOUR, None)}.commit.requested"
    before_lock.append(requested.touch)
    make_ready = CheckedWrite.made_ready

    def make_ready_and_count(write: CheckedWrite, stamp: TableStamp | None) -> ReadyWrite:
        checked.append(write)
        return make_ready(write, stamp)

    monkeypatch.setattr(CheckedWrite, "made_ready", make_ready_and_count)
    assert table.upsert(ROWS).inserted == 2
    assert len(checked) == 1
    assert requested.exists()
    if version == 9:
        [completed] = folder.glob("*_*.commit")
        assert completed.name.partition("_")[2] > requested.name


def test_rollback_by_hudi_is_told(tmp_path: Path) -> None:
    table = locked(tmp_path)

    def roll_back(step: Step) -> None:
        if step is Step.WRITTEN:
            roll_back_as_hudi(table)

    with pytest.raises(LeaseLostError, match="another engine rolled this write back"):
        table.upsert(ROWS, on_step=roll_back)


def test_rollback_behind_check_is_told(tmp_path: Path, before_lock: list[Callable[[], None]]) -> None:
    table = locked(tmp_path)
    before_lock.append(lambda: roll_back_as_hudi(table))
    with pytest.raises(LeaseLostError, match="another engine rolled this write back"):
        table.upsert(ROWS)
    assert table.read().num_rows == 0
    assert list(Path(table.location).glob("*/*.parquet")) == []


def test_planned_rollback_ends_the_write(tmp_path: Path, before_lock: list[Callable[[], None]]) -> None:
    """Hudi's writers that take a paused write for dead remove its files later, by the plan."""
    table = locked(tmp_path)

    def plan() -> None:
        meta = Path(table.location, ".hoodie")
        [instant] = [file.name.partition(".")[0] for file in meta.glob("*.commit.requested")]
        (meta / f"{int(instant) + 1}.rollback.requested").write_bytes(RollbackPlan(instant, "commit").to_avro())

    before_lock.append(plan)
    with pytest.raises(LeaseLostError, match="another engine rolled this write back"):
        table.upsert(ROWS)
    assert table.read().num_rows == 0


@pytest.mark.parametrize(
    "line",
    [
        "hoodie.write.lock.provider=org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
        "hoodie.write.lock.provider=org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
        f"hoodie.write.lock.provider={PACKAGE}.ZookeeperBasedImplicitBasePathLockProvider",
        f"hoodie.write.lock.provider={PACKAGE}.StorageBasedLockProvider",
        f"hoodie.write.lock.provider={PACKAGE}.FileSystemBasedLockProvider\nhoodie.clean.failed.writes.policy=EAGER",
    ],
)
def test_unsafe_locks_are_refused(tmp_path: Path, line: str) -> None:
    table = with_property(locked(tmp_path, "lease"), line)
    with pytest.raises(UnsupportedTableError, match=r"LockProvider|EAGER"):
        table.upsert(ROWS)
    assert table.read().num_rows == 0


@pytest.mark.parametrize(
    ("lock", "message"),
    [
        ("dynamodb", "filesystem"),
        ("zookeeper://zk1:2181/locks", "key=NAME"),
        ("zookeeper://zk1:2181?key=t", "key=NAME"),
        ("zookeeper://user:secret@zk1:2181/locks?key=t", "key=NAME"),
        ("storage", "S3, Google Cloud Storage and Azure"),
    ],
)
def test_unusable_choice_is_refused(tmp_path: Path, lock: str, message: str) -> None:
    with pytest.raises((SettingsError, UnsupportedTableError), match=message):
        locked(tmp_path, lock)
    assert not (tmp_path / "t").exists()


def test_lock_is_given_to_existing_table(tmp_path: Path) -> None:
    table = locked(tmp_path, "lease")
    other = open_table(table.location)
    table.set_lock("filesystem")
    lock = Path(table.location, ".hoodie/lock")
    lock.touch()
    for handle in (table, other):
        with pytest.raises(LeaseBusyError, match="Hudi's lock"):
            handle.clean(timeout=0)
    lock.unlink()
    assert other.upsert(ROWS).inserted == 2
    table.set_lock("lease")
    lock.touch()
    assert table.delete(["a"]).deleted == 1


def test_refused_lock_is_replaced(tmp_path: Path) -> None:
    refused = with_property(locked(tmp_path), f"hoodie.write.lock.provider={PACKAGE}.InProcessLockProvider")
    with pytest.raises(UnsupportedTableError, match="InProcessLockProvider"):
        refused.upsert(ROWS)
    refused.set_lock("filesystem")
    assert refused.upsert(ROWS).inserted == 2


def test_write_begun_before_lock_is_repeated(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    given: list[Step] = []

    def give(step: Step) -> None:
        if step is Step.WRITTEN and not given:
            given.append(step)
            open_table(table.location).set_lock("filesystem")

    result = table.upsert(ROWS, on_step=give)
    assert (result.inserted, result.attempts) == (2, 2)


def test_properties_of_same_lock_stay(tmp_path: Path) -> None:
    table = with_property(locked(tmp_path), "hoodie.write.lock.filesystem.expire=7")
    table.set_lock("filesystem")
    properties = Path(table.location, ".hoodie/hoodie.properties")
    assert "expire=7" in properties.read_text()
    table.set_lock("lease")
    assert "hoodie.write." not in properties.read_text()
    assert "LAZY" not in properties.read_text()


def dead_write(table: Table, silent_seconds: float) -> str:
    """A pending write of Hudi with a base file and a heartbeat of that age; returns its instant."""
    definition = opened_table(table).definition
    pending = TableInstant(definition, str(int(table.timeline()[-1].time) + 1), Action.COMMIT)
    assert pending.request()
    pending.begin()
    written = next(Path(table.location, "Rome").glob("*.parquet"))
    shutil.copy(written, written.with_name(f"{written.name.split('_')[0]}_9-9-9_{pending.time}.parquet"))
    Path(table.location, ".hoodie/.temp", pending.time).mkdir(parents=True)
    heartbeat = Path(table.location, ".hoodie/.heartbeat", pending.time)
    heartbeat.touch()
    beaten = time.time() - silent_seconds
    os.utime(heartbeat, (beaten, beaten))
    return pending.time


def test_dead_write_is_rolled_back(tmp_path: Path) -> None:
    table = locked(tmp_path)
    table.upsert(ROWS)
    dead = dead_write(table, silent_seconds=130)
    table.clean()
    assert [instant.action for instant in table.timeline()] == ["commit", "rollback"]
    assert [path for path in Path(table.location).rglob(f"*{dead}*") if path.suffix != ".rollback"] == []
    assert table.upsert(ROWS.set_column(2, "ts", [[2, 2]])).updated == 2
    assert table.verify_index().agrees


def test_living_write_is_left_alone(tmp_path: Path) -> None:
    table = locked(tmp_path)
    table.upsert(ROWS)
    pending = dead_write(table, silent_seconds=110)
    table.clean()
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == [pending]
    assert list(Path(table.location).glob(f"*/*{pending}.parquet"))


def test_fast_clock_ends_no_living_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_property(locked(tmp_path), "hoodie.write.lock.filesystem.expire=1")
    table.upsert(ROWS)
    pending = dead_write(table, silent_seconds=1)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 600)
    table.clean()
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == [pending]
    Path(table.location, ".hoodie/lock").touch()
    with pytest.raises(LeaseBusyError, match="Hudi's lock"):
        table.clean(timeout=0)


def test_dead_write_leaves_record_index(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", lock="filesystem", index="record-index:")
    table.upsert(ROWS)
    dead_write(table, silent_seconds=130)
    table.clean()
    assert [instant.action for instant in table.timeline()] == ["commit", "rollback"]
    assert table.lookup(["a", "b"]).num_rows == 2
    assert table.upsert(ROWS.set_column(2, "ts", [[2, 2]])).updated == 2
    assert table.verify_index().agrees


def test_dead_deltacommit_leaves_record_index(tmp_path: Path) -> None:
    """A process of Hudi may die between the deltacommit and the commit; it leaves no journals."""
    made, dead = table_with_dead_deltacommit(tmp_path)
    folder = made / ".hoodie"
    assert list((folder / "metadata/record_index").glob(f"*{dead}*"))
    table = open_table(made)
    table.clean()
    assert [path for path in folder.rglob(f"*{dead}*") if path.suffix != ".rollback"] == []
    assert table.metadata.verify() == ()
    assert table.lookup(["a", "b", "c"]).column("file_id").null_count == 1
    assert table.upsert(ROWS.set_column(2, "ts", [[3, 3]])).updated == 2
    assert table.verify_index().agrees


@pytest.mark.parametrize("is_being_rolled_back", [False, True])
def test_dead_write_holds_back_no_compaction(tmp_path: Path, *, is_being_rolled_back: bool) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", lock="filesystem", index="record-index:")
    table.upsert(ROWS)
    dead = dead_write(table, silent_seconds=130)
    timeline = Path(table.location, ".hoodie/metadata/.hoodie")
    for state in ("requested", "inflight"):
        (timeline / f"{dead}.deltacommit.{state}").touch()
    assert table.metadata.compact().held_back_by == dead
    if is_being_rolled_back:
        # The process of Hudi that rolled it back is dead, too.
        age_by_a_day(table, planned_by_hudi(table, Action.ROLLBACK, RollbackPlan(dead, "commit", {}).to_avro()))
    table.clean()
    compacted = table.metadata.compact()
    assert (compacted.held_back_by, compacted.instant is not None) == (None, True)
    assert table.lookup(["a", "b"]).num_rows == 2


def test_writer_without_heartbeats_is_refused(tmp_path: Path) -> None:
    table = locked(tmp_path)
    table.upsert(ROWS)
    eager = dead_write(table, silent_seconds=0)
    heartbeats = Path(table.location, ".hoodie/.heartbeat")
    (heartbeats / eager).unlink()
    # So far it may be a writer that has failed, and has removed its heartbeat after its last change.
    assert table.upsert(ROWS.set_column(2, "ts", [[2, 2]])).updated == 2
    marker = Path(table.location, ".hoodie/.temp", eager, "Rome/file.marker.CREATE")
    marker.parent.mkdir()
    marker.touch()
    later = heartbeats.stat().st_mtime + 1
    os.utime(marker, (later, later))
    with pytest.raises(UnsupportedTableError, match=eager):
        table.upsert(ROWS)
    # With a heartbeat, it is a writer with the policy LAZY.
    (heartbeats / eager).touch()
    os.utime(marker, (later + 9, later + 9))
    assert table.upsert(ROWS.set_column(2, "ts", [[3, 3]])).updated == 2


def test_heartbeats_are_those_of_properties(tmp_path: Path) -> None:
    lines = "hoodie.client.heartbeat.interval_in_ms=30000\nhoodie.client.heartbeat.tolerable.misses=10"
    table = with_property(locked(tmp_path), lines)
    table.upsert(ROWS)
    pending = dead_write(table, silent_seconds=290)
    table.clean()
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == [pending]
    heartbeat = Path(table.location, ".hoodie/.heartbeat", pending)
    beaten = time.time() - 310
    os.utime(heartbeat, (beaten, beaten))
    table.clean()
    assert [instant.action for instant in table.timeline()] == ["commit", "rollback"]


def test_failed_write_is_rolled_back(tmp_path: Path) -> None:
    # A writer of Hudi that fails removes its heartbeat, and leaves its instant.
    table = locked(tmp_path)
    table.upsert(ROWS)
    failed = dead_write(table, silent_seconds=0)
    Path(table.location, ".hoodie/.heartbeat", failed).unlink()
    table.clean()
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == [failed]
    yesterday = time.time() - 90_000
    for file in Path(table.location, ".hoodie").glob(f"{failed}*"):
        os.utime(file, (yesterday, yesterday))
    table.clean()
    assert [instant.action for instant in table.timeline()] == ["commit", "rollback"]


def test_dead_write_stays_without_lock(tmp_path: Path) -> None:
    table = locked(tmp_path, "lease")
    table.upsert(ROWS)
    Path(table.location, ".hoodie/.heartbeat").mkdir()
    pending = dead_write(table, silent_seconds=1000)
    table.clean()
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == [pending]


def planned_by_hudi(table: Table, action: Action, plan: bytes) -> str:
    """A service of Hudi that has begun: its plan is on the timeline."""
    time_of_plan = str(int(table.timeline()[-1].time) + 1)
    timeline = Path(table.location, ".hoodie")
    (timeline / f"{time_of_plan}.{action}.requested").write_bytes(plan)
    (timeline / f"{time_of_plan}.{action}.inflight").write_bytes(plan)
    return time_of_plan


def age_by_a_day(table: Table, instant: str) -> None:
    yesterday = time.time() - 90_000
    for file in Path(table.location, ".hoodie").glob(f"{instant}*"):
        os.utime(file, (yesterday, yesterday))


def test_clean_of_hudi_is_left_alone(tmp_path: Path) -> None:
    table = locked(tmp_path)
    first = table.upsert(ROWS).instant
    last = table.upsert(ROWS.set_column(2, "ts", [[2, 2]])).instant
    assert first is not None
    assert last is not None
    old = str(next(Path(table.location, "Rome").glob(f"*{first}.parquet")))
    planned = planned_by_hudi(table, Action.CLEAN, CleanPlan(last, "commit", last, {"Rome": (old,)}).to_avro())
    table.clean(keep_commits=1, dry_run=True)
    table.clean(keep_commits=1)
    table.archive(keep_commits=1)
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == [planned]
    assert Path(old).exists()
    age_by_a_day(table, planned)
    table.clean(keep_commits=1)
    assert [instant.time for instant in table.timeline() if instant.action == Action.CLEAN] == [planned]
    assert not Path(old).exists()


def test_rollback_of_dead_hudi_is_finished(tmp_path: Path) -> None:
    table = locked(tmp_path)
    table.upsert(ROWS)
    dead = dead_write(table, silent_seconds=130)
    [file] = Path(table.location).glob(f"*/*{dead}.parquet")
    rollback = planned_by_hudi(
        table, Action.ROLLBACK, RollbackPlan(dead, "commit", {file.parent.name: (str(file),)}).to_avro()
    )
    table.clean()
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == [dead, rollback]
    age_by_a_day(table, rollback)
    table.clean()
    assert [instant.time for instant in table.timeline() if not instant.is_completed] == []
    assert not file.exists()
    assert table.verify_index().agrees
