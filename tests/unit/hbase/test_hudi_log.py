"""What rows in Hudi's schema mean, by the commit log and the times of its records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rli.errors import CorruptIndexError
from rli.index.record.log.commit_log import CommitLog
from rli.model import FileGroupId
from rli.store.memory import open_memory_store
from rli.testing.batches import entries_of, entry, tombstones_of
from rli_hbase.hudi_log import HudiLog
from rli_hbase.hudi_rows import Version
from tests.support.log_drafts import repair_draft

MADE_AT = 1000


class Writers:
    """A commit log whose records are added at times that a test chooses."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._times: dict[str, int] = {}
        self.read = HudiLog(log.store, self._times_of, MADE_AT)

    def add(self, time: int, *located_at: str) -> int:
        """Add a record at a time; its first sequence."""
        groups = [FileGroupId("Oslo", "f1"), FileGroupId("Rome", "f2")]
        before = self._log.refresh()
        log = self._log.append(before, repair_draft(str(time), located_at, groups))
        assert log is not None
        record = log.records[-1]
        self._times[f"commit/{record.first_sequence:010d}"] = time
        self.read.refresh()
        return record.first_sequence

    def _times_of(self, prefix: str, start: str) -> Iterator[tuple[str, int]]:
        return ((name, time) for name, time in self._times.items() if name.startswith(prefix) and name >= start)

    def sequence(self, instant: str, time: int) -> int:
        """The commit sequence of a version of a row."""
        return self.read.entry_of(Version(instant.encode(), b"f2", b"Rome", time)) >> 32


@pytest.fixture
def writers() -> Iterator[Writers]:
    with open_memory_store("memory:hudi-log", create=True) as store:
        yield Writers(CommitLog(store))
        store.drop()


def test_times_follow_sequences_up_to_commit(writers: Writers) -> None:
    for time, instants in ((2000, "abc"), (3000, "d"), (3000, "ef"), (9000, "gh")):
        writers.add(time, *instants)
    assert [writers.read.time_of(sequence) for sequence in range(1, 9)] == [
        *(1998, 1999, 2000),
        3000,
        *(3001, 3002),
        *(8999, 9000),
    ]


def test_times_are_after_index_creation(writers: Writers) -> None:
    writers.add(MADE_AT + 1, "a", "b", "c")
    assert [writers.read.time_of(sequence) for sequence in (1, 2, 3)] == [1001, 1002, 1003]


def test_row_has_last_sequence_by_then(writers: Writers) -> None:
    assert writers.add(2000, "a", "b") == 1
    assert writers.add(3000, "c", "a") == 3
    assert writers.sequence("a", 1500) == 1
    assert writers.sequence("a", 1999) == 1
    assert writers.sequence("a", 2999) == 1
    assert writers.sequence("a", 3000) == 4
    assert writers.sequence("b", 9000) == 2


def test_repeated_instant_uses_last_sequence(writers: Writers) -> None:
    # As of a commit of another engine: the first sequence is of keys that went.
    assert writers.add(2000, "a", "a") == 1
    assert writers.sequence("a", 1500) == 2


def test_unknown_or_older_rows_are_ignored(writers: Writers) -> None:
    writers.add(2000, "a")
    assert writers.sequence("z", 2500) == 0
    assert writers.sequence("a", MADE_AT) == 0
    assert writers.read.entry_of(Version(b"a", b"f1", b"Rome", 2500)) == 0
    assert writers.read.entry_of(Version(b"a", b"f1", b"Oslo", 2500)) == entry(1, 0)
    assert writers.read.is_older(Version(b"a", b"f1", b"Oslo", MADE_AT))
    assert not writers.read.is_older(Version(b"a", b"f1", b"Oslo", MADE_AT + 1))


def test_entries_need_a_commit(writers: Writers) -> None:
    writers.add(2000, "a")
    writers.read.require_known(entries_of(1, [0, 1]))
    writers.read.require_known(tombstones_of(1, 3))
    assert writers.read.row_of(entry(1, 1)) == (b"a", b"f2", b"Rome")
    for unknown in (entries_of(2, [0]), entries_of(1, [2]), tombstones_of(2, 1)):
        with pytest.raises(CorruptIndexError, match="entries of unknown commits"):
            writers.read.require_known(unknown)
