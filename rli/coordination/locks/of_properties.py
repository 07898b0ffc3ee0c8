"""The lock that the present properties of a table name."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Final

from rli.coordination.locks.contract import SharedLock
from rli.coordination.locks.file_lock import FileLock
from rli.errors import UnsupportedTableError
from rli.hudi.lock_settings import FILE_FOLDER, PROVIDER, LockSettings
from rli.hudi.properties import load_properties
from rli.view.definition import TableDefinition

_DEFAULT_FOLDER: Final = ".hoodie"
_LOCAL: Final = "file:"


def present_lock(table: TableDefinition) -> SharedLock | None:
    """The lock that a table's properties name now; None where they name none.

    Raises:
        UnsupportedTableError: rli does not take locks of this provider, or not on the table's storage.
        TableNotFoundError: the table was dropped.
    """
    settings = LockSettings.of(load_properties(table.storage).raw, table.location)
    if settings is None:
        return None
    return FileLock(_folder(table, settings), settings.file_expiry, table.require_settings().table_id)


def _folder(table: TableDefinition, settings: LockSettings) -> Path:
    """The folder of the lock file: on this machine, or mounted."""
    named = settings.file_folder
    if named is None and table.storage.is_local:
        return Path(posixpath.join(table.storage.root, _DEFAULT_FOLDER))
    path = Path(named.removeprefix(_LOCAL)) if named is not None else Path()
    if not path.is_absolute():
        raise UnsupportedTableError(
            f"rli takes the lock {settings.provider} on file systems of this machine alone: table={table.location} "
            f"{FILE_FOLDER}={named}",
            remedy=f"set {FILE_FOLDER} to a folder that all writers have mounted, or {PROVIDER} to another provider",
        )
    return path
