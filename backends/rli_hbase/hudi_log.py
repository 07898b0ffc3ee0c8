"""What versions of rows in Hudi's schema mean as entries, and the other way round.

A row names its instant and its file group; the index's commit log gives both their numbers. A row of an instant that
the log does not know counts for nothing: its commit is pending, failed, was rolled back, or is still to be followed.

**Timestamps.** A commit sequence has a time of its own, from which its writes take their timestamps: when its record
was added to the commit log, by the clock of HBase, as that record's cell tells for ever. So times grow with sequences,
every process writes a commit with the same ones, and of two versions HBase gives the later commit's, whichever was
written last. Hudi's rows are of the same clock: they were written before their commit completed, and hence before the
log heard of it.

A record with several sequences has its own time for the last of them and the milliseconds before for the others, unless
these are taken. So a time lies in the future only by as many milliseconds as sequences were added within one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from threading import Lock

from rli.errors import CorruptIndexError
from rli.index.record.log.commit_log import CommitLog
from rli.index.record.log.record import RECORD_PREFIX, LogRecord, record_name
from rli.store import Entries, Store, file_groups, is_live, sequences
from rli_hbase.hudi_rows import Version


class HudiLog:
    """The commit log of an index in Hudi's schema, as a dictionary between rows and entries. Threads may share it.

    Args:
        store: of the index.
        times_of_records: when each of the control records whose name begins with a prefix and is not below a name was
            set, in milliseconds of the clock of HBase.
        made_at: when the index was made. What is older was not written for it.
    """

    def __init__(
        self, store: Store, times_of_records: Callable[[str, str], Iterable[tuple[str, int]]], made_at: int
    ) -> None:
        self._log = CommitLog(store)
        self._times_of_records = times_of_records
        self._made_at = made_at
        self._lock = Lock()
        # By sequence; position 0 is before all.
        self._times = [made_at]
        self._instants = [b""]
        # By file-group number.
        self._groups: list[tuple[bytes, bytes]] = []
        self._numbers: dict[tuple[bytes, bytes], int] = {}
        # The sequences that place records at an instant, ascending.
        self._placing: dict[bytes, list[int]] = {}

    def refresh(self) -> None:
        """Read what was added to the commit log since the last call."""
        with self._lock:
            # The log may have been read further than this, by a call that then failed.
            head = len(self._times) - 1
            log = self._log.refresh()
            if log.head == head:
                return
            # Behind the log: each record that was read has its cell by now, and its time never changes.
            times = dict(self._times_of_records(RECORD_PREFIX, record_name(head + 1)))
            for record in log.records_after(head):
                self._add(record, times[record_name(record.first_sequence)])

    def is_older(self, version: Version) -> bool:
        """Whether a version of a row was written before the index was made."""
        return version.time <= self._made_at

    def entry_of(self, version: Version) -> int:
        """The entry that a version of a row stands for, 0 if its commit is not in the part of the log that was read."""
        number = self._numbers.get((version.file_id, version.partition_path))
        sequence = self._sequence_of(version.instant, version.time)
        return 0 if number is None or not sequence else sequence << 32 | number

    def require_known(self, entries: Entries) -> None:
        """Raise ``CorruptIndexError`` if the commit log has not given out all numbers of the entries."""
        if not self._knows(entries):
            self.refresh()
        if not self._knows(entries):
            raise CorruptIndexError(
                f"entries of unknown commits: sequence={sequences(entries).max()} last={len(self._times) - 1}",
                remedy="add commits to the index's log before their entries",
            )

    def time_of(self, sequence: int) -> int:
        """The timestamp of what a commit sequence writes; the sequence is a known one."""
        return self._times[sequence]

    def row_of(self, entry: int) -> tuple[bytes, bytes, bytes]:
        """Instant, file id and partition path of a known live entry."""
        return (self._instants[entry >> 32], *self._groups[entry & 0xFFFF_FFFF])

    def _knows(self, entries: Entries) -> bool:
        live = entries[is_live(entries)]
        return bool(
            sequences(entries).max(initial=0) < len(self._times)
            and (not len(live) or file_groups(live).max() < len(self._groups))
        )

    def _sequence_of(self, instant: bytes, time: int) -> int:
        """The sequence that places records at an instant, the last one whose time had come; 0 if there is none.

        Later records of the log may place records at an old instant once more (a rollback, a repair).
        """
        placing = self._placing.get(instant)
        if placing is None or time <= self._made_at:
            return 0
        return placing[max(0, bisect_right(placing, time, key=self._times.__getitem__) - 1)]

    def _add(self, record: LogRecord, time: int) -> None:
        # Other threads read meanwhile: a sequence is known once it has a time.
        self._instants.extend(instant.encode() for instant in record.located_at)
        for group in record.file_groups:
            names = (group.file_id.encode(), group.partition_path.encode())
            self._groups.append(names)
            self._numbers[names] = len(self._groups) - 1
        for later in reversed(range(len(record.located_at))):
            # Strictly ascending with the sequences, whatever the clock of HBase did: HBase shows the version with the
            # greater time, and that must be the later commit's.
            self._times.append(max(self._times[-1] + 1, time - later))
        # Where a record names an instant twice, its first sequence is of keys that went.
        last = {instant: record.first_sequence + position for position, instant in enumerate(record.located_at)}
        for instant, sequence in last.items():
            self._placing.setdefault(instant.encode(), []).append(sequence)
