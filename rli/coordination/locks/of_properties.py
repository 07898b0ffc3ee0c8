"""The lock that the properties of a table name."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rli.coordination.locks.contract import SharedLock
from rli.coordination.locks.file_lock import FileLock
from rli.coordination.locks.storage_lock import StorageLock
from rli.errors import SettingsError, UnsupportedTableError
from rli.hudi.lock_settings import (
    FILE_FOLDER,
    PROVIDER,
    FileLockSettings,
    LockSettings,
    StorageLockSettings,
    ZookeeperLockSettings,
    lock_settings,
)
from rli.hudi.properties import load_properties
from rli.storage import Storage
from rli.view.definition import TableDefinition

_DEFAULT_FOLDER: Final = ".hoodie"
_LOCAL: Final = "file:"
_NEW_TABLE: Final = "new"


def present_lock(table: TableDefinition) -> SharedLock | None:
    """The lock that a table's stored properties name now; None for none.

    Raises:
        UnsupportedTableError: rli does not take locks of this provider, or not on the table's storage.
        SettingsError: a library is not installed.
        TableNotFoundError: the table was dropped.
    """
    settings = lock_settings(load_properties(table.storage).raw, table.location)
    return None if settings is None else _lock(table.storage, settings, table.require_settings().table_id)


def require_usable_lock(storage: Storage, raw: Mapping[str, str]) -> None:
    """Raise, as ``present_lock`` does, if a new table cannot have the lock that its properties name.

    Args:
        storage: of the table.
        raw: its properties.
    """
    settings = lock_settings(raw, storage.location)
    if settings is not None:
        _lock(storage, settings, _NEW_TABLE)


def is_usable_lock(storage: Storage, raw: Mapping[str, str]) -> bool:
    """Whether rli takes the lock that the properties of a table name, if they name one.

    Args:
        storage: of the table.
        raw: its properties.
    """
    try:
        require_usable_lock(storage, raw)
    except UnsupportedTableError:
        return False
    return True


def _lock(storage: Storage, settings: LockSettings, table_id: str) -> SharedLock:
    match settings:
        case FileLockSettings():
            return FileLock(_folder(storage, settings), settings.expiry, table_id)
        case StorageLockSettings():
            _require_object_store(storage, settings)
            return StorageLock(storage, settings, table_id)
        case ZookeeperLockSettings():
            return _zookeeper_lock(settings, table_id)


def _zookeeper_lock(settings: ZookeeperLockSettings, table_id: str) -> SharedLock:
    try:
        from rli.coordination.locks.zookeeper_lock import ZookeeperLock  # noqa: PLC0415  (needs an optional dependency)
    except ImportError as error:
        raise SettingsError(
            f"the lock {settings.provider} needs kazoo: servers={settings.servers}",
            remedy="pip install 'record-level-index[zookeeper]'",
        ) from error
    return ZookeeperLock(settings, table_id)


def _require_object_store(storage: Storage, settings: StorageLockSettings) -> None:
    if storage.is_local:
        raise UnsupportedTableError(
            f"Hudi has the lock {settings.provider} only for tables in S3, Google Cloud Storage and Azure: "
            f"table={storage.location}",
            remedy="take the lock filesystem or zookeeper://…",
        )


def _folder(storage: Storage, settings: FileLockSettings) -> Path:
    """The folder of the lock file: on this machine, or mounted."""
    if settings.folder is None and storage.is_local:
        return Path(posixpath.join(storage.root, _DEFAULT_FOLDER))
    path = Path(settings.folder.removeprefix(_LOCAL)) if settings.folder is not None else Path()
    if not path.is_absolute():
        raise UnsupportedTableError(
            f"rli takes the lock {settings.provider} on file systems of this machine alone: table={storage.location} "
            f"{FILE_FOLDER}={settings.folder}",
            remedy=f"set {FILE_FOLDER} to a folder that all writers have mounted, or {PROVIDER} to another provider",
        )
    return path
