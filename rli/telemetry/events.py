"""Log records: one event for each thing that an operator asks about, with fields of stable names.

Every event is logged by ``logging``, below the logger ``rli``. The message is a sentence with ``key=value`` pairs. The
record has the same values as attributes: ``rli_event`` is the event's name, and ``rli_table`` the field ``table``.
docs/operations.md lists the events.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

ATTRIBUTE_PREFIX: Final = "rli_"
"""What the names of a log record's attributes begin with: they clash with no attribute of the record's own."""

_PASSWORD: Final = re.compile(r"(://[^\s/:@]*):[^\s/@]+@")
_STACK_LEVEL: Final = 3


@dataclass(frozen=True, slots=True)
class Event:
    """One kind of log record.

    Attributes:
        name: stable; its first part names the logger below ``rli``.
        level: of ``logging``.
        text: the sentence before the fields.
        fields: names, in the order of the message.
    """

    name: str
    level: int
    text: str
    fields: tuple[str, ...]

    def log(self, **values: object) -> None:
        """Log the event; fields without a value are left out of the message.

        Args:
            **values: by field; secrets in URLs are hidden.
        """
        self._log(values, None)

    def log_with_traceback(self, error: BaseException, **values: object) -> None:
        """Log the event with an error that has no other place to be seen."""
        self._log({**values, "cause": error}, error)

    def _log(self, values: Mapping[str, object], error: BaseException | None) -> None:
        logger = logging.getLogger(f"rli.{self.name.partition('.')[0]}")
        if not logger.isEnabledFor(self.level):
            return
        shown = {name: _without_secrets(values.get(name)) for name in self.fields}
        pairs = " ".join(f"{name}={_as_string(value)}" for name, value in shown.items() if value is not None)
        attributes = {f"{ATTRIBUTE_PREFIX}{name}": value for name, value in shown.items()}
        logger.log(
            self.level,
            "%s: %s",
            self.text,
            pairs,
            exc_info=error,
            extra={f"{ATTRIBUTE_PREFIX}event": self.name, **attributes},
            stacklevel=_STACK_LEVEL,
        )


EVENTS: Final[dict[str, Event]] = {}
"""Every event, by name."""


def _event(name: str, level: int, text: str, *fields: str) -> Event:
    EVENTS[name] = event = Event(name, level, text, fields)
    return event


def _as_string(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{_as_string(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(_as_string, value))
    return str(value)


def _without_secrets(value: Any) -> Any:
    """A value as it may be logged: errors of client libraries may repeat the URL that they were given."""
    if isinstance(value, BaseException):
        value = f"{type(value).__name__}: {value}"
    return _PASSWORD.sub(r"\1:***@", value) if isinstance(value, str) else value


# Writes --------------------------------------------------------------------------------------------------------

COMMIT_DONE: Final = _event(
    "commit.done", logging.INFO, "a write was committed",
    "table", "operation", "instant", "inserted", "updated", "moved", "deleted", "unchanged", "duplicates",
    "files_created", "files_rewritten", "files_replaced", "bytes", "attempts", "conflicts", "seconds", "seconds_by_step",
)  # fmt: skip
COMMIT_EMPTY: Final = _event(
    "commit.empty", logging.INFO, "a write changed nothing, so nothing was committed",
    "table", "operation", "unchanged", "duplicates", "attempts", "conflicts", "seconds", "seconds_by_step",
)  # fmt: skip
BUFFER_FAILED: Final = _event(
    "buffer.failed",
    logging.WARNING,
    "a buffered writer could not commit its rows, and keeps them",
    "table",
    "rows",
    "number",
    "cause",
)
COMMIT_REPEATED: Final = _event(
    "commit.repeated", logging.INFO, "the caller's transaction was committed before", "instant", "attempts", "seconds"
)
COMMIT_RETRIED: Final = _event(
    "commit.retried", logging.INFO, "another writer was first, so the write is tried again",
    "table", "instant", "attempt", "attempts", "keys", "instants", "cause",
)  # fmt: skip
COMMIT_VOID: Final = _event(
    "commit.void", logging.WARNING, "tasks had other records than were requested, so the write is tried again",
    "table", "instant", "attempt", "attempts", "cause",
)  # fmt: skip
COMMIT_FAILED: Final = _event(
    "commit.failed", logging.WARNING, "a write failed",
    "table", "operation", "instant", "attempts", "conflicts", "seconds", "cause",
)  # fmt: skip

COMMIT_INDEX_BEHIND: Final = _event(
    "commit.index_behind", logging.WARNING, "a commit stands, but its index could not follow it; the next sync does",
    "table", "instant", "cause",
)  # fmt: skip
COMMIT_UNFINISHED: Final = _event(
    "commit.unfinished", logging.WARNING, "a commit stands, but a step after its publication failed",
    "table", "instant", "cause",
)  # fmt: skip

# Where Spark works ---------------------------------------------------------------------------------------------

EXECUTION_PLAN: Final = _event(
    "execution.plan", logging.INFO, "planned where a stage of a write in Spark runs",
    "table", "stage", "place", "jobs", "tasks", "cores", "rows", "bytes", "files", "reason",
)  # fmt: skip

# Between writers -----------------------------------------------------------------------------------------------

LEASE_WAITING: Final = _event(
    "lease.waiting",
    logging.INFO,
    "waiting for the lease",
    "writer",
    "holder",
    "pid",
    "is_on_this_host",
    "silent_seconds",
)
LEASE_TAKEN_OVER: Final = _event(
    "lease.taken_over", logging.WARNING, "took the lease over from a holder that died or gave no sign of life",
    "writer", "displaced", "seconds",
)  # fmt: skip
LOCK_WAITING: Final = _event(
    "lock.waiting", logging.INFO, "waiting for the lock that writers of Hudi take, too", "writer", "lock",
)  # fmt: skip
LOCK_LEFT: Final = _event(
    "lock.left", logging.WARNING, "the lock that writers of Hudi take, too, could not be released; the next write replaces it", "cause",
)  # fmt: skip
LOCK_UNAUDITED: Final = _event(
    "lock.unaudited", logging.WARNING, "the audit of the lock that writers of Hudi take, too, could not be written", "file", "cause",
)  # fmt: skip
TURN_TAKEN: Final = _event(
    "turn.taken", logging.INFO, "other writes let this one go first, because it was in conflict several times",
    "table", "turn", "seconds",
)  # fmt: skip
TURN_MISSED: Final = _event(
    "turn.missed",
    logging.WARNING,
    "a write that was in conflict several times goes on without a turn",
    "table",
    "cause",
)
TURN_WAITING: Final = _event(
    "turn.waiting", logging.INFO, "letting a write go first that was in conflict several times",
    "writer", "holder", "pid", "is_on_this_host", "silent_seconds",
)  # fmt: skip
TURN_DAMAGED: Final = _event(
    "turn.damaged", logging.WARNING, "the record of a turn is damaged, and no write waits for it", "table", "cause"
)
TURN_LEFTOVER: Final = _event(
    "turn.left_behind",
    logging.WARNING,
    "the record of a turn that is over could not be removed; the next write removes it",
    "table",
    "cause",
)
WRITER_RECOVERED: Final = _event(
    "writer.recovered", logging.WARNING, "cleared up after a dead writer",
    "table", "instant", "outcome", "pid", "is_on_this_host",
)  # fmt: skip
WRITER_DISPLACED: Final = _event(
    "writer.displaced", logging.INFO, "cleared up after a writer that began with a former index of the table",
    "table", "instant", "outcome",
)  # fmt: skip
WRITE_MOVED: Final = _event(
    "write.moved", logging.INFO, "the table was given another index meanwhile, so the attempt is repeated with that one",
    "table", "index", "cause",
)  # fmt: skip
REQUEST_REMOVED: Final = _event(
    "writer.request_removed", logging.INFO, "removed the request of a dead Spark write", "folder"
)
SERVICE_FINISHED: Final = _event(
    "service.finished", logging.WARNING, "finished the plan of a dead process", "table", "instant", "action"
)
LEFTOVER: Final = _event(
    "writer.left_behind", logging.WARNING, "a folder could not be removed; the next write removes it", "folder", "cause"
)

METADATA_DROPPED: Final = _event(
    "metadata_table.dropped", logging.WARNING,
    "a partition of the metadata table was dropped, because the change does not keep it",
    "table", "partition", "reason",
)  # fmt: skip

INDEX_MAY_HIDE_RECORDS: Final = _event(
    "index.may_hide_records", logging.WARNING,
    "Hudi 1.2 takes its bounds of an expression for those of the column: filters on the column itself may hide records from Hudi's "
    "readers once Hudi writes to the table; rli's readers are not touched by it",
    "table", "partition", "column",
)  # fmt: skip

# Reads ---------------------------------------------------------------------------------------------------------

METADATA_UNUSED: Final = _event(
    "metadata.unused", logging.WARNING,
    "a partition of the metadata table cannot be relied on, so folders and footers are read instead; see rli doctor",
    "table", "partition", "cause",
)  # fmt: skip

# The index -----------------------------------------------------------------------------------------------------

TRANSACTION_BEHIND: Final = _event(
    "transaction.index_behind", logging.WARNING,
    "a transaction is committed, but not all of its changes are in the index; the next one brings them in",
    "index", "instant", "cause",
)  # fmt: skip
TRANSACTION_LEFTOVER: Final = _event(
    "transaction.left_behind", logging.WARNING,
    "staged changes of a transaction could not be removed; a sweep removes them, or an abort if it was to be prepared",
    "index", "instant", "cause",
)  # fmt: skip
TRANSACTION_STANDS: Final = _event(
    "transaction.stands", logging.WARNING,
    "a transaction is committed, although its caller saw another error; look at the history before it is repeated",
    "index", "instant", "cause",
)  # fmt: skip
TRANSACTION_UNDECIDED: Final = _event(
    "transaction.undecided", logging.WARNING,
    "the store does not tell whether a transaction took effect; look at the history once it answers",
    "index", "instant", "cause",
)  # fmt: skip
SYNC_APPLIED: Final = _event(
    "sync.applied", logging.DEBUG, "applied commits to the index", "table", "index", "instants", "sequence", "seconds"
)
SYNC_DONE: Final = _event(
    "sync.done",
    logging.INFO,
    "the index has followed the timeline",
    "table",
    "index",
    "instants",
    "sequence",
    "seconds",
)
SYNC_FOREIGN: Final = _event(
    "sync.foreign", logging.INFO, "following commits of another engine", "table", "instants", "file_groups",
    "cleaned",
)  # fmt: skip
SYNC_REPEATED: Final = _event(
    "sync.repeated", logging.ERROR,
    "another engine inserted record keys that the table held already: `rli deduplicate TABLE` leaves one record of each",
    "table", "instants", "keys", "sample", "file_group",
)  # fmt: skip
SYNC_WAITING: Final = _event(
    "sync.waiting", logging.INFO, "a look-up is waiting until the index has seen commits", "table", "index", "unapplied",
    "withdrawn",
)  # fmt: skip
INDEX_PROBED: Final = _event(
    "index.probed", logging.INFO, "looked keys up in the table's files by key ranges and bloom filters",
    "table", "index", "keys", "files", "files_read", "comparisons", "false_positives", "seconds",
)  # fmt: skip
INDEX_DEDUPLICATED: Final = _event(
    "index.deduplicated", logging.WARNING,
    "a bootstrap has removed surplus records of repeated keys from the table: `rli rollback TABLE INSTANT` brings them back",
    "table", "instant", "keys", "records", "sample",
)  # fmt: skip
INDEX_STALE: Final = _event(
    "index.stale", logging.WARNING, "sought keys in the table's files whose entries name file groups that are gone",
    "table", "index", "keys", "sample",
)  # fmt: skip
COLUMN_INDEX_UNUSED: Final = _event(
    "column_index.unused", logging.WARNING,
    "the index of a column cannot be relied on, so statistics and footers are read instead",
    "table", "index", "cause",
)  # fmt: skip
INDEX_BUILT: Final = _event(
    "index.built", logging.INFO, "built the index from the table's files", "table", "index", "records", "seconds"
)
INDEX_AGREES: Final = _event(
    "index.agrees", logging.INFO, "index and table agree", "table", "index", "records", "seconds"
)
INDEX_DIFFERS: Final = _event(
    "index.differs", logging.ERROR, "index and table differ",
    "table", "index", "records", "missing", "misplaced", "dangling", "repeated", "seconds",
)  # fmt: skip
INDEX_REPAIRED: Final = _event(
    "index.repaired", logging.WARNING, "corrected the index",
    "table", "index", "missing", "misplaced", "dangling", "repeated", "seconds",
)  # fmt: skip

# Table services ------------------------------------------------------------------------------------------------

CLEAN_DONE: Final = _event(
    "clean.done", logging.INFO, "removed old base files",
    "table", "instant", "earliest_kept", "files", "bytes", "journals", "seconds",
)  # fmt: skip
CLEAN_LEFT: Final = _event(
    "clean.left", logging.WARNING, "a clean left old deletes or dropped indexes in the store, for the next clean",
    "table", "cause",
)  # fmt: skip
ARCHIVE_DONE: Final = _event(
    "archive.done", logging.INFO, "moved old commits to the archive",
    "table", "instants", "earliest_active", "files", "seconds",
)  # fmt: skip
COMPACTION_SCHEDULED: Final = _event(
    "compaction.scheduled", logging.INFO, "scheduled a compaction",
    "table", "instant", "file_groups", "log_files", "log_bytes", "base_bytes",
)  # fmt: skip
METADATA_COMPACTED: Final = _event(
    "metadata.compacted", logging.INFO, "the metadata table was compacted",
    "table", "instant", "file_groups", "deltacommits", "files", "seconds",
)  # fmt: skip
METADATA_HELD_BACK: Final = _event(
    "metadata.held_back", logging.WARNING, "a pending instant holds back the compaction of the metadata table",
    "table", "instant", "deltacommits",
)  # fmt: skip
METADATA_ENABLED: Final = _event(
    "metadata.enabled", logging.INFO, "the metadata table has new partitions", "table", "partitions", "seconds"
)
METADATA_DISABLED: Final = _event(
    "metadata.disabled", logging.INFO, "partitions of the metadata table were removed", "table", "partitions"
)
ROLLBACK_DONE: Final = _event(
    "rollback.done", logging.INFO, "rolled a commit back", "table", "instant", "rollback", "files", "seconds"
)
RESTORE_DONE: Final = _event(
    "restore.done",
    logging.INFO,
    "restored the table to a commit",
    "table",
    "instant",
    "restore",
    "undone",
    "seconds",
)
TORN_COMMIT: Final = _event(
    "rollback.torn", logging.WARNING, "a torn commit is rolled back", "table", "instant", "file"
)
TORN_JOURNALS: Final = _event(
    "rollback.torn_journals",
    logging.WARNING,
    "journals are torn, so the whole index is compared with the table",
    "table",
)
MAINTENANCE_LEFT: Final = _event(
    "maintenance.left", logging.INFO, "inline maintenance is left to a later commit", "table", "cause"
)
MAINTENANCE_FAILED: Final = _event(
    "maintenance.failed", logging.ERROR, "inline maintenance failed, the commit stands", "table", "cause"
)

# Stores --------------------------------------------------------------------------------------------------------

STORE_SLOW: Final = _event("store.slow", logging.WARNING, "the store is slow", "store", "call", "keys", "seconds")
STORE_RETRIED: Final = _event(
    "store.retried", logging.INFO, "the store did not answer, trying again", "store", "attempt", "seconds", "cause"
)
STORE_UNAVAILABLE: Final = _event(
    "store.unavailable", logging.ERROR, "the store does not answer", "store", "attempts", "seconds", "cause"
)
