"""The commit log: what gives an index's small numbers their meaning.

Every commit that the index knows is one record of the log, a control record named ``commit/<sequence>``, added by
compare-and-set at the log's head. A record owns one or more commit sequences and introduces the file groups that
no earlier record named, numbered on from the last. So sequences and file-group numbers are given out once, in one
atomic step, whoever races; and the log read from its start is both dictionaries of the index.

A record of a table's commit repeats nothing that the timeline says. A record of a transaction on the index alone
is the commit itself: the log is its timeline.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

import pyarrow as pa

from rli.codec.entries import MAX_FILE_GROUP, MAX_SEQUENCE
from rli.errors import CorruptIndexError, SettingsError
from rli.json_text import parse_json
from rli.model import FileGroupId
from rli.store.contract import Store

RECORD_PREFIX: Final = "commit/"
"""What the names of the log's control records begin with."""

_RECORD_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One commit as the index knows it.

    Attributes:
        instant: the instant of the table's timeline, or of the transaction; None for a repair.
        action: the action of the timeline, or "bootstrap", "repair", "transaction".
        first_sequence: the first commit sequence that the record owns; it owns ``len(located_at)`` of them.
        located_at: for each sequence, the instant that look-ups report for its entries.
        first_file_group: number of the first file group that the record introduces.
        file_groups: the file groups that it introduces, in the order of their numbers.
        writer: identity of the write, by which a writer whose append got no answer recognises its record.
        covers: further instants whose changes this record brings into the index (bootstrap).
        staged_chunks: how many chunks of changes lie in the store (transactions on the index alone).
        undoes: instants whose changes this record takes back, the newest first (rollback, restore).
    """

    instant: str | None
    action: str
    first_sequence: int
    located_at: tuple[str, ...]
    first_file_group: int
    file_groups: tuple[FileGroupId, ...]
    writer: str
    covers: tuple[str, ...] = ()
    staged_chunks: int = 0
    undoes: tuple[str, ...] = ()

    @property
    def instants(self) -> tuple[str, ...]:
        """All instants whose changes the record brings."""
        return self.covers if self.instant is None else (*self.covers, self.instant)

    @property
    def last_sequence(self) -> int:
        return self.first_sequence + len(self.located_at) - 1

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "version": _RECORD_VERSION,
                "instant": self.instant,
                "action": self.action,
                "locatedAt": self.located_at,
                "firstFileGroup": self.first_file_group,
                "fileGroups": self.file_groups,
                "writer": self.writer,
                "covers": self.covers,
                "stagedChunks": self.staged_chunks,
                **({"undoes": self.undoes} if self.undoes else {}),
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def from_json(cls, first_sequence: int, content: bytes) -> LogRecord:
        """Read a record; raises ``CorruptIndexError`` if it is none, or of a newer version."""
        try:
            fields = parse_json(content)
            if fields["version"] != _RECORD_VERSION:
                raise CorruptIndexError(
                    f"a record of the index's commit log has another version: version={fields['version']} "
                    f"sequence={first_sequence}; use the version of rli that wrote it"
                )
            return cls(
                instant=fields["instant"],
                action=fields["action"],
                first_sequence=first_sequence,
                located_at=tuple(fields["locatedAt"]),
                first_file_group=fields["firstFileGroup"],
                file_groups=tuple(FileGroupId(*names) for names in fields["fileGroups"]),
                writer=fields["writer"],
                covers=tuple(fields["covers"]),
                staged_chunks=fields["stagedChunks"],
                undoes=tuple(fields.get("undoes", ())),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptIndexError(
                f"a record of the index's commit log is damaged: sequence={first_sequence}; bootstrap the index again"
            ) from error


@dataclass(slots=True)
class CommitLog:
    """The commit log of one index, read once and then only where it has grown.

    Attributes:
        store: where it is kept.
        records: all records read, in order.
        last_dictionaries: what ``dictionaries`` gave last, of this log as far as it had been read then.
    """

    store: Store
    records: list[LogRecord] = field(default_factory=list)
    last_dictionaries: Dictionaries | None = None
    _last: bytes = b""
    _next_file_group: int = 0
    _numbers: dict[FileGroupId, int] = field(default_factory=dict)
    _partition_paths: list[str] = field(default_factory=list)
    _file_ids: list[str] = field(default_factory=list)
    _located_at: list[str | None] = field(default_factory=lambda: [None])
    _instants: dict[str, LogRecord] = field(default_factory=dict)
    _undone: set[str] = field(default_factory=set)

    @property
    def head(self) -> int:
        """The last commit sequence given out, 0 in an empty log."""
        return len(self._located_at) - 1

    @property
    def last_instant(self) -> str | None:
        """The greatest instant that the log names."""
        return max(self._instants, default=None)

    def knows(self, instant: str) -> bool:
        """Whether the changes of an instant are, or are about to be, in the index."""
        return instant in self._instants

    def knows_before(self, instant: str, sequence: int) -> bool:
        """Whether the changes of an instant come with an earlier sequence."""
        record = self._instants.get(instant)
        return record is not None and record.first_sequence < sequence

    def standing(self, instants: Iterable[str]) -> list[str]:
        """Those of some instants whose changes are in the index and were not taken back, the newest first."""
        found = {instant for instant in instants if instant in self._instants} - self._undone
        return sorted(found, key=lambda instant: (self._instants[instant].first_sequence, instant), reverse=True)

    def records_after(self, sequence: int) -> list[LogRecord]:
        """The records whose sequences are greater, in order."""
        first = bisect_right(self.records, sequence, key=lambda record: record.first_sequence)
        return self.records[first:]

    def refresh(self) -> None:
        """Read what was appended since the last call; all of it where the store went back to an earlier state."""
        first = self.records[-1].first_sequence if self.records else 1
        found = self.store.scan_control(RECORD_PREFIX, start=record_name(first))
        if self.records:
            # The last record known is read again: a server that lost it may have been given another one since.
            if found[:1] != [(record_name(first), self._last)]:
                self._forget()
                found = self.store.scan_control(RECORD_PREFIX)
            else:
                del found[0]
        for name, content in found:
            self._add(LogRecord.from_json(_sequence(name), content), content)

    def append(
        self,
        instant: str | None,
        action: str,
        *,
        file_groups: Iterable[FileGroupId],
        writer: str,
        located_at: Sequence[str],
        covers: Sequence[str] = (),
        staged_chunks: int = 0,
        undoes: Sequence[str] = (),
    ) -> LogRecord | None:
        """Add a record right behind the records read so far.

        Args:
            instant: see ``LogRecord``, as of the following.
            action: of the timeline, or what else it is.
            writer: identity of the write.
            file_groups: the file groups that the commit's entries name; known ones are passed over.
            located_at: one instant for each sequence that is needed.
            covers: further instants that it brings.
            staged_chunks: chunks of changes in the store.
            undoes: instants that it takes back.

        Returns:
            The record, or None when another writer appended first: refresh, check again, and call again.
        """
        new_groups = tuple(dict.fromkeys(group for group in file_groups if group not in self._numbers))
        record = LogRecord(
            instant=instant,
            action=action,
            first_sequence=self.head + 1,
            located_at=tuple(located_at),
            first_file_group=self._next_file_group,
            file_groups=new_groups,
            writer=writer,
            covers=tuple(covers),
            staged_chunks=staged_chunks,
            undoes=tuple(undoes),
        )
        if record.last_sequence > MAX_SEQUENCE or self._next_file_group + len(new_groups) > MAX_FILE_GROUP:
            raise SettingsError(
                f"the index has given out all its numbers: sequence={record.last_sequence} "
                f"file groups={self._next_file_group}; bootstrap a new index"
            )
        name, content = record_name(record.first_sequence), record.to_json()
        if not self.store.compare_and_set(name, None, content):
            # The answer to an earlier attempt of ours may have been lost on the way.
            stored = self.store.read_control(name)
            # A record of the same writer may still be another one: two processes that register what they find of
            # another engine's commits may have found different ones.
            if stored is None or LogRecord.from_json(record.first_sequence, stored) != record:
                return None
        self._add(record, content)
        return record

    def knows_group(self, group: FileGroupId) -> bool:
        """Whether a file group has a number."""
        return group in self._numbers

    def number_of(self, group: FileGroupId) -> int:
        """The number of a file group; raises ``CorruptIndexError`` if no record introduced it."""
        try:
            return self._numbers[group]
        except KeyError:
            raise CorruptIndexError(
                f"the index does not know this file group: partition={group.partition_path} "
                f"file_id={group.file_id}; bootstrap the index again"
            ) from None

    def group_of(self, number: int) -> FileGroupId:
        return FileGroupId(self._partition_paths[number], self._file_ids[number])

    @property
    def group_count(self) -> int:
        """How many file groups have a number."""
        return self._next_file_group

    def dictionaries(self) -> Dictionaries:
        """What the numbers given out so far mean."""
        self.last_dictionaries = Dictionaries(
            partition_paths=pa.array(self._partition_paths, pa.string()),
            file_ids=pa.array(self._file_ids, pa.string()),
            instants=pa.array(self._located_at, pa.string()),
        )
        return self.last_dictionaries

    def _forget(self) -> None:
        """Be as before the first ``refresh``."""
        empty = CommitLog(self.store)
        for item in fields(self):
            setattr(self, item.name, getattr(empty, item.name))

    def _add(self, record: LogRecord, content: bytes) -> None:
        if record.first_sequence != self.head + 1 or record.first_file_group != self._next_file_group:
            raise CorruptIndexError(
                f"the index's commit log has a gap: sequence={record.first_sequence} expected={self.head + 1}; "
                "bootstrap the index again"
            )
        self.records.append(record)
        self._last = content
        self._located_at.extend(record.located_at)
        for group in record.file_groups:
            self._numbers[group] = self._next_file_group
            self._next_file_group += 1
            self._partition_paths.append(group.partition_path)
            self._file_ids.append(group.file_id)
        for instant in record.instants:
            self._instants[instant] = record
        self._undone.update(record.undoes)


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """What numbers mean: position → name.

    Attributes:
        partition_paths, file_ids: by file-group number.
        instants: by commit sequence; position 0 is null.
    """

    partition_paths: pa.StringArray
    file_ids: pa.StringArray
    instants: pa.StringArray


def record_name(sequence: int) -> str:
    """The name of the control record whose first sequence this is."""
    return f"{RECORD_PREFIX}{sequence:010d}"


def _sequence(name: str) -> int:
    return int(name.removeprefix(RECORD_PREFIX))
