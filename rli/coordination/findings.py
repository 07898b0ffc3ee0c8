"""Findings of the doctor about writers of Hudi: may they write at the same moment as rli?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rli.errors import UnsupportedTableError
from rli.findings import Finding, Verdict, problem
from rli.hudi.lock_settings import FILE_EXPIRY, PROVIDER, FileLockSettings, chosen_lock, lock_settings
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.timeline.instant import Instant
from rli.view.file_findings import Commits
from rli.view.log_inserts import MERGE_NEW_RECORDS, ONLY_IN_LOGS, log_of_new_records, may_have_hudi_writers
from rli.view.snapshot import RECENT_WRITES, Snapshot

_DROPS_METADATA: Final = "hoodie.metadata.auto.delete.partitions"
_SHORT_EXPIRY_SECONDS: Final = 600
_UPGRADES: Final = "hoodie.write.auto.upgrade"
_RELEASES: Final = {6: "0.14 to 0.15, or later ones told to stay there", 8: "1.0", 9: "1.1 or later"}
"""Table version → releases of Hudi that make tables of this version."""

_HOW_TO: Final = "docs/how-to/beside-hudi-writers.md"


def lock_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """The lock that writers of Hudi and of rli share, and whether the table needs one.

    Args:
        snapshot: the present state, whose commits can be read.
    """
    raw = snapshot.table.properties.raw
    try:
        lock = lock_settings(raw, snapshot.table.location)
    except UnsupportedTableError as error:
        yield problem("lock", error)
        return
    recent = snapshot.timeline.completed_writes[-RECENT_WRITES:]
    foreign = snapshot.recent_writes_of_others()
    if lock is not None:
        yield Finding(
            "lock", Verdict.OK, f"shared with writers of Hudi: provider={lock.provider} lock={chosen_lock(raw)}"
        )
        if isinstance(lock, FileLockSettings) and 0 < lock.expiry < _SHORT_EXPIRY_SECONDS:
            yield Finding(
                "lock",
                Verdict.WARNING,
                "Hudi does not renew its lock file: a commit of Hudi that takes longer than the expiry loses the lock, and "
                f"publishes beside others: {FILE_EXPIRY}={lock.expiry // 60}",
                f"set it to 0 (never), or to more minutes than any commit takes: {_HOW_TO}",
            )
    elif foreign and len(foreign) < len(recent):
        yield Finding(
            "lock",
            Verdict.WARNING,
            f"rli and another engine write the table, and share no lock: commits={len(recent)} "
            f"of_others={len(foreign)} last={foreign[-1].time} provider={raw.get(PROVIDER, 'none')}",
            f"let their jobs take turns, or share a lock: {_HOW_TO}",
        )
    if foreign:
        yield _last_of_others(snapshot, foreign[-1])
    if raw.get(_DROPS_METADATA, "").strip().lower() == "true":
        yield Finding(
            "lock",
            Verdict.WARNING,
            f"a writer of Hudi with other options drops partitions of the metadata table: {_DROPS_METADATA}=true",
            f"set it to false, see {_HOW_TO}",
        )


def log_insert_findings(snapshot: Snapshot, commits: Commits) -> Iterator[Finding]:
    """Records in log files alone, in a table that writers of Hudi write, too.

    Args:
        snapshot: the present state, whose files have been listed.
        commits: of the state.
    """
    log = log_of_new_records(snapshot, commits) if may_have_hudi_writers(snapshot) else None
    if log is None:
        return
    if PartitionKind.RECORD_INDEX in snapshot.table.properties.metadata_partitions:
        told = "new records may be in log files alone: all writers of Hudi need hoodie.index.type=RECORD_INDEX"
        yield Finding("log inserts", Verdict.OK, f"{told}: file={log}")
        return
    yield Finding("log inserts", Verdict.WARNING, f"{ONLY_IN_LOGS}: file={log}", MERGE_NEW_RECORDS)


def _last_of_others(snapshot: Snapshot, last: Instant) -> Finding:
    """Which engine wrote last, as far as the table tells: Hudi writes its release nowhere, but the table has a version."""
    version = snapshot.table.properties.version
    told = (
        f"last commit of another engine: instant={last.time} action={last.action} "
        f"operation={snapshot.change(last).operation} table_version={version} releases={_RELEASES.get(version, 'unknown')}"
    )
    if version < max(_RELEASES) and snapshot.table.properties.raw.get(_UPGRADES, "").strip().lower() != "false":
        told += f"; a later release of Hudi upgrades the table, unless its jobs set {_UPGRADES}=false"
    return Finding("other engines", Verdict.OK, told)
