"""Findings of the doctor about writers of Hudi: may they write at the same moment as rli?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rli.errors import UnsupportedTableError
from rli.findings import Finding, Verdict, problem
from rli.hudi.lock_settings import PROVIDER, LockSettings
from rli.view.snapshot import Snapshot

_RECENT: Final = 20
"""Number of the last commits that tell which engines write the table."""

_DROPS_METADATA: Final = "hoodie.metadata.auto.delete.partitions"
_HOW_TO: Final = "docs/how-to/beside-hudi-writers.md"


def lock_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """The lock that writers of Hudi and of rli share, and whether the table needs one.

    Args:
        snapshot: the present state, whose commits can be read.
    """
    raw = snapshot.table.properties.raw
    try:
        lock = LockSettings.of(raw, snapshot.table.location)
    except UnsupportedTableError as error:
        yield problem("lock", error)
        return
    if lock is not None:
        yield Finding("lock", Verdict.OK, f"shared with writers of Hudi: provider={lock.provider}")
    else:
        yield from _without_lock(snapshot, raw.get(PROVIDER, "none"))
    if raw.get(_DROPS_METADATA, "").strip().lower() == "true":
        yield Finding(
            "lock",
            Verdict.WARNING,
            f"a writer of Hudi with other options drops partitions of the metadata table: {_DROPS_METADATA}=true",
            f"set it to false, see {_HOW_TO}",
        )


def _without_lock(snapshot: Snapshot, provider: str) -> Iterator[Finding]:
    recent = snapshot.timeline.completed_writes[-_RECENT:]
    foreign = [write.time for write in recent if not snapshot.change(write).is_native]
    if foreign and len(foreign) < len(recent):
        yield Finding(
            "lock",
            Verdict.WARNING,
            f"rli and another engine write the table, and share no lock: commits={len(recent)} "
            f"of_others={len(foreign)} last={foreign[-1]} provider={provider}",
            f"let their jobs take turns, or share a lock: {_HOW_TO}",
        )
