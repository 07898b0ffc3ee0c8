"""The commit log follows its store, also back to an earlier state."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from rli.errors import CorruptIndexError, RliError
from rli.index.record.log.commit_log import CommitLog
from rli.index.record.log.limits import LogLimits
from rli.index.record.log.record import record_name
from rli.index.record.log.state import LogState
from rli.locations import LocationUpdate
from rli.model import FileGroupId
from rli.store.contract import Store
from rli.store.registry import open_store
from tests.support.children import was_killed
from tests.support.damage import FUZZ_ROUNDS, damaged, limit_memory
from tests.support.faults import KillAt, PointedStore
from tests.support.log_drafts import commit_draft
from tests.support.stored_indexes import create_index, open_index

OFTEN = LogLimits(read_singly=3, per_page=2)
"""Checkpoints come after few commits."""

A, B, C = (FileGroupId("p", f"{name}-0") for name in "abc")


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(f"memory:{uuid4().hex}", create=True) as store:
        yield store
        store.drop()


def append(log: CommitLog, instant: str, *groups: FileGroupId) -> None:
    assert log.append(log.refresh(), commit_draft(instant, *groups)) is not None


def lose(store: Store, sequence: int) -> None:
    """As a server does that comes back from an old snapshot."""
    name = record_name(sequence)
    assert store.compare_and_set(name, store.read_control(name), None)


class MarkedElsewhere(PointedStore):
    """A store with a watermark of its own, as docs/stores/your-own.md allows."""

    def applied_sequence(self) -> int | None:
        return 7


def test_own_watermark_is_read(store: Store) -> None:
    log = CommitLog(MarkedElsewhere(store, lambda _: None))
    for instants in (0, 1):
        assert log.refresh_with_applied() == (7, log.last_read)
        assert log.last_read.head == instants
        append(log, "first", A)


@pytest.mark.parametrize("others", [[], ["other"], ["other", "another"], ["other", "another", "third"]])
def test_log_forgets_lost_records(store: Store, others: list[str]) -> None:
    known, fresh = CommitLog(store), CommitLog(store)
    append(known, "first", A)
    append(known, "second", B)
    append(known, "third")
    known.last_read.dictionary.instants_of(np.array([3]))
    for sequence in (2, 3):
        lose(store, sequence)
    for instant in others:
        append(fresh, instant, C)
    log = known.refresh()
    assert log == fresh.refresh()
    assert log.dictionary.instants_of(np.arange(1, log.head + 1)).to_pylist() == ["first", *others]
    assert (log.dictionary.number_of(C) is not None) == bool(others)
    assert log.dictionary.number_of(B) is None
    append(known, "next", B)
    assert fresh.refresh() == known.last_read


def test_intact_log_is_read_incrementally(store: Store) -> None:
    known, other = CommitLog(store), CommitLog(store)
    append(known, "first", A)
    before = known.last_read
    append(other, "second", B)
    log = known.refresh()
    assert log.records[0] is before.records[0]
    assert [record.instant for record in log.records] == ["first", "second"]
    assert [record.instant for record in before.records] == ["first"]


class Logs:
    """A log that makes checkpoints often, beside a model of what it should say."""

    def __init__(self, store: Store, limits: LogLimits = OFTEN) -> None:
        self.store = store
        self.log = CommitLog(store, limits)
        self.groups: list[FileGroupId] = []
        self.instants: list[str] = []

    def append(self, groups: int = 1, undoes: tuple[str, ...] = ()) -> None:
        """Add a commit that introduces file groups and names one that is known."""
        new = [FileGroupId("p", f"{len(self.groups) + number}-0") for number in range(groups)]
        instant = f"{len(self.instants) + 1:017d}"
        named = [*self.groups[-1:], *new]
        before = self.log.refresh()
        assert self.log.append(before, commit_draft(instant, *named, undoes=undoes))
        self.groups += new
        self.instants.append(instant)

    def require_same(self, log: LogState) -> None:
        """Whatever of the log is in checkpoints, it says the same."""
        assert (log.head, log.group_count) == (len(self.instants), len(self.groups))
        assert log.dictionary.instants_of(np.arange(1, log.head + 1)).to_pylist() == self.instants
        paths, ids = log.dictionary.groups_of(np.arange(log.group_count))
        assert list(map(FileGroupId, paths.to_pylist(), ids.to_pylist())) == self.groups
        assert log.dictionary.numbers_of(self.groups) == {group: number for number, group in enumerate(self.groups)}
        assert log.instants.last == log.last_of(frozenset({"commit"})) == self.instants[-1]
        assert all(
            log.instants.is_before(time, at + 2) and not log.instants.is_before(time, at + 1)
            for at, time in enumerate(self.instants)
        )
        assert "9" * 17 not in log.instants
        assert log.dictionary.number_of(FileGroupId("q", "0-0")) is None
        assert [record.instant for record in log.records_after(0)] == self.instants
        assert [record.instant for record in log.records_after(3)] == self.instants[3:]


@pytest.fixture
def logs(store: Store) -> Logs:
    return Logs(store)


@pytest.mark.invariant("P23")
def test_checkpoint_matches_its_records(logs: Logs) -> None:
    follower = CommitLog(logs.store, OFTEN)
    for number in range(40):
        logs.append(groups=number % 3)
        follower.refresh()
    for log in (CommitLog(logs.store, OFTEN).refresh(), follower.last_read, logs.log.last_read):
        assert len(log.records) < 10 <= len(log.base.pages)
        logs.require_same(log)


def test_small_lookup_reads_few_pages(logs: Logs) -> None:
    for _ in range(40):
        logs.append()
    log = CommitLog(logs.store, OFTEN).refresh()
    assert log.dictionary.instants_of(np.array([1, 40, 1])).to_pylist() == [logs.instants[at] for at in (0, 39, 0)]
    assert len(log.base._pages_read) == 1  # noqa: SLF001


def test_old_retracted_commits_do_not_stand(logs: Logs) -> None:
    for _ in range(10):
        logs.append()
    logs.append(undoes=(logs.instants[4],))
    for _ in range(10):
        logs.append()
    chosen = [logs.instants[at] for at in (3, 4, 20)]
    assert CommitLog(logs.store, OFTEN).refresh().instants.standing(chosen) == [chosen[2], chosen[0]]


def test_many_file_groups_force_checkpoint(logs: Logs) -> None:
    """Or else every refresh would read the record again that a bootstrap leaves."""
    logs.append(groups=2000)
    log = CommitLog(logs.store, OFTEN).refresh()
    assert log.records == ()
    logs.require_same(log)
    logs.append()
    logs.require_same(logs.log.last_read)


@pytest.mark.parametrize("damage", ["checkpoint", "page"])
def test_missing_checkpoint_falls_back_to_records(logs: Logs, damage: str) -> None:
    for _ in range(20):
        logs.append()
    for name, content in logs.store.scan_control(damage):
        assert logs.store.compare_and_set(name, content, content[:10] if damage == "checkpoint" else None)
    logs.require_same(CommitLog(logs.store, OFTEN).refresh())
    logs.append()
    logs.require_same(CommitLog(logs.store, OFTEN).refresh())


def test_newer_checkpoint_is_not_misread(logs: Logs) -> None:
    for _ in range(20):
        logs.append()
    content = logs.store.read_control("checkpoint") or b""
    assert logs.store.compare_and_set("checkpoint", content, content.replace(b'"version":1', b'"version":2'))
    with pytest.raises(CorruptIndexError, match="version=2; use the version of rli that wrote it"):
        CommitLog(logs.store, OFTEN).refresh()


@pytest.mark.parametrize("checkpoint", ["stays", "goes"])
def test_checkpointed_log_goes_back_with_store(logs: Logs, checkpoint: str) -> None:
    """A checkpoint of commits that are lost may have been written just after its server had come back."""
    for _ in range(20):
        logs.append()
    follower = CommitLog(logs.store, OFTEN)
    follower.refresh()
    for sequence in range(3, 21):
        lose(logs.store, sequence)
    if checkpoint == "goes":
        assert logs.store.compare_and_set("checkpoint", logs.store.read_control("checkpoint"), None)
    other = Logs(logs.store)
    other.instants, other.groups = logs.instants[:2], logs.groups[:2]
    for _ in range(3):
        other.append(groups=2)
    for log in (CommitLog(logs.store, OFTEN).refresh(), follower.refresh()):
        other.require_same(log)


@pytest.mark.invariant("P23")
def test_processes_that_compact_at_once_agree(logs: Logs) -> None:
    before = logs.log.refresh()
    for _ in range(12):
        logs.append()
    # As if both had read the log before there was a checkpoint.
    states = [before.extended([(r, r.to_json()) for r in logs.log.last_read.records_after(0)]) for _ in range(2)]
    for state in (*(state.compacted(8) for state in states), CommitLog(logs.store, OFTEN).refresh()):
        logs.require_same(state)


@pytest.mark.invariant("P23")
def test_checkpoint_of_lost_commits_is_discarded(logs: Logs) -> None:
    """A server goes back while a writer writes pages; another writer appends other commits, and writes a checkpoint."""
    logs.append()
    before = logs.store.scan_control("")
    others = Logs(logs.store)
    others.instants, others.groups = list(logs.instants), list(logs.groups)

    def go_back(point: str) -> None:
        if point.startswith("before compare_and_set page/") and len(others.groups) == 1:
            for name, content in logs.store.scan_control(""):
                assert logs.store.compare_and_set(name, content, dict(before).get(name))
            others.append(groups=1500)

    writer = CommitLog(PointedStore(logs.store, go_back))
    lost = [FileGroupId("lost", f"{number}-0") for number in range(2000)]
    writer.append(writer.refresh(), commit_draft("9" * 17, *lost))
    others.require_same(CommitLog(logs.store, OFTEN).refresh())
    others.require_same(writer.refresh())


@pytest.mark.parametrize("intent", ["of a process that died", "damaged"])
def test_unfinished_checkpoint_blocks_no_other(logs: Logs, intent: str) -> None:
    for _ in range(4):
        logs.append()
    content = b'{"version":1,"head":0,"groups":0,"lastOf":[],"anchor":null,"pages":[],"writing":"x"}'
    assert logs.store.compare_and_set("checkpoint", None, content if intent != "damaged" else content[:9])
    for _ in range(12):
        logs.append()
    log = CommitLog(logs.store, OFTEN).refresh()
    assert log.base.head > 8
    logs.require_same(log)


def test_long_log_is_read_in_parts(store: Store) -> None:
    """As an older version leaves it: who reads it writes nothing, and keeps few records; the next commit mends it."""
    few = LogLimits(read_singly=3, held=8, per_page=50)
    logs = Logs(store, LogLimits(read_singly=1 << 20, groups_read_singly=1 << 20))
    for _ in range(1_035):  # in two blocks
        logs.append()
    stored = store.scan_control("")
    reader = CommitLog(store, few)
    assert len(reader.refresh().records) <= 8
    logs.require_same(reader.last_read)
    assert store.scan_control("") == stored
    logs.log = CommitLog(store, few)
    logs.append()
    logs.require_same(logs.log.last_read)
    assert len(store.scan_control("page/")) >= 20
    logs.require_same(CommitLog(store, few).refresh())
    reader.refresh()
    logs.require_same(reader.last_read)


def test_new_file_group_caches_no_page(logs: Logs) -> None:
    for _ in range(40):
        logs.append(groups=3)
    log = CommitLog(logs.store, OFTEN).refresh()
    assert log.dictionary.number_of(FileGroupId("p", "new-0")) is None
    assert log.dictionary.number_of(FileGroupId("q", "5-0")) is None
    assert log.dictionary.number_of(FileGroupId("p", "5-0")) == 5
    assert log.base._pages_read == {}  # noqa: SLF001


def append_and_die(url: str, point: int) -> None:
    log = CommitLog(PointedStore(open_store(url), KillAt(point)), OFTEN)
    log.append(log.refresh(), commit_draft("8" * 17, FileGroupId("q", "q-0")))


@pytest.mark.crash
@pytest.mark.invariant("P23")
def test_checkpoint_crash_leaves_whole_log(tmp_path: Path) -> None:
    with open_store(f"lmdb://{tmp_path}/template", create=True) as store:
        template = Logs(store)
        while len(template.log.last_read.records) < 5 or template.log.last_read.head < 9:
            template.append()
    points = []
    for point in count(1):
        url = f"lmdb://{shutil.copytree(tmp_path / 'template', tmp_path / str(point))}"
        killed = was_killed(append_and_die, url, point)
        with open_store(url) as store:
            logs = Logs(store)
            logs.instants, logs.groups = list(template.instants), list(template.groups)
            if logs.log.refresh().head > len(logs.instants):
                logs.instants.append("8" * 17)
                logs.groups.append(FileGroupId("q", "q-0"))
            logs.require_same(logs.log.refresh())
            points.append(logs.log.last_read.base.head)
        if not killed:
            break
    assert len(points) > 8
    assert points == sorted(points)
    assert points[0] < points[-1]


@pytest.mark.invariant("P23")
def test_forged_checkpoint_is_harmless() -> None:
    """Anybody who writes the index can name a page by the digest of what was forged; Arrow must not read where that leads."""
    assert not was_killed(_read_forged_checkpoints), "the reader was killed"


def _read_forged_checkpoints() -> None:
    limit_memory()
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    with open_store("memory:forged", create=True) as store:
        logs = Logs(store)
        for number in range(20):
            logs.append(groups=number % 3)
        intact = store.read_control("checkpoint")
        assert intact is not None
        for case in range(FUZZ_ROUNDS // 3):
            forged = _with_forged_page(store, intact, rng) if case % 2 else damaged(intact, rng)
            assert store.compare_and_set("checkpoint", store.read_control("checkpoint"), forged)
            try:
                log = CommitLog(store).refresh()
                log.dictionary.instants_of(np.arange(1, log.head + 1))
                log.dictionary.groups_of(np.arange(log.group_count))
                log.dictionary.numbers_of(logs.groups)
            except RliError:
                continue
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error}: seed={seed} checkpoint={forged!r}") from error


def _with_forged_page(store: Store, checkpoint: bytes, rng: random.Random) -> bytes:
    fields = json.loads(checkpoint)
    page = rng.choice(fields["pages"])
    content = damaged(store.read_control(page[0]) or b"", rng)
    page[0] = f"{page[0].rpartition('-')[0]}-{hashlib.sha256(content).hexdigest()[:32]}"
    store.compare_and_set(page[0], None, content)
    return json.dumps(fields).encode()


@pytest.mark.invariant("P18")
def test_changes_use_caller_log_numbers() -> None:
    """Another thread may have put another state in place of the kept one since."""
    here, there = FileGroupId("p", "here"), FileGroupId("p", "there")
    with create_index("memory:numbered") as index:
        empty = index.log.refresh()
        stale = index.log.append(empty, commit_draft("1", there))
        assert stale is not None
        assert index.store.compare_and_set(record_name(1), stale.contents[-1], None)
        with open_index("memory:numbered") as another:
            read = another.log.append(empty, commit_draft("2", here, there))
        assert read is not None
        index.apply(LocationUpdate.placing(pa.array(["k"]), there), read, 1)
        assert index.get(pa.array(["k"])).tolist() == [(1 << 32) + 1]
        index.drop()
