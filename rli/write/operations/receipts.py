"""The receipt of a write by condition: which files still hold what it removed, and until when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Final

from rli.errors import RliError
from rli.file_group.journal_list import readable_journals
from rli.hudi.timeline.instant import Instant
from rli.model import CommitResult, Receipt
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot

_MOST_KEYS: Final = 1000


def with_receipt(table: TableDefinition, result: CommitResult) -> CommitResult:
    """A result with its receipt, if something was committed.

    The commit stands: what cannot be told any more, because a clean or an archive was faster, is not in the receipt.
    """
    if result.instant is None or result.dry_run:
        return result
    try:
        receipt = _receipt(Snapshot.now(table), result.instant)
    except (RliError, OSError):
        return result
    return replace(result, receipt=receipt)


def _receipt(snapshot: Snapshot, time: str) -> Receipt | None:
    commit = next((write for write in snapshot.timeline.completed_writes if write.time == time), None)
    if commit is None:
        return None
    change = snapshot.change(commit)
    groups, written = change.groups, {stat.path for stat in change.stats}
    stored = snapshot.slices.all_versions({group.partition_path for group in groups})
    former = sorted((one for one in stored if one.group in groups and one.instant < time), key=lambda one: one.instant)
    # In tables of version 6, log files of the write are parts of an older slice.
    files = [file.path for one in former for file in one.files if file.path not in written]
    keys = _deleted_keys(snapshot, time)
    return Receipt(
        keys=keys[:_MOST_KEYS],
        has_all_keys=len(keys) <= _MOST_KEYS,
        files=tuple(files),
        held_until=time,
        savepoints=tuple(_holding(snapshot, snapshot.timeline.savepoints, {*files})),
    )


def _deleted_keys(snapshot: Snapshot, time: str) -> tuple[str, ...]:
    """Keys that the index has lost by a commit, one more than a receipt has at most; none if its journals are gone."""
    storage = snapshot.table.storage
    arrays = (keys for journal in readable_journals(storage, time) or () for keys in journal.deleted_keys(storage))
    return tuple(islice((key for some in arrays for key in some.to_pylist()), _MOST_KEYS + 1))


def _holding(snapshot: Snapshot, savepoints: Iterable[Instant], files: set[str]) -> Iterable[str]:
    """The savepoints that keep one of some files."""
    for saved in savepoints:
        live = snapshot.as_of(saved.time).slices.values()
        if any(file.path in files for one in live for file in one.files):
            yield saved.time
