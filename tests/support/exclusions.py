"""Leases and locks that keep two writers of a table apart; of locks, neither writer knows the lease of the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rli.coordination.contract import MutualExclusion
from rli.coordination.file_records import FileRecords
from rli.coordination.lease import TableLease
from rli.coordination.locks.contract import SharedLock
from rli.coordination.locks.locked_lease import LockedLease
from rli.storage import Storage

Parties = Callable[[str], MutualExclusion]
"""Name of a party → the lease or lock that it holds while it changes the table."""


def lease_of(folder: Path) -> TableLease:
    """A lease with its record in a folder, which is made."""
    folder.mkdir(exist_ok=True)
    return TableLease(FileRecords(Storage(str(folder))))


def behind_a_lease(lock: SharedLock, folder: Path) -> LockedLease:
    """A lock, with a lease in a folder that its party does not share."""
    return LockedLease(lease_of(folder), lambda: lock)
