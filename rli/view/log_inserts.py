"""Records that are in log files alone: writers of Hudi with SIMPLE or BLOOM indexes look into base files, and add such keys a second time."""

from __future__ import annotations

from typing import Final

from rli.errors import InstantNotFoundError
from rli.hudi.lock_settings import is_lock_named
from rli.index_urls import is_of_buckets
from rli.view.file_findings import Commits
from rli.view.snapshot import Snapshot

ONLY_IN_LOGS: Final = (
    "new records may be in log files alone, and the SIMPLE and BLOOM indexes of Hudi add their keys a second time"
)
"""The problem with such records."""

MERGE_NEW_RECORDS: Final = (
    "run: rli table-type TABLE --no-log-inserts, then: rli compact TABLE; or enable record_index in the metadata table, and give "
    "hoodie.index.type=RECORD_INDEX to all writers of Hudi"
)
"""What to do about such records."""


def may_have_hudi_writers(snapshot: Snapshot) -> bool:
    """Whether the table shares a lock with writers of Hudi, or a recent commit is of another engine, or was archived meanwhile.

    Raises:
        CorruptTableError: a commit cannot be read; names it.
    """
    try:
        return is_lock_named(snapshot.table.properties.raw) or bool(snapshot.recent_writes_of_others())
    except InstantNotFoundError:
        return True


def log_of_new_records(snapshot: Snapshot, commits: Commits) -> str | None:
    """The path of a log file that may hold records whose keys no base file holds; None if there is none, as far as that matters.

    With a bucket index, every engine finds such records, by hashes of the keys. A log file whose commit was archived may hold some.

    Args:
        snapshot: the present state.
        commits: of the state.
    """
    table = snapshot.table
    if table.properties.is_copy_on_write or table.settings is None or is_of_buckets(table.index_url):
        return None
    logs = [log.path for file_slice in snapshot.slices.values() for log in file_slice.logs]
    without = {stat.path for commit in commits.values() for stat in commit.appended if not stat.inserts}
    return min((path for path in logs if path not in without), default=None)
